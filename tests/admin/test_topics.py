"""Topics over HTTP: listed with their summary and people, read with their versions and messages."""

from __future__ import annotations

import pytest
from httpx import AsyncClient

from db import topics
from db.learned_models import TopicId
from db.models import MessageRow
from db.topic_end import withdrawn
from db.topics import Version
from tests.admin.seed import FRIEND, GROUP, MING, OTHER_GROUP, WEI, Seeded, View


async def _rows(view: View, seeded: Seeded, *positions: int) -> list[MessageRow]:
    async with view.database.connection() as conn:
        cur = await conn.execute(
            "SELECT id FROM messages WHERE conversation_id = %(group)s AND pos = ANY(%(positions)s) ORDER BY pos",
            {"group": seeded.group, "positions": list(positions)},
        )
        return [MessageRow(row[0]) for row in await cur.fetchall()]


async def _topic(view: View, seeded: Seeded, *positions: int, versions: int = 1) -> TopicId:
    """Put in a topic of some messages, with so many versions."""
    rows = await _rows(view, seeded, *positions)
    async with view.database.transaction() as conn:
        topic = await topics.create(conn, seeded.group, rows)
        await topics.put(conn, [(row, topic) for row in rows])
        for number in range(1, versions + 1):
            made = Version(topic, number, None, tuple(rows), f"桌游{number}", f"约桌游，第{number}版", ("谁带牌",), ("桌游",))
            assert await topics.add_version(conn, made)
        if versions:
            await topics.settle(conn, [topic])
    return topic


async def test_a_topic_is_shown_with_its_summary_and_who_took_part(api: AsyncClient, view: View, seeded: Seeded) -> None:
    async with view.database.connection() as conn:
        await conn.execute(
            "INSERT INTO members (conversation_id, user_id, no, nickname, card) VALUES (%(group)s, %(ming)s, 1, '明', '小明')",
            {"group": seeded.group, "ming": MING},
        )
    topic = await _topic(view, seeded, 1, 2, 5, versions=2)
    answer = await api.get("/api/topics", params={"group_id": GROUP})
    assert answer.status_code == 200
    [item] = answer.json()["items"]
    assert (item["id"], item["group_id"], item["user_id"], item["messages"], item["stale"]) == (topic, GROUP, None, 3, False)
    assert item["participants"] == [{"user_id": MING, "name": "小明"}, {"user_id": WEI, "name": "用户0012"}]
    summary = item["summary"]
    assert (summary["version"], summary["title"], summary["gist"]) == (2, "桌游2", "约桌游，第2版")
    assert (summary["open_loops"], summary["keywords"]) == (["谁带牌"], ["桌游"])


async def test_a_topic_is_read_with_all_versions_and_its_messages(api: AsyncClient, view: View, seeded: Seeded) -> None:
    topic = await _topic(view, seeded, 1, 5, versions=2)
    [first, _] = await _rows(view, seeded, 1, 5)
    async with view.database.transaction() as conn:
        await withdrawn(conn, [first])
        await conn.execute("UPDATE messages SET withdrawn_at = now() WHERE id = %(id)s", {"id": first})
    detail = (await api.get(f"/api/topics/{topic}")).json()
    assert (detail["messages"], detail["stale"], detail["summary"]) == (1, True, None)
    assert [(item["version"], item["title"], item["gist"], item["sources"]) for item in detail["versions"]] == [
        (2, "", "", 2),
        (1, "", "", 2),
    ]
    assert all(item["dropped_at"] for item in detail["versions"])
    assert [(line["pos"], line["sender_id"], line["text"]) for line in detail["lines"]] == [(5, MING, "好")]


async def test_the_list_begins_with_the_newest_and_pages_by_number(api: AsyncClient, view: View, seeded: Seeded) -> None:
    made = [await _topic(view, seeded, 2, 5), await _topic(view, seeded, 3, versions=0), await _topic(view, seeded, 1)]
    for params in ({"group_id": GROUP, "limit": 2}, {"limit": 2}):
        first = (await api.get("/api/topics", params=params)).json()
        assert [item["id"] for item in first["items"]] == [made[2], made[1]]
        assert [item["summary"] is None for item in first["items"]] == [False, True]
        rest = (await api.get("/api/topics", params=params | {"before": first["next_before"]})).json()
        assert ([item["id"] for item in rest["items"]], rest["next_before"]) == ([made[0]], None)


async def test_topics_of_one_conversation_are_not_listed_for_another(api: AsyncClient, view: View, seeded: Seeded) -> None:
    await _topic(view, seeded, 1)
    for params in ({"group_id": OTHER_GROUP}, {"user_id": FRIEND}):
        assert (await api.get("/api/topics", params=params)).json() == {"items": [], "next_before": None}


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/api/topics?group_id=abc", 422),
        (f"/api/topics?group_id={GROUP}&user_id={FRIEND}", 422),
        (f"/api/topics?group_id={GROUP}&limit=100000", 422),
        (f"/api/topics?group_id={GROUP}&before=0", 422),
        ("/api/topics/0", 422),
        ("/api/topics/abc", 422),
        ("/api/topics/99999999999999999999", 422),
        ("/api/topics/424242", 404),
    ],
)
async def test_wrong_numbers_are_answered_in_words(api: AsyncClient, path: str, status: int) -> None:
    answer = await api.get(path)
    assert answer.status_code == status
    assert any("\u4e00" <= char <= "\u9fff" for char in answer.json()["detail"])
