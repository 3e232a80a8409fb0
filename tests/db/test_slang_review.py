"""What people do with slang, and how each act is taken back."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import pytest

from db import slang, slang_findings
from db import slang_review as review
from db import undo as undoing
from db.learned_models import AuditId, SlangId
from db.models import Json
from db.pool import Database
from db.slang import Slang
from db.slang_review import Edit, NewSlang, Outdated, Taken, Unmergeable
from tests.db.slang_world import SlangWorld

OWNER = "5000000099"


@pytest.fixture
async def world(database: Database) -> SlangWorld:
    """A group."""
    return await SlangWorld.create(database)


async def create(world: SlangWorld, term: str, meaning: str = "一起打游戏") -> Slang:
    """A person writes a term."""
    async with world.database.transaction() as conn:
        return await review.create(conn, NewSlang(world.conversation, term, meaning), actor=OWNER)


async def edit(world: SlangWorld, row: SlangId, wanted: Edit) -> Slang:
    """A person changes a term."""
    async with world.database.transaction() as conn:
        found = await review.edit(conn, row, wanted, actor=OWNER)
    assert found is not None
    return found


async def merge(world: SlangWorld, row: SlangId, into: SlangId, version: int | None = None) -> Slang | None:
    """A person merges a term into another."""
    async with world.database.transaction() as conn:
        return await review.merge(conn, row, into, version=version, actor=OWNER)


async def last_act(world: SlangWorld) -> tuple[int, Mapping[str, Json] | None, Mapping[str, Json]]:
    """The row that the latest act was about, and its fields before and after."""
    [(target, before, after)] = await world.rows("SELECT target_id, before, after FROM audit ORDER BY id DESC LIMIT 1")
    return target, before, after


async def undo(world: SlangWorld) -> bool:
    """Take the latest act back."""
    target, before, after = await last_act(world)
    version = after["version"]
    assert isinstance(version, int)
    async with world.database.transaction() as conn:
        return await review.restore(conn, target, before, version)


async def test_what_a_person_writes_is_approved_locked_and_counted(world: SlangWorld) -> None:
    await world.talk("今晚开黑", "开黑啊")
    row = await create(world, "开黑")
    assert (row.status, row.locked, row.decided_by, row.source, row.occurrences) == ("approved", True, OWNER, "person", 2)
    assert await world.prompted("开黑") == ["开黑"]
    assert await world.acts() == [(OWNER, "slang.create", None, "approved")]
    assert await world.meanings(row.id) == ["一起打游戏"]


async def test_a_spelling_that_is_taken_cannot_be_written_again(world: SlangWorld) -> None:
    row = await world.put("yyds", status="rejected")
    await world.spell(row, "永远的神")
    for term in ("ＹＹＤＳ", "永远的神"):
        with pytest.raises(Taken) as raised:
            await create(world, term)
        assert raised.value.current.id == row
    assert await world.acts() == []


async def test_two_people_writing_one_term_at_once_make_one(world: SlangWorld) -> None:
    ended = await asyncio.gather(*(create(world, term) for term in ("开黑", "開黑", "开 黑")), return_exceptions=True)
    assert sum(isinstance(result, Slang) for result in ended) == 1
    assert sum(isinstance(result, Taken) for result in ended) == 2


async def test_approving_keeps_the_row_open_for_evidence_but_is_a_decision(world: SlangWorld) -> None:
    row = await world.put("开黑", "一起打游戏", await world.hear("今晚开黑"))
    approved = await edit(world, row, Edit(1, status="approved"))
    assert (approved.status, approved.locked, approved.decided_by, approved.version) == ("approved", False, OWNER, 2)
    assert await world.acts() == [(OWNER, "slang.approve", "candidate", "approved")]
    assert await world.meanings(row) == ["一起打游戏"]


async def test_other_words_lock_a_row_and_a_note_does_not(world: SlangWorld) -> None:
    row = await world.put("开黑", "一起打游戏")
    noted = await edit(world, row, Edit(1, note="问过群主"))
    assert (noted.locked, noted.note, noted.version) == (False, "问过群主", 2)
    edited = await edit(world, row, Edit(2, meaning="组队打游戏", meaning_plain="打开黑色"))
    assert (edited.locked, edited.meaning, edited.meaning_plain) == (True, "组队打游戏", "打开黑色")
    assert await world.meanings(row) == ["一起打游戏", "组队打游戏"]


async def test_what_changes_nothing_leaves_no_trace(world: SlangWorld) -> None:
    row = await world.put("开黑", "一起打游戏")
    same = await edit(world, row, Edit(1, meaning="一起打游戏", term="开黑"))
    assert (same.version, same.locked) == (1, False)
    assert await world.acts() == []


async def test_who_read_an_older_version_changes_nothing(world: SlangWorld) -> None:
    row = await world.put("开黑", "一起打游戏")
    await edit(world, row, Edit(1, status="approved"))
    with pytest.raises(Outdated) as raised:
        await edit(world, row, Edit(1, status="rejected"))
    assert raised.value.current.status == "approved"
    assert len(await world.acts()) == 1


async def test_a_term_that_is_spelled_anew_keeps_its_old_spelling(world: SlangWorld) -> None:
    await world.talk("是开黑", "开黑啊")
    row = await world.put("是开黑", "一起打游戏")
    edited = await edit(world, row, Edit(1, term="开黑"))
    assert (edited.term, edited.term_key, edited.variants, edited.locked, edited.occurrences) == (
        "开黑",
        "开黑",
        ["是开黑"],
        True,
        2,
    )
    back = await edit(world, row, Edit(2, term="是开黑"))
    assert (back.term, back.variants) == ("是开黑", ["开黑"])


async def test_a_term_cannot_be_spelled_like_another(world: SlangWorld) -> None:
    other = await world.put("开黑")
    row = await world.put("上分")
    with pytest.raises(Taken) as raised:
        await edit(world, row, Edit(1, term="開黑"))
    assert raised.value.current.id == other
    assert (await world.there(row)).term == "上分"


async def test_case_alone_may_change(world: SlangWorld) -> None:
    row = await world.put("YYDS")
    edited = await edit(world, row, Edit(1, term="yyds"))
    assert (edited.term, edited.variants) == ("yyds", [])


async def test_a_merged_term_is_a_spelling_of_the_other(world: SlangWorld) -> None:
    first, second = await world.talk("他yyds", "他是永远的神")
    short = await world.put("yyds", "最厉害", first, status="approved")
    long = await world.put("永远的神", "夸人", second)
    await world.spell(long, "永神")
    kept = await merge(world, long, short, 1)
    assert kept is not None
    assert (kept.id, kept.variants, kept.occurrences, kept.evidence) == (short, ["永神", "永远的神"], 2, 2)
    gone = await world.there(long)
    assert (gone.status, gone.merged_into, gone.evidence, gone.version, gone.variants) == ("rejected", short, 0, 2, [])
    assert await world.prompted("永远的神！") == ["yyds"]
    assert await world.acts() == [(OWNER, "slang.merge", "candidate", "rejected")]


async def test_what_was_merged_into_a_merged_term_follows(world: SlangWorld) -> None:
    one, two, three = [await world.put(term) for term in ("甲梗", "乙梗", "丙梗")]
    await merge(world, one, two)
    await merge(world, two, three)
    assert (await world.there(one)).merged_into == three
    assert (await world.there(three)).variants == ["乙梗", "甲梗"]


async def test_rows_that_cannot_become_one_stay_two(world: SlangWorld) -> None:
    other = await SlangWorld.create(world.database, 5700000002)
    row, stone, far = await world.put("开黑"), await world.put("上分", status="rejected"), await other.put("开黑")
    for into in (row, stone, far):
        with pytest.raises(Unmergeable):
            await merge(world, row, into)
    with pytest.raises(Outdated):
        await merge(world, row, await world.put("打黑"), 7)
    assert await merge(world, row, SlangId(2**40)) is None
    assert await world.acts() == []


async def test_every_act_can_be_taken_back_and_taken_back_again(world: SlangWorld) -> None:
    row = await world.put("是开黑", "一起打游戏", await world.hear("是开黑"))
    for wanted in (Edit(1, status="approved"), Edit(1, term="开黑", meaning="组队"), Edit(1, status="rejected", note="不是")):
        before = await world.there(row)
        await edit(world, row, Edit(before.version, wanted.status, wanted.term, wanted.meaning, None, wanted.note))
        changed = await world.there(row)
        assert await undo(world)
        after = await world.there(row)
        assert review.shown(after) | {"version": 0} == review.shown(before) | {"version": 0}
        assert after.version == changed.version + 1
        async with world.database.transaction() as conn:
            assert await review.restore(conn, row, review.shown(changed), after.version)
        again = await world.there(row)
        assert review.shown(again) | {"version": 0} == review.shown(changed) | {"version": 0}
        async with world.database.transaction() as conn:
            assert await review.restore(conn, row, review.shown(before), again.version)


async def test_a_merge_is_taken_back_with_its_evidence_and_spellings(world: SlangWorld) -> None:
    first, second, both = await world.talk("他yyds", "他是永远的神", "yyds永远的神")
    short = await world.put("yyds", "最厉害", first, both, status="approved")
    long = await world.put("永远的神", "夸人", second, both)
    await world.spell(long, "永神")
    await merge(world, long, short)
    assert await undo(world)
    back, kept = await world.there(long), await world.there(short)
    assert (back.status, back.merged_into, back.variants, back.occurrences) == ("candidate", None, ["永神"], 2)
    assert (kept.variants, kept.occurrences) == ([], 2)
    assert (await world.supporting(long), await world.supporting(short)) == ([second, both], [first, both])


async def test_taking_back_what_a_person_wrote_takes_it_away(world: SlangWorld) -> None:
    row = await create(world, "开黑")
    assert await undo(world)
    assert await world.slang(row.id) is None


async def test_what_changed_since_is_not_taken_back(world: SlangWorld) -> None:
    row = await world.put("开黑", "一起打游戏")
    await edit(world, row, Edit(1, meaning="组队"))
    _, before, _ = await last_act(world)
    await edit(world, row, Edit(2, meaning="上号"))
    async with world.database.transaction() as conn:
        assert not await review.restore(conn, row, before, 2)
        assert not await review.restore(conn, 2**40, before, 2)
    assert (await world.there(row)).meaning == "上号"


async def test_a_spelling_that_was_taken_since_is_not_given_back(world: SlangWorld) -> None:
    row = await world.put("是开黑", "一起打游戏")
    await edit(world, row, Edit(1, term="开黑"))
    await world.rows("DELETE FROM slang_variants WHERE slang_id = %(id)s RETURNING slang_id", id=row)
    await create(world, "是开黑")
    async with world.database.transaction() as conn:
        assert not await review.restore(conn, row, review.shown(await world.there(row)) | {"term": "是开黑"}, 2)
    assert (await world.there(row)).term == "开黑"


async def test_a_merged_term_that_is_restored_is_a_term_of_its_own(world: SlangWorld) -> None:
    await world.talk("他yyds", "他是永远的神")
    short, long = await world.put("yyds", "最厉害", status="approved"), await world.put("永远的神", "夸人")
    await merge(world, long, short)
    row = await edit(world, long, Edit(2, status="candidate"))
    assert (row.status, row.merged_into) == ("candidate", None)
    assert (await world.there(short)).variants == []


async def test_an_approval_by_the_rule_that_was_taken_back_stays_so(world: SlangWorld) -> None:
    row = await world.put("开黑", "一起打游戏", *await world.talk(*["今晚开黑"] * 9), confidence=0.9)
    async with world.database.transaction() as conn:
        assert await slang_findings.approve_sure(conn, world.conversation) == 1
    [(act,)] = await world.rows("SELECT id FROM audit")
    async with world.database.transaction() as conn:
        assert await undoing.undo(conn, AuditId(int(str(act))), actor=OWNER) is not None
    async with world.database.transaction() as conn:
        assert await slang_findings.approve_sure(conn, world.conversation) == 0
    left = await world.there(row)
    assert (left.status, left.decided_by) == ("candidate", OWNER)


async def test_a_meaning_that_is_put_back_goes_with_its_sources(world: SlangWorld) -> None:
    first, second = await world.talk("今晚开黑", "开黑啊")
    row = await world.put("开黑", "一起打游戏", first)
    await world.rows(
        "INSERT INTO slang_evidence SELECT %(id)s, m.id FROM messages m WHERE pos = %(pos)s RETURNING 1", id=row, pos=second
    )
    await edit(world, row, Edit(1, meaning="组队"))
    assert await undo(world)
    assert await world.meanings(row) == ["一起打游戏", "组队", "一起打游戏"]
    await world.withdraw(first)
    assert ((await world.there(row)).meaning, await world.meanings(row)) == ("", ["组队"])


async def test_a_meaning_without_known_sources_is_not_put_back(world: SlangWorld) -> None:
    row = await world.put("开黑", "一起打游戏")
    await edit(world, row, Edit(1, status="approved", meaning="组队"))
    await world.rows("DELETE FROM slang_meanings WHERE meaning = '一起打游戏' RETURNING id")
    assert await undo(world)
    left = await world.there(row)
    assert (left.status, left.locked, left.meaning, await world.meanings(row)) == ("candidate", False, "", ["组队"])


async def test_a_spelling_outlives_a_new_name_that_was_taken_back(world: SlangWorld) -> None:
    row = await world.put("永远的神", "最厉害")
    await world.spell(row, "yyds")
    await edit(world, row, Edit(1, term="yyds"))
    assert await undo(world)
    left = await world.there(row)
    assert (left.term, left.variants) == ("永远的神", ["yyds"])


async def test_what_was_merged_before_comes_back_with_a_merge_that_is_taken_back(world: SlangWorld) -> None:
    one, two, three = [await world.put(term) for term in ("甲梗", "乙梗", "丙梗")]
    await merge(world, one, two)
    await merge(world, two, three)
    assert await undo(world)
    assert [(await world.there(row)).merged_into for row in (one, two)] == [two, None]
    async with world.database.connection() as conn:
        assert await slang.spelled(conn, world.conversation, ["甲梗"]) == {"甲梗": two}


async def test_what_others_were_merged_into_is_not_taken_away(world: SlangWorld) -> None:
    short = await world.put("yyds", "最厉害", await world.hear("他yyds"))
    made = await create(world, "永远的神")
    _, before, _ = await last_act(world)
    await merge(world, short, made.id)
    async with world.database.transaction() as conn:
        assert not await review.restore(conn, made.id, before, 1)
    assert (await world.there(short)).merged_into == made.id
    assert await undo(world)
    async with world.database.transaction() as conn:
        assert await review.restore(conn, made.id, None, 1)
    assert ((await world.there(short)).merged_into, await world.slang(made.id)) == (None, None)
