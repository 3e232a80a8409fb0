"""The audit log over the API, and taking back what was done."""

from __future__ import annotations

from typing import get_args

import pytest
from httpx import AsyncClient

from db.learned_models import TargetKind
from db.undo import RESTORES
from tests.admin.seed import GROUP, OTHER_GROUP, Seeded, View

MEMORY = {"group_id": GROUP, "kind": "fact", "content": "群里周五晚上一起打游戏"}


async def _latest(api: AsyncClient, **params: int) -> dict:
    answer = await api.get("/api/audit", params={"limit": 1, **params})
    return answer.json()["items"][0]


async def test_a_change_of_a_memory_is_taken_back_and_the_undo_as_well(api: AsyncClient, seeded: Seeded):
    made = (await api.post("/api/memories", json=MEMORY)).json()
    await api.patch(f"/api/memories/{made['id']}", json={"content": "群里周六晚上一起打游戏"})
    change = await _latest(api)
    assert (change["action"], change["row_kind"], change["row_id"]) == ("memory.change", "memory", made["id"])
    assert (change["target_id"], change["actor"], change["undone_at"]) == (GROUP, "api", None)

    undone = await api.post(f"/api/audit/{change['id']}/undo")
    assert undone.status_code == 200
    assert undone.json()["undoes"] == change["id"]
    assert (await api.get(f"/api/memories/{made['id']}")).json()["content"] == MEMORY["content"]

    undo = await _latest(api)
    assert (undo["action"], undo["undoes"]) == ("memory.change.undo", change["id"])
    assert (await api.post(f"/api/audit/{undo['id']}/undo")).status_code == 200
    assert (await api.get(f"/api/memories/{made['id']}")).json()["content"] == "群里周六晚上一起打游戏"


async def test_a_memory_that_was_written_is_archived_by_the_undo(api: AsyncClient, seeded: Seeded):
    made = (await api.post("/api/memories", json=MEMORY)).json()
    assert (await api.post(f"/api/audit/{(await _latest(api))['id']}/undo")).status_code == 200
    assert (await api.get(f"/api/memories/{made['id']}")).json()["status"] == "archived"


async def test_what_changed_since_is_not_taken_back(api: AsyncClient, seeded: Seeded):
    made = (await api.post("/api/memories", json=MEMORY)).json()
    await api.patch(f"/api/memories/{made['id']}", json={"content": "群里周六晚上一起打游戏"})
    first = await _latest(api)
    await api.patch(f"/api/memories/{made['id']}", json={"content": "群里周日晚上一起打游戏"})
    answer = await api.post(f"/api/audit/{first['id']}/undo")
    assert answer.status_code == 409
    assert "后来又改过" in answer.json()["detail"]
    assert (await api.get(f"/api/memories/{made['id']}")).json()["content"] == "群里周日晚上一起打游戏"


async def test_nothing_is_taken_back_twice(api: AsyncClient, seeded: Seeded):
    await api.post("/api/memories", json=MEMORY)
    first = await _latest(api)
    assert (await api.post(f"/api/audit/{first['id']}/undo")).status_code == 200
    again = await api.post(f"/api/audit/{first['id']}/undo")
    assert again.status_code == 409
    assert "已经撤销" in again.json()["detail"]


async def test_what_was_deleted_for_good_stays_deleted(api: AsyncClient, seeded: Seeded):
    made = (await api.post("/api/memories", json=MEMORY)).json()
    await api.delete(f"/api/memories/{made['id']}")
    answer = await api.post(f"/api/audit/{(await _latest(api))['id']}/undo")
    assert answer.status_code == 409
    assert "不能撤销" in answer.json()["detail"]


async def test_a_groups_settings_are_put_back_and_the_chat_is_told(api: AsyncClient, seeded: Seeded, view: View):
    before = (await api.get("/api/conversations", params={"limit": 50})).json()["items"]
    old = next(item for item in before if item["kind"] == "group" and item["target_id"] == GROUP)
    await api.patch("/api/conversations", params={"group_id": GROUP}, json={"talk_frequency": 0.9})
    change = await _latest(api, group_id=GROUP)
    assert change["action"] == "conversation.change"
    view.told.clear()
    assert (await api.post(f"/api/audit/{change['id']}/undo")).status_code == 200
    after = (await api.get("/api/conversations", params={"limit": 50})).json()["items"]
    now = next(item for item in after if item["kind"] == "group" and item["target_id"] == GROUP)
    assert now["talk_frequency"] == old["talk_frequency"]
    assert view.told


async def test_the_log_is_read_group_by_group_and_page_by_page(api: AsyncClient, seeded: Seeded):
    for number in range(3):
        await api.post("/api/memories", json=MEMORY | {"content": f"群里第 {number} 件事"})
    await api.post("/api/memories", json=MEMORY | {"group_id": OTHER_GROUP})
    first = (await api.get("/api/audit", params={"group_id": GROUP, "limit": 2})).json()
    rest = (await api.get("/api/audit", params={"group_id": GROUP, "limit": 2, "before": first["next_before"]})).json()
    contents = [item["after"]["content"] for item in [*first["items"], *rest["items"]]]
    assert contents == ["群里第 2 件事", "群里第 1 件事", "群里第 0 件事"]
    assert rest["next_before"] is None
    assert (await api.get("/api/audit", params={"group_id": 7000000999})).json()["items"] == []


async def test_wrong_ids_and_pages(api: AsyncClient, seeded: Seeded):
    assert (await api.post("/api/audit/999999/undo")).status_code == 404
    assert (await api.post("/api/audit/0/undo")).status_code == 422
    assert (await api.post("/api/audit/abc/undo")).status_code == 422
    assert (await api.get("/api/audit", params={"limit": 5000})).status_code == 422


async def test_a_rejected_term_is_put_back_by_the_undo(api: AsyncClient, seeded: Seeded):
    made = (await api.post("/api/slang", json={"group_id": GROUP, "term": "摸鱼", "meaning": "上班偷懒"})).json()
    rejected = (await api.patch(f"/api/slang/{made['id']}", json={"status": "rejected", "version": made["version"]})).json()
    act = await _latest(api)
    assert (act["row_kind"], act["row_id"]) == ("slang", made["id"])
    assert (await api.post(f"/api/audit/{act['id']}/undo")).status_code == 200
    now = (await api.get(f"/api/slang/{made['id']}")).json()
    assert (now["status"], now["meaning"]) == ("approved", "上班偷懒")
    assert now["version"] > rejected["version"]
    again = await _latest(api)
    assert (await api.post(f"/api/audit/{again['id']}/undo")).status_code == 200
    assert (await api.get(f"/api/slang/{made['id']}")).json()["status"] == "rejected"


async def test_a_rejected_expression_is_put_back_by_the_undo(api: AsyncClient, seeded: Seeded):
    new = {"group_id": GROUP, "situation": "有人加班到很晚", "phrase": "早点睡，别卷了"}
    made = (await api.post("/api/expressions", json=new)).json()
    await api.patch(f"/api/expressions/{made['id']}", json={"status": "rejected", "version": made["version"]})
    act = await _latest(api)
    assert (act["row_kind"], act["row_id"]) == ("expression", made["id"])
    assert (await api.post(f"/api/audit/{act['id']}/undo")).status_code == 200
    assert (await api.get(f"/api/expressions/{made['id']}")).json()["status"] == "approved"


async def _undo(api: AsyncClient, act: int) -> int:
    return (await api.post(f"/api/audit/{act}/undo")).status_code


async def _items(api: AsyncClient) -> list[int]:
    return [item["id"] for item in (await api.get("/api/audit", params={"limit": 20})).json()["items"]]


async def _after_two_changes(api: AsyncClient, path: str, first: dict, second: dict) -> tuple[dict, dict, list[int]]:
    """Change a row twice; gives it before and after, and both acts, the later first."""
    before = (await api.get(path)).json()
    for change in (first, second):
        assert (await api.patch(path, json=change | {"version": (await api.get(path)).json()["version"]})).status_code == 200
    return before, (await api.get(path)).json(), (await _items(api))[:2]


def _same(one: dict, other: dict) -> bool:
    changing = {"version", "updated_at", "history", "meanings", "variants"}
    return {k: v for k, v in one.items() if k not in changing} == {k: v for k, v in other.items() if k not in changing}


SLANG = {"group_id": GROUP, "term": "摸鱼", "meaning": "上班偷懒"}
EXPRESSION = {"group_id": GROUP, "situation": "有人加班到很晚", "phrase": "早点睡，别卷了"}


@pytest.mark.parametrize(
    ("place", "new", "first", "second"),
    [
        ("/api/slang", SLANG, {"note": "问过"}, {"meaning": "偷懒"}),
        ("/api/expressions", EXPRESSION, {"note": "问过"}, {"phrase": "快去睡觉"}),
        ("/api/memories", MEMORY, {"content": "群里周六晚上一起打游戏"}, {"content": "群里周日晚上一起打游戏"}),
    ],
)
async def test_acts_are_taken_back_one_after_the_other_and_put_back_so(
    api: AsyncClient, seeded: Seeded, place: str, new: dict, first: dict, second: dict
):
    made = (await api.post(place, json=new)).json()
    path = f"{place}/{made['id']}"
    before, after, (later, earlier) = await _after_two_changes(api, path, first, second)
    assert await _undo(api, earlier) == 409
    assert [await _undo(api, act) for act in (later, earlier)] == [200, 200]
    assert _same((await api.get(path)).json(), before)
    undo_earlier, undo_later = (await _items(api))[:2]
    assert await _undo(api, undo_later) == 409
    assert [await _undo(api, act) for act in (undo_earlier, undo_later)] == [200, 200]
    assert _same((await api.get(path)).json(), after)
    assert await _undo(api, earlier) == 409


async def test_an_act_is_not_taken_back_over_one_that_was_done_again(api: AsyncClient, seeded: Seeded):
    made = (await api.post("/api/slang", json=SLANG)).json()
    path = f"/api/slang/{made['id']}"
    _, after, (later, earlier) = await _after_two_changes(api, path, {"note": "问过"}, {"meaning": "偷懒"})
    assert await _undo(api, later) == 200
    assert await _undo(api, (await _items(api))[0]) == 200
    assert await _undo(api, earlier) == 409
    assert _same((await api.get(path)).json(), after)


def test_every_kind_of_act_with_a_target_can_be_taken_back():
    assert set(RESTORES) == set(get_args(TargetKind))
