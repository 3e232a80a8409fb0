"""Expressions over HTTP: listed, written, moderated, merged; who is too late is told what stands there now."""

from __future__ import annotations

from typing import TypeAlias

import pytest
from httpx import AsyncClient

from tests.admin.conftest import client_of
from tests.admin.seed import View
from tests.db.expression_world import ExpressionWorld
from tests.db.memory_world import MING

Item: TypeAlias = dict[str, object]
GROUP, OTHER_GROUP = 5700000001, 5700000002
PAIR = {"group_id": GROUP, "situation": "有人熬夜", "phrase": "又修仙呢"}


@pytest.fixture
async def world(view: View) -> ExpressionWorld:
    """A group."""
    return await ExpressionWorld.create(view.database)


async def listed(api: AsyncClient, **params: object) -> list[str]:
    """The phrases of a list."""
    answer = await api.get("/api/expressions", params={"group_id": GROUP} | params)  # pyright: ignore[reportArgumentType]
    assert answer.status_code == 200, answer.text
    return [item["phrase"] for item in answer.json()["items"]]


async def test_what_a_person_writes_is_there_at_once(api: AsyncClient, world: ExpressionWorld) -> None:
    answer = await api.post("/api/expressions", json=PAIR | {"note": "常用", "situation": " 有人\n熬夜 "})
    item = answer.json()
    assert answer.status_code == 201
    assert (item["group_id"], item["user_id"], item["situation"], item["phrase"]) == (GROUP, None, "有人 熬夜", "又修仙呢")
    assert (item["status"], item["locked"], item["decided_by"], item["source"]) == ("approved", True, "api", "person")
    assert (item["note"], item["version"], item["evidence_count"]) == ("常用", 1, 0)
    assert await world.prompted("熬夜") == ["又修仙呢"]
    again = await api.post("/api/expressions", json=PAIR)
    assert (again.status_code, again.json()["current"]["id"]) == (409, item["id"])
    assert "已经有这个表达了" in again.json()["detail"]
    [entry] = (await api.get("/api/audit")).json()["items"]
    assert (entry["actor"], entry["action"]) == ("api", "expression.create")


@pytest.mark.parametrize(
    ("fields", "about"),
    [
        ({"situation": " "}, "不能为空"),
        ({"phrase": ""}, "不能为空"),
        ({"phrase": "长" * 101}, "不能超过 100 个字"),
        ({"phrase": "\x00"}, "NUL"),
        ({"note": "长" * 501}, "不能超过 500 个字"),
        ({"status": "approved"}, "不认识"),
        ({"group_id": None}, "group_id"),
        ({"group_id": 2**63}, "group_id"),
        ({"user_id": MING}, "只能给一个"),
    ],
)
async def test_what_cannot_be_an_expression_is_refused_in_chinese(api: AsyncClient, fields: Item, about: str) -> None:
    answer = await api.post("/api/expressions", json=PAIR | fields)
    assert (answer.status_code, about in answer.json()["detail"]) == (422, True), answer.text


async def test_lists_are_filtered_and_paged(api: AsyncClient, world: ExpressionWorld) -> None:
    for number in range(3):
        await world.put(f"情况{number}", f"说法{number}")
    await world.approved("情况", "通过的 OK")
    other = await ExpressionWorld.create(world.database, OTHER_GROUP)
    await other.put("别处", "别处的")
    assert await listed(api) == ["通过的 OK", "说法2", "说法1", "说法0"]
    assert await listed(api, status="candidate") == ["说法2", "说法1", "说法0"]
    assert await listed(api, q="ok") == ["通过的 OK"]
    assert await listed(api, q="情况1") == ["说法1"]
    assert await listed(api, q="\x00") == await listed(api)
    assert await listed(api, group_id=5700000099) == []
    first = (await api.get("/api/expressions", params={"limit": 3})).json()
    rest = (await api.get("/api/expressions", params={"limit": 3, "before": first["next_before"]})).json()
    assert [item["phrase"] for item in first["items"] + rest["items"]] == ["别处的", "通过的 OK", "说法2", "说法1", "说法0"]
    assert rest["next_before"] is None


async def test_one_is_read_with_its_evidence_without_what_was_withdrawn(api: AsyncClient, world: ExpressionWorld) -> None:
    await world.talk("三点睡的", "又修仙呢", "哈哈", "又修仙呢")
    row = await world.approved("有人熬夜", "又修仙呢", 2, 4)
    await world.withdraw(4)
    detail = (await api.get(f"/api/expressions/{row}")).json()
    [hit] = detail["evidence"]
    assert (detail["evidence_count"], hit["text"], hit["sender_name"]) == (1, "又修仙呢", "阿伟")
    assert [line["text"] for line in hit["before"] + hit["after"]] == ["三点睡的", "哈哈"]


async def test_changes_need_the_version_that_was_read(api: AsyncClient, world: ExpressionWorld) -> None:
    [pos] = await world.talk("又修仙呢")
    row = await world.put("有人熬夜", "又修仙呢", pos)
    path = f"/api/expressions/{row}"
    approved = await api.patch(path, json={"status": "approved", "version": 1})
    assert (approved.status_code, approved.json()["status"], approved.json()["locked"]) == (200, "approved", False)
    stale = await api.patch(path, json={"status": "rejected", "version": 1})
    assert stale.status_code == 409
    assert (stale.json()["current"]["version"], stale.json()["current"]["status"]) == (2, "approved")
    edited = await api.patch(path, json={"phrase": "又在修仙", "note": "好", "version": 2})
    assert (edited.json()["phrase"], edited.json()["locked"], edited.json()["version"]) == ("又在修仙", True, 3)
    rejected = await api.patch(path, json={"status": "rejected", "version": 3})
    assert rejected.json()["status"] == "rejected"
    assert await world.prompted("熬夜") == []


async def test_words_that_are_taken_are_told(api: AsyncClient, world: ExpressionWorld) -> None:
    first = await world.put("有人熬夜", "又修仙呢")
    second = await world.put("有人通宵", "又修仙呢")
    answer = await api.patch(f"/api/expressions/{second}", json={"situation": "有人熬夜", "version": 1})
    assert (answer.status_code, answer.json()["current"]["id"]) == (409, first)


async def test_two_become_one(api: AsyncClient, world: ExpressionWorld) -> None:
    await world.talk("又修仙呢", "修仙呢")
    into = await world.approved("有人熬夜", "又修仙呢", 1)
    row = await world.put("有人通宵", "修仙呢", 2)
    stale = await api.post(f"/api/expressions/{row}/merge", json={"into": into, "version": 9})
    assert (stale.status_code, stale.json()["current"]["id"]) == (409, row)
    merged = await api.post(f"/api/expressions/{row}/merge", json={"into": into})
    assert (merged.status_code, merged.json()["id"], merged.json()["evidence_count"]) == (200, into, 2)
    assert (await api.get(f"/api/expressions/{row}")).json()["merged_into"] == into
    assert (await api.post(f"/api/expressions/{row}/merge", json={"into": into})).status_code == 409
    assert (await api.post(f"/api/expressions/{into}/merge", json={"into": into})).status_code == 409


async def test_wrong_ids_and_bodies(api: AsyncClient, world: ExpressionWorld) -> None:
    row = await world.put("有人熬夜", "又修仙呢")
    for answer in (
        await api.get("/api/expressions/99999"),
        await api.patch("/api/expressions/99999", json={"status": "approved", "version": 1}),
        await api.post("/api/expressions/99999/merge", json={"into": row}),
        await api.post(f"/api/expressions/{row}/merge", json={"into": 99999}),
    ):
        assert (answer.status_code, "没有编号为" in answer.json()["detail"]) == (404, True)
    bodies: list[object] = [
        {"version": 1},
        {"status": "approved"},
        {"status": "maybe", "version": 1},
        {"phrase": "", "version": 1},
        [],
    ]
    for body in bodies:
        assert (await api.patch(f"/api/expressions/{row}", json=body)).status_code == 422
    for path in ("0", "-1", "甲", str(2**63)):
        assert (await api.get(f"/api/expressions/{path}")).status_code == 422
    for params in ({"limit": 0}, {"limit": 100000}, {"before": 0}, {"status": "x"}, {"q": "长" * 1001}):
        assert (await api.get("/api/expressions", params=params)).status_code == 422


async def test_nothing_without_a_token(api: AsyncClient, world: ExpressionWorld, view: View) -> None:
    row = await world.put("有人熬夜", "又修仙呢")
    async with client_of(view) as stranger:
        del stranger.headers["Authorization"]
        for method, path in (
            ("GET", ""), ("POST", ""), ("GET", f"/{row}"), ("PATCH", f"/{row}"), ("POST", f"/{row}/merge"),
        ):  # fmt: skip
            assert (await stranger.request(method, f"/api/expressions{path}")).status_code == 401


async def test_a_merge_can_be_undone(api: AsyncClient, world: ExpressionWorld) -> None:
    await world.talk("又修仙呢", "修仙呢")
    into = await world.approved("有人熬夜", "又修仙呢", 1)
    row = await world.put("有人通宵", "修仙呢", 2)
    await api.post(f"/api/expressions/{row}/merge", json={"into": into})
    [act] = (await api.get("/api/audit")).json()["items"]
    assert (await api.post(f"/api/audit/{act['id']}/undo")).status_code == 200
    assert ((await world.there(row)).status, await world.supporting(row), await world.supporting(into)) == ("candidate", [2], [1])
    again = (await api.get("/api/audit")).json()["items"][0]
    assert (await api.post(f"/api/audit/{again['id']}/undo")).status_code == 200
    assert await world.supporting(into) == [1, 2]
