"""Profiles over HTTP: listed by member, read with evidence, edited, taken away."""

from __future__ import annotations

import pytest
from httpx import AsyncClient

from tests.admin.conftest import client_of
from tests.admin.seed import View
from tests.db.memory_world import MING, WANG, WEI
from tests.db.trait_world import TraitWorld

GROUP, OTHER_GROUP = 5700000001, 5700000002


@pytest.fixture
async def world(view: View) -> TraitWorld:
    """A group."""
    return await TraitWorld.create(view.database)


async def listed(api: AsyncClient, **params: int) -> list[tuple[int, list[str]]]:
    """Members with what is known of them."""
    answer = await api.get("/api/profiles", params=params)
    assert answer.status_code == 200, answer.text
    return [(item["user_id"], [trait["content"] for trait in item["traits"]]) for item in answer.json()["items"]]


async def test_profiles_are_listed_by_group_and_member(api: AsyncClient, world: TraitWorld) -> None:
    first, second = await world.says(MING, "爬山", "又爬山")
    await world.put("interest", "喜欢爬山", first, second)
    await world.put("alias", "明哥", first)
    gone = await world.put("fact", "会修车", first, second)
    await api.delete(f"/api/profiles/traits/{gone}")
    await world.put("interest", "喜欢下棋", user=WEI)
    other = await TraitWorld.create(world.database, OTHER_GROUP)
    await other.put("interest", "喜欢钓鱼")
    await world.leave(WEI)
    assert sorted(await listed(api, group_id=GROUP)) == [(MING, ["明哥", "喜欢爬山"]), (WEI, ["喜欢下棋"])]
    assert await listed(api, group_id=GROUP, user_id=MING) == [(MING, ["明哥", "喜欢爬山"])]
    assert sorted(await listed(api, user_id=MING)) == [(MING, ["喜欢钓鱼"]), (MING, ["明哥", "喜欢爬山"])]
    assert await listed(api, group_id=GROUP, user_id=WANG) == []
    assert await listed(api, group_id=5700000099) == []
    assert len(await listed(api, limit=1)) == 1
    items = (await api.get("/api/profiles", params={"group_id": GROUP})).json()["items"]
    by_user = {item["user_id"]: item for item in items}
    ming = by_user[MING]
    assert (ming["group_id"], ming["no"], ming["name"], ming["left_at"]) == (GROUP, 1, "小明", None)
    assert by_user[WEI]["left_at"] is not None
    assert [(trait["kind"], trait["evidence_count"]) for trait in ming["traits"]] == [("alias", 1), ("interest", 2)]


async def test_pages_do_not_overlap(api: AsyncClient, world: TraitWorld) -> None:
    for user in (MING, WEI, WANG):
        await world.put("interest", "喜欢下棋", user=user)
    first = (await api.get("/api/profiles", params={"limit": 2})).json()
    rest = (await api.get("/api/profiles", params={"limit": 2, "offset": first["next_offset"]})).json()
    assert {item["user_id"] for item in first["items"] + rest["items"]} == {MING, WEI, WANG}
    assert rest["next_offset"] is None


async def test_a_trait_is_read_with_its_evidence(api: AsyncClient, world: TraitWorld) -> None:
    first, second = await world.says(MING, "爬山", "又爬山")
    await world.say("哈哈", WEI)
    row = await world.put("interest", "喜欢爬山", first, second)
    detail = (await api.get(f"/api/profiles/traits/{row}")).json()
    assert [hit["text"] for hit in detail["evidence"]] == ["爬山", "又爬山"]
    assert [line["text"] for line in detail["evidence"][1]["after"]] == ["哈哈"]
    await world.withdraw(first)
    detail = (await api.get(f"/api/profiles/traits/{row}")).json()
    assert [hit["text"] for hit in detail["evidence"]] == ["又爬山"]
    assert (detail["dropped_why"], detail["evidence_count"]) == ("withdrawn", 1)


async def test_an_edit_locks_and_needs_the_version_that_was_read(api: AsyncClient, world: TraitWorld) -> None:
    row = await world.put("interest", "喜欢爬山")
    path = f"/api/profiles/traits/{row}"
    edited = await api.patch(path, json={"content": "喜欢 徒步", "kind": "fact", "version": 1})
    item = edited.json()
    assert edited.status_code == 200
    assert (item["content"], item["kind"], item["locked"], item["version"]) == ("喜欢 徒步", "fact", True, 2)
    stale = await api.patch(path, json={"content": "喜欢游泳", "version": 1})
    assert (stale.status_code, stale.json()["current"]["version"]) == (409, 2)
    assert "刚刚被改过" in stale.json()["detail"]
    assert (await api.delete(path, params={"version": 1})).status_code == 409
    assert await world.profile() == [("fact", "喜欢 徒步")]


async def test_what_is_taken_away_is_gone_and_says_why(api: AsyncClient, world: TraitWorld) -> None:
    row = await world.put("interest", "喜欢爬山", locked=True)
    path = f"/api/profiles/traits/{row}"
    dropped = await api.delete(path, params={"version": 1})
    assert (dropped.status_code, dropped.json()["dropped_why"]) == (200, "person")
    assert await listed(api, group_id=GROUP) == []
    assert (await api.delete(path)).status_code == 404
    assert (await api.patch(path, json={"content": "喜欢徒步", "version": 2})).status_code == 404
    [entry] = (await api.get("/api/audit")).json()["items"]
    assert (entry["actor"], entry["action"]) == ("api", "trait.drop")


async def test_what_the_member_has_already_is_told(api: AsyncClient, world: TraitWorld) -> None:
    first = await world.put("interest", "喜欢爬山")
    second = await world.put("interest", "喜欢徒步")
    answer = await api.patch(f"/api/profiles/traits/{second}", json={"content": "喜欢爬山", "version": 1})
    assert (answer.status_code, answer.json()["current"]["id"]) == (409, first)


async def test_wrong_ids_and_bodies(api: AsyncClient, world: TraitWorld) -> None:
    row = await world.put("interest", "喜欢爬山")
    for answer in (
        await api.get("/api/profiles/traits/99999"),
        await api.patch("/api/profiles/traits/99999", json={"content": "甲", "version": 1}),
        await api.delete("/api/profiles/traits/99999"),
    ):
        assert (answer.status_code, "没有编号为 99999" in answer.json()["detail"]) == (404, True)
    bodies: list[object] = [
        {"version": 1}, {"content": "甲"}, {"content": " ", "version": 1}, {"content": "长" * 201, "version": 1},
        {"kind": "hobby", "version": 1}, {"content": "\x00", "version": 1}, {"locked": False, "version": 1}, [],
    ]  # fmt: skip
    for body in bodies:
        assert (await api.patch(f"/api/profiles/traits/{row}", json=body)).status_code == 422
    for path in ("0", "甲", str(2**63)):
        assert (await api.delete(f"/api/profiles/traits/{path}")).status_code == 422
    for params in ({"limit": 0}, {"limit": 100000}, {"offset": -1}, {"group_id": 0}, {"user_id": 2**63}):
        assert (await api.get("/api/profiles", params=params)).status_code == 422


async def test_nothing_without_a_token(world: TraitWorld, view: View) -> None:
    row = await world.put("interest", "喜欢爬山")
    async with client_of(view) as stranger:
        del stranger.headers["Authorization"]
        for method, path in (("GET", ""), ("GET", f"/traits/{row}"), ("PATCH", f"/traits/{row}"), ("DELETE", f"/traits/{row}")):
            assert (await stranger.request(method, f"/api/profiles{path}")).status_code == 401
    assert await world.profile() == [("interest", "喜欢爬山")]


async def test_taking_away_and_editing_can_be_undone(api: AsyncClient, world: TraitWorld) -> None:
    row = await world.put("interest", "喜欢爬山")
    path = f"/api/profiles/traits/{row}"
    await api.patch(path, json={"content": "喜欢徒步", "version": 1})
    await api.delete(path)
    dropping, editing = [entry["id"] for entry in (await api.get("/api/audit")).json()["items"]]
    assert (await api.post(f"/api/audit/{editing}/undo")).status_code == 409
    assert (await api.post(f"/api/audit/{dropping}/undo")).status_code == 200
    assert await world.profile() == [("interest", "喜欢徒步")]
