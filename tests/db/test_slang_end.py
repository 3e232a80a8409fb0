"""Slang ends with its evidence: withdrawn, or forgotten with who said it."""

from __future__ import annotations

import pytest

from db import forget, slang_findings, slang_review, undo
from db.learned_models import AuditId, SlangId
from db.pool import Database
from db.slang_review import Edit
from tests.db.memory_world import MING, WEI
from tests.db.slang_world import SlangWorld


@pytest.fixture
async def world(database: Database) -> SlangWorld:
    """A group."""
    return await SlangWorld.create(database)


async def forgotten(world: SlangWorld, user: int) -> None:
    """A member says 忘记我."""
    async with world.database.transaction() as conn:
        await forget.member(conn, world.conversation, user)


async def test_a_candidate_goes_with_its_last_evidence(world: SlangWorld) -> None:
    first, second = await world.talk("今晚开黑", "开黑啊")
    row = await world.put("开黑", "一起打游戏", first, second)
    await world.withdraw(first)
    left = await world.there(row)
    assert (left.evidence, left.occurrences, left.speakers) == (1, 1, 1)
    await world.withdraw(second)
    assert await world.slang(row) is None


async def test_two_withdrawals_in_one_transaction_end_a_candidate(world: SlangWorld) -> None:
    first, second = await world.talk("今晚开黑", "开黑啊")
    row = await world.put("开黑", "一起打游戏", first, second)
    await world.withdraw(first, second)
    assert await world.slang(row) is None


async def test_a_meaning_goes_with_what_it_was_inferred_from(world: SlangWorld) -> None:
    first, second = await world.talk("今晚开黑", "开黑啊")
    row = await world.put("开黑", "一起打游戏", first, inferred_at=3, meaning_plain="打开黑色")
    await world.rows(
        "INSERT INTO slang_evidence SELECT %(id)s, m.id FROM messages m WHERE pos = %(pos)s RETURNING 1", id=row, pos=second
    )
    await world.withdraw(first)
    left = await world.there(row)
    assert (left.meaning, left.meaning_plain, left.inferred_at, left.version, left.evidence) == ("", "", 0, 2, 1)
    assert await world.meanings(row) == []


async def test_an_older_meaning_leaves_the_history_and_the_present_one_stays(world: SlangWorld) -> None:
    first, second = await world.talk("今晚开黑", "开黑啊")
    row = await world.put("开黑", "打开黑屏", first, second)
    await world.rows(
        """
        INSERT INTO slang_meanings (slang_id, occurrences, meaning, source, sources)
        SELECT %(id)s, 3, '一起打游戏', 'model', ARRAY[m.id] FROM messages m WHERE pos = %(pos)s RETURNING id
        """,
        id=row, pos=second,
    )  # fmt: skip
    await world.rows("UPDATE slang SET meaning = '一起打游戏' WHERE id = %(id)s RETURNING id", id=row)
    await world.withdraw(first)
    assert (await world.there(row)).meaning == "一起打游戏"
    assert await world.meanings(row) == ["一起打游戏"]


async def test_what_a_person_wrote_outlives_its_evidence(world: SlangWorld) -> None:
    pos = await world.hear("今晚开黑")
    row = await world.put("开黑", "一起打游戏", pos, status="approved", locked=True)
    await world.withdraw(pos)
    left = await world.there(row)
    assert (left.meaning, left.status, left.evidence) == ("一起打游戏", "approved", 0)
    assert await world.prompted("开黑") == ["开黑"]


async def test_what_was_approved_by_the_rule_goes_with_its_evidence(world: SlangWorld) -> None:
    first, second = await world.talk("今晚开黑", "开黑啊")
    row = await world.put("开黑", "一起打游戏", first, second, status="approved", decided_by="auto")
    await world.withdraw(first)
    left = await world.there(row)
    assert (left.status, left.meaning, left.decided_by) == ("candidate", "", None)
    await world.withdraw(second)
    assert await world.slang(row) is None


async def test_a_tombstone_stays_without_words_of_the_withdrawn(world: SlangWorld) -> None:
    pos = await world.hear("今晚开黑")
    row = await world.put("开黑", "一起打游戏", pos, status="rejected", decided_by="api")
    await world.withdraw(pos)
    left = await world.there(row)
    assert (left.status, left.decided_by, left.meaning) == ("rejected", "api", "")


async def test_a_candidate_that_a_person_put_back_stays(world: SlangWorld) -> None:
    pos = await world.hear("今晚开黑")
    row = await world.put("开黑", "一起打游戏", pos, decided_by="api")
    await world.withdraw(pos)
    assert (await world.there(row)).status == "candidate"


async def test_messages_that_support_nothing_change_nothing(world: SlangWorld) -> None:
    first, second = await world.talk("今晚开黑", "吃了吗")
    row = await world.put("开黑", "一起打游戏", first)
    await world.withdraw(second)
    assert (await world.there(row)).version == 1


async def test_forgetting_a_member_takes_what_only_they_supported(world: SlangWorld) -> None:
    mine, theirs = await world.hear("今晚开黑", MING), await world.hear("去上分，开黑", WEI)
    alone = await world.put("开黑局", "一起打游戏的局", mine)
    person = await world.put("今晚局", "今晚的局", mine, status="approved", decided_by="api")
    shared = await world.put("开黑", "一起打游戏", mine, theirs)
    other = await world.put("上分", "打排位", theirs)
    locked = await world.put("黑", "打游戏", mine, status="approved", locked=True)
    stone = await world.put("今晚", "某晚", mine, status="rejected", decided_by="api")
    await forgotten(world, MING)
    assert [await world.slang(row) is None for row in (alone, person, shared, other, locked, stone)] == [
        True, True, False, False, False, False,
    ]  # fmt: skip
    left = await world.there(shared)
    assert (left.meaning, left.evidence, left.occurrences, left.speakers) == ("", 1, 1, 1)
    assert (await world.there(stone)).meaning == ""
    assert (await world.there(other)).meaning == "打排位"


async def test_the_log_forgets_the_words_of_what_went(world: SlangWorld) -> None:
    pos = await world.hear("今晚开黑")
    row = await world.put("开黑", "一起打游戏", pos, status="approved", decided_by="api")
    await world.rows(
        """
        INSERT INTO audit (actor, action, conversation_id, before, after, target_kind, target_id)
        VALUES ('api', 'slang.approve', %(c)s, NULL, '{"term": "开黑", "meaning": "一起打游戏", "status": "approved"}',
                'slang', %(id)s)
        RETURNING id
        """,
        id=row,
    )
    await forgotten(world, MING)
    assert await world.rows("SELECT after FROM audit") == [({"status": "approved"},)]


async def edited(world: SlangWorld, row: SlangId, meaning: str) -> AuditId:
    """A person gives a row another meaning; gives the act."""
    version = (await world.there(row)).version
    async with world.database.transaction() as conn:
        await slang_review.edit(conn, row, Edit(version, meaning=meaning), actor="api")
    [(act,)] = await world.rows("SELECT max(id) FROM audit")
    return AuditId(int(str(act)))


@pytest.mark.parametrize("forget_member", [False, True])
async def test_no_undo_brings_back_a_meaning_that_went(world: SlangWorld, forget_member: bool) -> None:
    first, second = await world.talk("今晚开黑", "开黑啊")
    row = await world.put("开黑", "小明的秘密", first, status="approved", decided_by="api")
    await world.rows(
        "INSERT INTO slang_evidence SELECT %(id)s, m.id FROM messages m WHERE pos = %(pos)s RETURNING 1", id=row, pos=second
    )
    act = await edited(world, row, "一起打游戏")
    if forget_member:
        await forgotten(world, MING)
    else:
        await world.withdraw(first)
    assert await world.rows("SELECT before ->> 'meaning', before ->> 'term', after ->> 'meaning' FROM audit") == [
        (None, "开黑", "一起打游戏")
    ]
    with pytest.raises(undo.NotUndoable):
        async with world.database.transaction() as conn:
            await undo.undo(conn, act, actor="api")
    assert (await world.there(row)).meaning == "一起打游戏"


async def test_an_edit_stays_undoable_while_its_sources_stand(world: SlangWorld) -> None:
    first, second = await world.talk("今晚开黑", "开黑啊")
    row = await world.put("开黑", "组队", first)
    await world.rows(
        "INSERT INTO slang_evidence SELECT %(id)s, m.id FROM messages m WHERE pos = %(pos)s RETURNING 1", id=row, pos=second
    )
    act = await edited(world, row, "一起打游戏")
    await world.withdraw(second)
    async with world.database.transaction() as conn:
        assert await undo.undo(conn, act, actor="api") is not None
    assert (await world.there(row)).meaning == "组队"


async def test_the_log_of_a_rules_approval_forgets_what_a_withdrawal_took(world: SlangWorld) -> None:
    pos = await world.talk(*["今晚开黑"] * 9)
    row = await world.put("开黑", "小明的秘密", *pos, confidence=0.9)
    async with world.database.transaction() as conn:
        assert await slang_findings.approve_sure(conn, world.conversation) == 1
    await world.withdraw(*pos)
    assert await world.slang(row) is None
    assert await world.rows("SELECT before ->> 'meaning', after ->> 'meaning', after ->> 'term' FROM audit") == [
        (None, None, None)
    ]


async def test_what_a_person_approved_is_empty_without_evidence(world: SlangWorld) -> None:
    pos = await world.hear("今晚开黑")
    row = await world.put("开黑", "小明的秘密", pos)
    async with world.database.transaction() as conn:
        await slang_review.edit(conn, row, Edit(1, status="approved"), actor="api")
    await world.rows("UPDATE slang_meanings SET sources = '{}' RETURNING id")
    await world.withdraw(pos)
    left = await world.there(row)
    assert (left.status, left.decided_by, left.meaning, left.version) == ("approved", "api", "", 3)
    assert await world.rows("SELECT before ->> 'meaning', after ->> 'meaning', after ->> 'term' FROM audit") == [
        (None, None, "开黑")
    ]
