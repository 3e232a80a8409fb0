"""Recall and the search over messages, over HTTP."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from httpx import AsyncClient

from plugins.schedule.chores import make_searchable
from tests.admin.seed import BOT, FRIEND, GROUP, MING, OTHER_GROUP, WEI, Seeded, View

SAYINGS = [
    (MING, "fact", "小明喜欢吃火锅"),
    (WEI, "preference", "阿伟吃火锅不放辣"),
    (MING, "event", "小明三月五号去过成都"),
    (MING, "fact", "小明用的版本是 v2.3"),
]


async def _remember(api: AsyncClient) -> None:
    for subject, kind, content in SAYINGS:
        body = {"group_id": GROUP, "subject_id": subject, "kind": kind, "content": content}
        assert (await api.post("/api/memories", json=body)).status_code == 201


async def _recall(api: AsyncClient, **params: object) -> list[dict[str, object]]:
    answer = await api.get("/api/recall", params={"group_id": GROUP} | params)  # pyright: ignore[reportArgumentType]
    assert answer.status_code == 200, answer.text
    return answer.json()["items"]


async def test_recall_names_score_and_ranks_best_first(api: AsyncClient, view: View) -> None:
    await _remember(api)
    items = await _recall(api, q="火锅")
    assert {item["content"] for item in items[:2]} == {"小明喜欢吃火锅", "阿伟吃火锅不放辣"}
    assert set(items[0]) == {"id", "content", "score", "vector_rank", "text_rank", "kind", "subject_kind", "subject_id"}
    scores = [item["score"] for item in items]
    assert scores == sorted(scores, reverse=True)  # type: ignore[type-var]
    assert {item["text_rank"] for item in items[:2]} == {1, 2}
    view.backend.away = "连不上"
    assert [item["vector_rank"] for item in await _recall(api, q="成都")] == [None]


async def test_recall_filters_bounds_and_can_leave_the_prior_out(api: AsyncClient, view: View) -> None:
    await _remember(api)
    assert len(await _recall(api, q="火锅", limit=1)) == 1
    assert [item["content"] for item in await _recall(api, q="火锅", subject_id=WEI)] == ["阿伟吃火锅不放辣"]
    assert [item["content"] for item in await _recall(api, q="火锅", kind="preference")] == ["阿伟吃火锅不放辣"]
    assert await _recall(api, q="火锅", group_id=OTHER_GROUP) == []
    async with view.database.connection() as conn:
        await conn.execute("UPDATE memories SET uses = 50, used_at = now() WHERE content = '小明喜欢吃火锅'")
    used = {item["content"]: item["score"] for item in await _recall(api, q="火锅")}
    plain = {item["content"]: item["score"] for item in await _recall(api, q="火锅", prior=False)}
    assert used["小明喜欢吃火锅"] > plain["小明喜欢吃火锅"]  # type: ignore[operator]


async def test_recall_never_leaves_the_group(api: AsyncClient, seeded: Seeded) -> None:
    assert seeded
    await _remember(api)
    answer = await api.get("/api/recall", params={"user_id": FRIEND, "q": "火锅"})
    assert answer.json() == {"items": []}


@pytest.mark.parametrize(
    ("params", "says"),
    [
        ({"group_id": GROUP}, "q：缺少"),
        ({"q": "火锅"}, "请给出 group_id 或 user_id"),
        ({"group_id": GROUP, "q": "火锅", "limit": 51}, "limit：不能大于 50"),
        ({"group_id": GROUP, "q": "火锅", "limit": 0}, "limit：不能小于 1"),
        ({"group_id": GROUP, "q": "火锅", "subject_id": 2**63}, "subject_id：不能大于"),
        ({"group_id": GROUP, "q": "火锅", "prior": "maybe"}, "prior：应为"),
    ],
)
async def test_a_wrong_recall_is_refused(api: AsyncClient, params: dict[str, str], says: str) -> None:
    answer = await api.get("/api/recall", params=params)
    assert answer.status_code == 422
    assert says in answer.json()["detail"]


async def _search(api: AsyncClient, **params: object) -> list[dict[str, object]]:
    answer = await api.get("/api/search", params={"group_id": GROUP} | params)  # pyright: ignore[reportArgumentType]
    assert answer.status_code == 200, answer.text
    return answer.json()["items"]


async def test_what_was_said_is_found_with_what_stands_around_it(api: AsyncClient, view: View, seeded: Seeded) -> None:
    assert seeded
    await make_searchable(view.database)
    [hit, *_] = await _search(api, q="老地方")
    assert (hit["pos"], hit["sender_id"], hit["is_self"], hit["text_rank"]) == (3, BOT, True, 1)
    assert hit["text"] == "[回复 小明:「七点开局吗」] 七点，老地方"
    assert hit["sent_at"] == "2026-11-28T04:00:00Z"
    assert [line["pos"] for line in hit["before"]] == [1, 2]  # type: ignore[union-attr, index]
    assert [line["pos"] for line in hit["after"]] == [5]  # type: ignore[union-attr, index]


async def test_what_was_withdrawn_or_said_elsewhere_is_not_found(api: AsyncClient, view: View, seeded: Seeded) -> None:
    assert seeded
    await make_searchable(view.database)
    assert not any(item["pos"] == 4 for item in await _search(api, q="带上新桌游"))
    assert await _search(api, group_id=OTHER_GROUP, q="老地方") == []


async def test_a_sender_and_a_time_are_hard_limits(api: AsyncClient, view: View, seeded: Seeded) -> None:
    assert seeded
    await make_searchable(view.database)
    async with view.database.connection() as conn:
        await conn.execute("UPDATE messages SET sent_at = %(at)s WHERE pos = 1", {"at": datetime.now(UTC) - timedelta(days=400)})
    assert [item["pos"] for item in await _search(api, sender_id=MING)] == [5, 1]
    assert [item["pos"] for item in await _search(api, q="开局", sender_id=MING)] == [1]
    assert [item["pos"] for item in await _search(api, q="七点", when="2026-11-28")] == [3]
    assert [item["pos"] for item in await _search(api, sender_id=MING, when="2026-11-28")] == [5]


async def test_search_pages(api: AsyncClient, view: View, seeded: Seeded) -> None:
    assert seeded
    await make_searchable(view.database)
    first = (await api.get("/api/search", params={"group_id": GROUP, "sender_id": MING, "limit": 1})).json()
    assert ([item["pos"] for item in first["items"]], first["next_page"]) == ([5], 2)
    second = (await api.get("/api/search", params={"group_id": GROUP, "sender_id": MING, "limit": 1, "page": 2})).json()
    assert [item["pos"] for item in second["items"]] == [1]


@pytest.mark.parametrize(
    ("params", "says"),
    [
        ({"group_id": GROUP}, "请给出 q、sender_id 或 when"),
        ({"q": "火锅"}, "请给出 group_id 或 user_id"),
        ({"group_id": GROUP, "q": "火锅", "when": "哪天来着"}, "when：没看懂"),
        ({"group_id": GROUP, "q": "火锅", "limit": 21}, "limit：不能大于 20"),
        ({"group_id": GROUP, "q": "火锅", "page": 51}, "page：不能大于 50"),
        ({"group_id": GROUP, "sender_id": 0}, "sender_id：不能小于 1"),
    ],
)
async def test_a_wrong_search_is_refused(api: AsyncClient, params: dict[str, str], says: str) -> None:
    answer = await api.get("/api/search", params=params)
    assert answer.status_code == 422
    assert says in answer.json()["detail"]
