"""Memories over HTTP: listed, written, changed, archived, deleted, each act in the audit log."""

from __future__ import annotations

from typing import TypeAlias

import pytest
from httpx import AsyncClient

from db import memories
from db.memory_models import Claim, MemoryId, MemorySource, Subject
from db.models import MessageRow
from tests.admin.seed import BOT, FRIEND, GROUP, MING, OTHER_GROUP, WEI, Seeded, View

Item: TypeAlias = dict[str, object]
CATS = {"group_id": GROUP, "subject_id": MING, "kind": "fact", "content": "小明养了两只猫"}


async def _write(api: AsyncClient, **fields: object) -> Item:
    answer = await api.post("/api/memories", json=CATS | fields)
    assert answer.status_code == 201, answer.text
    return answer.json()


async def _listed(api: AsyncClient, **params: object) -> list[str]:
    answer = await api.get("/api/memories", params={"group_id": GROUP} | params)  # pyright: ignore[reportArgumentType]
    assert answer.status_code == 200, answer.text
    return [item["content"] for item in answer.json()["items"]]


async def _audit(api: AsyncClient) -> list[Item]:
    return (await api.get("/api/audit")).json()["items"]


async def _learned(view: View, seeded: Seeded, content: str, source: MemorySource = "agent") -> MemoryId:
    """Put in what the bot saved by itself, with the group's first message as evidence."""
    async with view.database.transaction() as conn:
        cur = await conn.execute("SELECT id FROM messages WHERE conversation_id = %(group)s AND pos = 1", {"group": seeded.group})
        row = await cur.fetchone()
        assert row is not None
        claim = Claim(seeded.group, Subject("member", MING), "fact", content, source, (MessageRow(row[0]),))
        made = await memories.insert(conn, claim)
    assert made is not None
    return made


async def test_a_person_writes_a_memory_that_is_locked_and_audited(api: AsyncClient, seeded: Seeded) -> None:
    assert seeded
    item = await _write(api)
    assert (item["group_id"], item["user_id"], item["subject_kind"], item["subject_id"]) == (GROUP, None, "member", MING)
    assert (item["kind"], item["content"], item["status"], item["locked"], item["source"]) == (
        "fact", "小明养了两只猫", "active", True, "person",
    )  # fmt: skip
    assert (item["version"], item["uses"], item["used_at"], item["archived_why"]) == (1, 0, None, None)
    [entry] = await _audit(api)
    assert (entry["actor"], entry["action"], entry["target_id"]) == ("api", "memory.create", GROUP)


async def test_the_same_again_is_the_one_that_is_there(api: AsyncClient) -> None:
    first = await _write(api)
    again = await api.post("/api/memories", json=CATS | {"content": "小明 養了两只猫。"})
    assert (again.status_code, again.json()["id"]) == (200, first["id"])
    assert await _listed(api) == ["小明养了两只猫"]


async def test_a_group_that_nothing_is_known_of_gets_a_row_but_is_not_enabled(api: AsyncClient) -> None:
    item = await _write(api, group_id=OTHER_GROUP, subject_id=None)
    assert (item["group_id"], item["subject_kind"], item["subject_id"]) == (OTHER_GROUP, "group", 0)
    [place] = (await api.get("/api/conversations")).json()["items"]
    assert (place["target_id"], place["enabled"]) == (OTHER_GROUP, None)


async def test_a_friends_memory_stays_in_their_conversation(api: AsyncClient, seeded: Seeded) -> None:
    assert seeded
    item = await _write(api, group_id=None, user_id=FRIEND, subject_id=FRIEND, content="阿青在学吉他")
    assert (item["group_id"], item["user_id"]) == (None, FRIEND)
    assert (await api.get("/api/memories", params={"user_id": FRIEND})).json()["items"] == [item]
    assert await _listed(api) == []


async def test_subjects_have_names(api: AsyncClient, view: View, seeded: Seeded) -> None:
    async with view.database.connection() as conn:
        await conn.execute("INSERT INTO accounts (account_id, nickname) VALUES (%(bot)s, '小满')", {"bot": BOT})
        await conn.execute(
            "INSERT INTO members (conversation_id, user_id, no, nickname, card) VALUES (%(group)s, %(ming)s, 1, '明', '小明')",
            {"group": seeded.group, "ming": MING},
        )
    named = [
        (await _write(api, subject_id=number, content=f"说法{number}"))["subject_name"] for number in (MING, WEI, GROUP, 0, BOT)
    ]
    assert named == ["小明", "用户0012", "周末桌游", "周末桌游", "小满"]


async def test_the_list_is_newest_first_and_pages_by_id(api: AsyncClient) -> None:
    for number in range(5):
        await _write(api, content=f"第{number}件事")
    seen: list[list[str]] = []
    before: object = None
    while True:
        params = {"group_id": GROUP, "limit": 2} | ({"before": before} if before else {})
        body = (await api.get("/api/memories", params=params)).json()
        seen.append([item["content"] for item in body["items"]])
        before = body["next_before"]
        if before is None:
            break
    assert seen == [["第4件事", "第3件事"], ["第2件事", "第1件事"], ["第0件事"]]


async def test_the_list_filters_by_subject_kind_and_status(api: AsyncClient, view: View) -> None:
    async with view.database.connection() as conn:
        await conn.execute("INSERT INTO accounts (account_id) VALUES (%(bot)s)", {"bot": BOT})
    await _write(api)
    await _write(api, subject_id=WEI, kind="preference", content="阿伟不吃香菜")
    await _write(api, subject_id=0, kind="event", content="群里三月聚过餐")
    await _write(api, subject_id=BOT, content="小满答应讲故事")
    gone = await _write(api, content="小明在杭州工作")
    await api.patch(f"/api/memories/{gone['id']}", json={"status": "archived"})
    assert await _listed(api, subject_id=WEI) == ["阿伟不吃香菜"]
    assert await _listed(api, subject="group") == await _listed(api, subject_id=GROUP) == ["群里三月聚过餐"]
    assert await _listed(api, subject="bot") == await _listed(api, subject_id=BOT) == ["小满答应讲故事"]
    assert await _listed(api, kind="preference") == ["阿伟不吃香菜"]
    assert await _listed(api, subject_id=MING) == ["小明养了两只猫"]
    assert await _listed(api, subject_id=MING, status="archived") == ["小明在杭州工作"]
    assert await _listed(api, subject_id=MING, status="all") == ["小明在杭州工作", "小明养了两只猫"]
    assert await _listed(api, group_id=OTHER_GROUP) == []


async def test_a_question_finds_what_fits_it_best_first(api: AsyncClient) -> None:
    for content in ("小明周末去爬山", "小明喜欢吃火锅", "小明在杭州工作"):
        await _write(api, content=content)
    assert (await _listed(api, q="火锅"))[0] == "小明喜欢吃火锅"
    body = (await api.get("/api/memories", params={"group_id": GROUP, "q": "火锅", "before": 9})).json()
    assert "不能一起用" in body["detail"]


async def test_a_memory_shows_its_evidence_and_where_it_came_from(api: AsyncClient, view: View, seeded: Seeded) -> None:
    old = await _learned(view, seeded, "小明七点开局")
    new = await _learned(view, seeded, "小明每周六七点开局")
    async with view.database.transaction() as conn:
        await memories.archive(conn, old, "refined")
        await memories.link(conn, old, new, "refines")
    body = (await api.get(f"/api/memories/{new}")).json()
    assert body["evidence"] == [
        {
            "pos": 1,
            "sender_id": MING,
            "sender_name": "小明",
            "text": "七点开局吗",
            "sent_at": "2026-11-28T04:00:00Z",
            "withdrawn": False,
        }
    ]
    [step] = body["history"]
    assert (step["id"], step["relation"], step["newer"], step["status"], step["archived_why"]) == (
        old, "refines", False, "archived", "refined",
    )  # fmt: skip
    [step] = (await api.get(f"/api/memories/{old}")).json()["history"]
    assert (step["id"], step["newer"]) == (new, True)


async def test_a_change_locks_counts_up_and_is_audited(api: AsyncClient, view: View, seeded: Seeded) -> None:
    row = await _learned(view, seeded, "小明养了一只猫")
    answer = await api.patch(f"/api/memories/{row}", json={"content": " 小明养了\n三只猫 ", "kind": "event", "version": 1})
    assert answer.status_code == 200
    item = answer.json()
    assert (item["content"], item["kind"], item["version"], item["locked"]) == ("小明养了 三只猫", "event", 2, True)
    [entry] = await _audit(api)
    assert (entry["action"], entry["before"]["content"], entry["after"]["content"]) == (  # type: ignore[index]
        "memory.change", "小明养了一只猫", "小明养了 三只猫",
    )  # fmt: skip


async def test_a_memory_is_archived_and_comes_back(api: AsyncClient) -> None:
    item = await _write(api)
    archived = (await api.patch(f"/api/memories/{item['id']}", json={"status": "archived"})).json()
    assert (archived["status"], archived["archived_why"]) == ("archived", "person")
    assert archived["archived_at"] is not None
    assert await _listed(api) == []
    back = (await api.patch(f"/api/memories/{item['id']}", json={"status": "active"})).json()
    assert (back["status"], back["archived_why"], back["archived_at"]) == ("active", None, None)


async def test_who_read_an_older_version_is_told_the_current_one(api: AsyncClient) -> None:
    item = await _write(api)
    path = f"/api/memories/{item['id']}"
    assert (await api.patch(path, json={"content": "小明养了三只猫", "version": 1})).status_code == 200
    late = await api.patch(path, json={"content": "小明养了四只猫", "version": 1})
    assert late.status_code == 409
    assert "刚刚被改过" in late.json()["detail"]
    assert (late.json()["current"]["content"], late.json()["current"]["version"]) == ("小明养了三只猫", 2)
    assert await _listed(api) == ["小明养了三只猫"]


async def test_two_memories_do_not_become_the_same(api: AsyncClient) -> None:
    first = await _write(api)
    second = await _write(api, content="小明养了一只狗")
    answer = await api.patch(f"/api/memories/{second['id']}", json={"content": "小明养了两只猫！"})
    assert (answer.status_code, answer.json()["current"]["id"]) == (409, first["id"])
    assert await _listed(api) == ["小明养了一只狗", "小明养了两只猫"]


async def test_a_memory_is_deleted_once(api: AsyncClient) -> None:
    item = await _write(api)
    path = f"/api/memories/{item['id']}"
    answer = await api.delete(path)
    assert (answer.status_code, answer.content) == (204, b"")
    assert (await api.delete(path)).status_code == 404
    assert [entry["action"] for entry in await _audit(api)] == ["memory.delete", "memory.create"]


async def test_what_is_not_there_is_404(api: AsyncClient) -> None:
    for answer in (
        await api.get("/api/memories/424242"),
        await api.patch("/api/memories/424242", json={"kind": "fact"}),
        await api.delete("/api/memories/424242"),
    ):
        assert (answer.status_code, answer.json()) == (404, {"detail": "没有编号为 424242 的记忆"})


WRONG = [
    ({"kind": "rumour"}, "kind：应为"),
    ({"content": "  "}, "content：不能为空"),
    ({"content": "长" * 501}, "content：不能超过 500 个字"),
    ({"content": "a\0b"}, "content：不能含有"),
    ({"content": None}, "content：应为文字"),
    ({"group_id": None}, "请给出 group_id 或 user_id"),
    ({"user_id": FRIEND}, "只能给一个"),
    ({"group_id": 2**63}, "group_id：不能大于"),
    ({"subject_id": -1}, "subject_id：不能小于 0"),
    ({"subject": "member", "subject_id": 0}, "subject"),
    ({"locked": False}, "locked：不认识这一项"),
]


async def test_a_wrong_memory_is_refused_in_chinese_and_leaves_nothing(api: AsyncClient) -> None:
    for fields, says in WRONG:
        answer = await api.post("/api/memories", json=CATS | fields)
        assert answer.status_code == 422, fields
        assert says in answer.json()["detail"]
    assert await _audit(api) == []
    assert (await api.get("/api/conversations")).json()["items"] == []


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ({}, "没有要改的"),
        ({"version": 1}, "没有要改的"),
        ({"status": "lost"}, "status：应为"),
        ({"content": ""}, "content：不能为空"),
        ({"version": 0, "kind": "fact"}, "version：不能小于 1"),
        ({"uses": 7}, "uses：不认识这一项"),
        ([], "应为 JSON 对象"),
    ],
)
async def test_a_wrong_change_is_refused(api: AsyncClient, body: object, says: str) -> None:
    item = await _write(api)
    answer = await api.patch(f"/api/memories/{item['id']}", json=body)
    assert answer.status_code == 422
    assert says in answer.json()["detail"]
    assert (await api.get(f"/api/memories/{item['id']}")).json()["version"] == 1


@pytest.mark.parametrize(
    ("params", "says"),
    [
        ({}, "请给出 group_id 或 user_id"),
        ({"group_id": GROUP, "user_id": FRIEND}, "只能给一个"),
        ({"group_id": GROUP, "kind": "x"}, "kind：应为"),
        ({"group_id": GROUP, "limit": 201}, "limit：不能大于 200"),
        ({"group_id": GROUP, "q": "长" * 1001}, "q：不能超过 1000 个字"),
        ({"group_id": GROUP, "subject": "member"}, "subject"),
    ],
)
async def test_a_wrong_question_is_refused(api: AsyncClient, seeded: Seeded, params: dict[str, str], says: str) -> None:
    assert seeded
    answer = await api.get("/api/memories", params=params)
    assert answer.status_code == 422
    assert says in answer.json()["detail"]


HOSTILE = ["%", "_", "'; DROP TABLE memories; --", "\\", "\0", "🔥", "。。。", " ", "a" * 1000, "火" * 1000]


async def test_hostile_questions_find_or_find_nothing(api: AsyncClient) -> None:
    await _write(api)
    for q in HOSTILE:
        for path in ("memories", "recall", "search"):
            answer = await api.get(f"/api/{path}", params={"group_id": GROUP, "q": q})
            nothing_asked = path == "search" and not q.strip()
            assert answer.status_code == (422 if nothing_asked else 200), (path, q, answer.text)
