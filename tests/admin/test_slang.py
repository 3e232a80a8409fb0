"""Slang over HTTP: listed, written, moderated, merged; who is too late is told what stands there now."""

from __future__ import annotations

from typing import TypeAlias

import pytest
from httpx import AsyncClient

from tests.admin.conftest import client_of
from tests.admin.seed import View
from tests.db.memory_world import MING, WEI
from tests.db.slang_world import SlangWorld

Item: TypeAlias = dict[str, object]
GROUP, OTHER_GROUP = 5700000001, 5700000002
WORD = {"group_id": GROUP, "term": "开黑", "meaning": "一起打游戏"}


@pytest.fixture
async def world(view: View) -> SlangWorld:
    """A group."""
    return await SlangWorld.create(view.database)


async def listed(api: AsyncClient, **params: object) -> list[str]:
    """The terms of a list."""
    answer = await api.get("/api/slang", params={"group_id": GROUP} | params)  # pyright: ignore[reportArgumentType]
    assert answer.status_code == 200, answer.text
    return [item["term"] for item in answer.json()["items"]]


async def test_what_a_person_writes_is_there_at_once(api: AsyncClient, world: SlangWorld) -> None:
    await world.hear("今晚开黑")
    answer = await api.post("/api/slang", json=WORD | {"meaning_without_context": "打开黑色", "note": "常用"})
    item = answer.json()
    assert answer.status_code == 201
    assert (item["group_id"], item["user_id"], item["term"], item["meaning"]) == (GROUP, None, "开黑", "一起打游戏")
    assert (item["status"], item["locked"], item["decided_by"], item["source"]) == ("approved", True, "api", "person")
    assert (item["occurrences"], item["speakers"], item["version"], item["evidence_count"]) == (1, 1, 1, 0)
    assert (item["meaning_without_context"], item["note"], item["variants"]) == ("打开黑色", "常用", [])
    assert await world.prompted("开黑") == ["开黑"]
    [entry] = (await api.get("/api/audit")).json()["items"]
    assert (entry["actor"], entry["action"]) == ("api", "slang.create")


async def test_a_term_that_is_there_is_told_instead(api: AsyncClient, world: SlangWorld) -> None:
    row = await world.put("开黑", status="rejected")
    answer = await api.post("/api/slang", json=WORD | {"term": "開黑"})
    assert answer.status_code == 409
    assert answer.json()["current"]["id"] == row
    assert "已经有“开黑”了（已拒绝" in answer.json()["detail"]


async def test_a_friends_slang_stays_in_their_conversation(api: AsyncClient) -> None:
    answer = await api.post("/api/slang", json={"user_id": MING, "term": "开黑", "meaning": "打游戏"})
    assert (answer.json()["group_id"], answer.json()["user_id"]) == (None, MING)
    assert await listed(api) == []


@pytest.mark.parametrize(
    ("fields", "about"),
    [
        ({"term": ""}, "term"),
        ({"term": " \u200b "}, "term"),
        ({"term": "！？"}, "要有文字或数字"),
        ({"term": "长" * 41}, "不能超过 40 个字"),
        ({"term": "\x00黑"}, "NUL"),
        ({"meaning": " "}, "不能为空"),
        ({"meaning": "长" * 501}, "不能超过 500 个字"),
        ({"note": "长" * 501}, "不能超过 500 个字"),
        ({"status": "approved"}, "不认识"),
        ({"group_id": None}, "group_id"),
        ({"group_id": 0}, "group_id"),
        ({"group_id": 2**63}, "group_id"),
        ({"user_id": MING}, "只能给一个"),
    ],
)
async def test_what_cannot_be_a_term_is_refused_in_chinese(api: AsyncClient, fields: Item, about: str) -> None:
    answer = await api.post("/api/slang", json=WORD | fields)
    assert (answer.status_code, about in answer.json()["detail"]) == (422, True), answer.text


async def test_the_useful_come_first_and_pages_do_not_overlap(api: AsyncClient, world: SlangWorld) -> None:
    for number in range(5):
        term = f"梗{'甲乙丙丁戊'[number]}"
        for said in range(number + 1):
            await world.hear(f"{term}啊", (MING, WEI)[said % 2])
        await world.put(term, "某个意思")
    await world.put("没人说", "某个意思")
    assert await listed(api) == ["梗戊", "梗丁", "梗丙", "梗乙", "梗甲", "没人说"]
    first = (await api.get("/api/slang", params={"group_id": GROUP, "limit": 4})).json()
    rest = (await api.get("/api/slang", params={"group_id": GROUP, "limit": 4, "offset": first["next_offset"]})).json()
    assert [len(first["items"]), len(rest["items"]), rest["next_offset"]] == [4, 2, None]
    assert {item["id"] for item in first["items"]}.isdisjoint(item["id"] for item in rest["items"])
    assert (await listed(api, sort="newest"))[0] == "没人说"


async def test_the_sure_come_before_the_doubted(api: AsyncClient, world: SlangWorld) -> None:
    await world.talk("甲梗乙梗丙梗", "甲梗乙梗丙梗")
    await world.put("甲梗", "某个意思", confidence=0.5)
    await world.put("乙梗", "某个意思", confidence=0.9)
    await world.put("丙梗", "某个意思", confidence=0.9, denied=3)
    assert await listed(api) == ["乙梗", "甲梗", "丙梗"]


async def test_status_group_and_words_narrow_the_list(api: AsyncClient, world: SlangWorld) -> None:
    other = await SlangWorld.create(world.database, OTHER_GROUP)
    row = await world.put("yyds", "夸人最厉害", status="approved")
    await world.spell(row, "永远的神")
    await world.put("开黑店", "网吧")
    await world.put("上分", "打排位", status="rejected", note="群主说不算")
    await other.put("开黑")
    assert set(await listed(api)) == {"yyds", "开黑店", "上分"}
    assert await listed(api, status="approved") == ["yyds"]
    assert await listed(api, status="rejected") == ["上分"]
    assert await listed(api, q="開黑") == ["开黑店"]
    assert await listed(api, q="远的") == ["yyds"]
    assert await listed(api, q="排位") == ["上分"]
    assert await listed(api, q="YY") == ["yyds"]
    assert await listed(api, q="群主") == ["上分"]
    assert await listed(api, q="%") == []
    assert await listed(api, group_id=5700000099) == []
    everything = (await api.get("/api/slang")).json()["items"]
    assert {item["group_id"] for item in everything} == {GROUP, OTHER_GROUP}


@pytest.mark.parametrize(
    "params",
    [{"limit": 0}, {"limit": 201}, {"limit": 10**30}, {"offset": -1}, {"offset": 10**9}, {"status": "maybe"}, {"sort": "x"},
     {"group_id": 2**63}, {"q": "长" * 1001}],
)  # fmt: skip
async def test_a_strange_list_is_refused(api: AsyncClient, params: Item) -> None:
    answer = await api.get("/api/slang", params={"group_id": GROUP} | params)  # pyright: ignore[reportArgumentType]
    assert answer.status_code == 422
    assert isinstance(answer.json()["detail"], str)


async def test_a_page_beyond_the_end_is_empty(api: AsyncClient, world: SlangWorld) -> None:
    await world.put("开黑")
    assert await listed(api, offset=1_000_000) == []


async def test_a_term_shows_its_evidence_with_neighbours_and_its_history(api: AsyncClient, world: SlangWorld) -> None:
    await world.talk("一", "二", "三", "今晚开黑", "五", "六", "七")
    row = await world.put("开黑", "一起打游戏", 4)
    await world.withdraw(3)
    detail = (await api.get(f"/api/slang/{row}")).json()
    [line] = detail["evidence"]
    assert (line["pos"], line["sender_id"], line["sender_name"], line["text"]) == (4, MING, "小明", "今晚开黑")
    assert [item["text"] for item in line["before"]] == ["一", "二"]
    assert [item["text"] for item in line["after"]] == ["五", "六"]
    assert [(item["meaning"], item["source"]) for item in detail["history"]] == [("一起打游戏", "model")]
    assert detail["evidence_count"] == 1


async def test_evidence_that_was_withdrawn_is_not_shown(api: AsyncClient, world: SlangWorld) -> None:
    first, second = await world.talk("今晚开黑", "明晚开黑")
    row = await world.put("开黑", "一起打游戏", first, second)
    await world.withdraw(first)
    detail = (await api.get(f"/api/slang/{row}")).json()
    assert [(line["text"], line["before"]) for line in detail["evidence"]] == [("明晚开黑", [])]
    assert (detail["meaning"], detail["history"]) == ("", [])
    await world.withdraw(second)
    assert (await api.get(f"/api/slang/{row}")).status_code == 404


async def test_approve_reject_and_restore(api: AsyncClient, world: SlangWorld) -> None:
    row = await world.put("开黑", "一起打游戏", await world.hear("今晚开黑"))
    seen: list[tuple[object, ...]] = []
    for version, status in enumerate(("approved", "rejected", "candidate"), 1):
        item = (await api.patch(f"/api/slang/{row}", json={"status": status, "version": version})).json()
        seen.append((item["status"], item["locked"], item["decided_by"], item["version"], await world.prompted("开黑")))
    assert seen == [
        ("approved", False, "api", 2, ["开黑"]),
        ("rejected", False, "api", 3, []),
        ("candidate", False, "api", 4, []),
    ]
    assert [entry["action"] for entry in (await api.get("/api/audit")).json()["items"]] == [
        "slang.restore", "slang.reject", "slang.approve",
    ]  # fmt: skip


async def test_an_edit_locks(api: AsyncClient, world: SlangWorld) -> None:
    row = await world.put("开黑", "一起打游戏")
    item = (await api.patch(f"/api/slang/{row}", json={"meaning": "组队\n打游戏", "version": 1})).json()
    assert (item["meaning"], item["locked"], item["status"], item["version"]) == ("组队 打游戏", True, "candidate", 2)


async def test_a_stale_version_gets_the_term_as_it_is_now(api: AsyncClient, world: SlangWorld) -> None:
    row = await world.put("开黑", "一起打游戏")
    await api.patch(f"/api/slang/{row}", json={"meaning": "组队打游戏", "version": 1})
    answer = await api.patch(f"/api/slang/{row}", json={"status": "rejected", "version": 1})
    assert answer.status_code == 409
    body = answer.json()
    assert (body["current"]["id"], body["current"]["meaning"], body["current"]["version"]) == (row, "组队打游戏", 2)
    assert "刚刚被改过" in body["detail"]
    assert (await world.there(row)).status == "candidate"


async def test_a_spelling_of_another_term_is_a_conflict(api: AsyncClient, world: SlangWorld) -> None:
    other, row = await world.put("开黑"), await world.put("上分")
    answer = await api.patch(f"/api/slang/{row}", json={"term": "開黑", "version": 1})
    assert (answer.status_code, answer.json()["current"]["id"]) == (409, other)


@pytest.mark.parametrize(
    "body",
    [{}, {"version": 1}, {"status": "approved"}, {"status": "maybe", "version": 1}, {"meaning": " ", "version": 1},
     {"status": "approved", "version": 0}, {"status": "approved", "version": 2**40}, {"locked": False, "version": 1}],
)  # fmt: skip
async def test_a_change_that_cannot_be_is_refused(api: AsyncClient, world: SlangWorld, body: Item) -> None:
    row = await world.put("开黑", "一起打游戏")
    assert (await api.patch(f"/api/slang/{row}", json=body)).status_code == 422
    assert (await world.there(row)).version == 1


async def test_unknown_ids_are_404_and_strange_ones_422(api: AsyncClient, world: SlangWorld) -> None:
    known = await world.put("开黑")
    for path in (f"/api/slang/{2**40}", f"/api/slang/{2**63 - 1}"):
        answer = await api.get(path)
        assert (answer.status_code, "没有编号为" in answer.json()["detail"]) == (404, True)
        assert (await api.patch(path, json={"status": "approved", "version": 1})).status_code == 404
        assert (await api.post(f"{path}/merge", json={"into": known})).status_code == 404
        assert (await api.post(f"/api/slang/{known}/merge", json={"into": int(path.rpartition("/")[2])})).status_code == 404
    for strange in ("0", "-1", str(2**63), "开黑"):
        assert (await api.get(f"/api/slang/{strange}")).status_code == 422


async def test_a_term_is_merged_into_another(api: AsyncClient, world: SlangWorld) -> None:
    await world.talk("yyds", "永远的神")
    short, long = await world.put("yyds", "最厉害", 1, status="approved"), await world.put("永远的神", "夸人", 2)
    item = (await api.post(f"/api/slang/{long}/merge", json={"into": short, "version": 1})).json()
    assert (item["id"], item["variants"], item["occurrences"], item["evidence_count"]) == (short, ["永远的神"], 2, 2)
    gone = (await api.get(f"/api/slang/{long}")).json()
    assert (gone["status"], gone["merged_into"]) == ("rejected", short)
    again = await api.post(f"/api/slang/{long}/merge", json={"into": short})
    assert (again.status_code, again.json()["detail"]) == (409, "这一条已经并入别的了")
    stale = await api.post(f"/api/slang/{short}/merge", json={"into": long, "version": 9})
    assert (stale.status_code, stale.json()["current"]["id"]) == (409, short)


async def test_nothing_answers_without_the_token(view: View, world: SlangWorld) -> None:
    row = await world.put("开黑")
    async with client_of(view) as client:
        del client.headers["Authorization"]
        for method, path in (("GET", ""), ("POST", ""), ("GET", f"/{row}"), ("PATCH", f"/{row}"), ("POST", f"/{row}/merge")):
            answer = await client.request(method, f"/api/slang{path}", json={"status": "approved", "version": 1})
            assert answer.status_code == 401
    assert (await world.there(row)).status == "candidate"


async def test_acts_are_undone_from_the_log(api: AsyncClient, world: SlangWorld) -> None:
    await world.talk("yyds", "永远的神")
    short, long = await world.put("yyds", "最厉害", 1), await world.put("永远的神", "夸人", 2)
    await api.patch(f"/api/slang/{short}", json={"status": "approved", "meaning": "夸人最厉害", "version": 1})
    await api.post(f"/api/slang/{long}/merge", json={"into": short})
    merged, approved = [entry["id"] for entry in (await api.get("/api/audit")).json()["items"]]
    for act in (merged, approved):
        assert (await api.post(f"/api/audit/{act}/undo")).status_code == 200
    one, two = await world.there(short), await world.there(long)
    assert (one.status, one.meaning, one.locked, one.variants, one.version) == ("candidate", "最厉害", False, [], 3)
    assert (two.status, two.merged_into, await world.supporting(long)) == ("candidate", None, [2])
    assert (await api.post(f"/api/audit/{approved}/undo")).status_code == 409


async def test_an_act_that_others_built_on_is_not_undone(api: AsyncClient, world: SlangWorld) -> None:
    row = await world.put("yyds", "最厉害")
    await api.patch(f"/api/slang/{row}", json={"status": "approved", "version": 1})
    await api.patch(f"/api/slang/{row}", json={"meaning": "夸人", "version": 2})
    older = (await api.get("/api/audit")).json()["items"][1]["id"]
    assert (await api.post(f"/api/audit/{older}/undo")).status_code == 409
    assert (await world.there(row)).status == "approved"


@pytest.mark.parametrize("q", ["\x00", "'; --", "_", "\\", "😀", " "])
async def test_a_strange_question_breaks_nothing(api: AsyncClient, world: SlangWorld, q: str) -> None:
    await world.put("yyds", "最厉害")
    assert await listed(api, q=q) == (["yyds"] if q == " " else [])
