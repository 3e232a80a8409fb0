"""What people do with expressions, and taking it back."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from db import expression_review
from db.expression_review import Edit, NewExpression, Outdated, Taken, Unmergeable
from db.expressions import Expression
from db.learned_models import ExpressionId
from db.models import Json
from db.pool import Database
from tests.db.expression_world import ExpressionWorld


@pytest.fixture
async def world(database: Database) -> ExpressionWorld:
    """A group."""
    return await ExpressionWorld.create(database)


async def create(world: ExpressionWorld, situation: str, phrase: str) -> Expression:
    """A person writes one."""
    async with world.database.transaction() as conn:
        return await expression_review.create(conn, NewExpression(world.conversation, situation, phrase), actor="api")


async def edit(world: ExpressionWorld, row: ExpressionId, wanted: Edit) -> Expression:
    """A person changes one."""
    async with world.database.transaction() as conn:
        changed = await expression_review.edit(conn, row, wanted, actor="api")
    assert changed is not None
    return changed


async def merge(world: ExpressionWorld, row: ExpressionId, into: ExpressionId, version: int | None = None) -> Expression:
    """A person makes one of two."""
    async with world.database.transaction() as conn:
        left = await expression_review.merge(conn, row, into, version=version, actor="api")
    assert left is not None
    return left


async def undo(world: ExpressionWorld) -> bool:
    """The last act is taken back."""
    [(target, before, after)] = await world.rows("SELECT target_id, before, after FROM audit ORDER BY id DESC LIMIT 1")
    fields: Mapping[str, Json] | None = before
    async with world.database.transaction() as conn:
        return await expression_review.restore(conn, target, fields, after["version"])


async def test_what_a_person_writes_is_approved_and_locked(world: ExpressionWorld) -> None:
    row = await create(world, "有人熬夜", "又修仙呢")
    assert (row.status, row.locked, row.decided_by, row.source, row.version) == ("approved", True, "api", "person", 1)
    assert await world.prompted("熬夜") == ["又修仙呢"]
    with pytest.raises(Taken, match="已通过"):
        await create(world, "有人，熬夜！", "又修仙呢～")
    assert await undo(world)
    assert await world.expression(row.id) is None


async def test_approving_and_rejecting_are_acts_that_can_be_taken_back(world: ExpressionWorld) -> None:
    [pos] = await world.talk("又修仙呢")
    row = await world.put("有人熬夜", "又修仙呢", pos)
    await edit(world, row, Edit(1, status="approved"))
    assert await world.prompted("熬夜") == ["又修仙呢"]
    rejected = await edit(world, row, Edit(2, status="rejected"))
    assert (rejected.version, rejected.locked) == (3, False)
    assert await undo(world)
    left = await world.there(row)
    assert (left.status, left.decided_by, left.version) == ("approved", "api", 4)
    acts = await world.rows("SELECT action, target_kind FROM audit ORDER BY id")
    assert acts == [("expression.approve", "expression"), ("expression.reject", "expression")]


async def test_other_words_lock_and_lose_the_old_vector(world: ExpressionWorld) -> None:
    row = await world.put("有人熬夜", "又修仙呢")
    await world.rows("INSERT INTO embedding_spaces (model, dim) VALUES ('toy', 2) RETURNING 1")
    await world.rows("UPDATE expressions SET space_id = s.id, embedding = '[1,0]' FROM embedding_spaces s RETURNING 1")
    await edit(world, row, Edit(1, phrase="又在修仙"))
    assert await world.rows("SELECT locked, embedding IS NULL FROM expressions") == [(True, False)]
    await edit(world, row, Edit(2, situation="有人通宵"))
    assert await world.rows("SELECT space_id, embedding, search FROM expressions") == [(None, None, " 有人 人通 通宵 ")]
    assert await undo(world)
    assert (await world.there(row)).situation == "有人熬夜"


async def test_a_stale_version_changes_nothing_and_no_change_leaves_no_trace(world: ExpressionWorld) -> None:
    row = await world.put("有人熬夜", "又修仙呢")
    await edit(world, row, Edit(1, note="好"))
    with pytest.raises(Outdated) as refused:
        await edit(world, row, Edit(1, status="approved"))
    assert refused.value.current.version == 2
    assert (await edit(world, row, Edit(2, note="好"))).version == 2
    assert len(await world.rows("SELECT FROM audit")) == 1


async def test_words_of_another_row_are_refused(world: ExpressionWorld) -> None:
    first = await world.put("有人熬夜", "又修仙呢")
    second = await world.put("有人通宵", "又修仙呢")
    with pytest.raises(Taken) as refused:
        await edit(world, second, Edit(1, situation="有人熬夜"))
    assert refused.value.current.id == first


async def test_merging_moves_the_evidence_and_taking_it_back_moves_it_again(world: ExpressionWorld) -> None:
    one, two, three = await world.talk("又修仙呢", "又修仙呢", "修仙呢")
    row = await world.put("有人通宵", "修仙呢", two, three)
    into = await world.put("有人熬夜", "又修仙呢", one, two)
    left = await merge(world, row, into)
    assert left.id == into
    assert await world.supporting(into) == [one, two, three]
    gone = await world.there(row)
    assert (gone.status, gone.merged_into, gone.evidence) == ("rejected", into, 0)
    assert await undo(world)
    back = await world.there(row)
    assert (back.status, back.merged_into) == ("candidate", None)
    assert await world.supporting(row) == [three]
    assert await world.supporting(into) == [one, two]


async def test_what_was_merged_before_follows(world: ExpressionWorld) -> None:
    first = await world.put("甲情况", "甲甲")
    second = await world.put("乙情况", "乙乙")
    third = await world.put("丙情况", "丙丙")
    await merge(world, first, second)
    await merge(world, second, third)
    assert (await world.there(first)).merged_into == third


async def test_taking_back_a_merge_brings_back_what_had_been_merged_before(world: ExpressionWorld) -> None:
    first = await world.put("甲情况", "甲甲")
    second = await world.put("乙情况", "乙乙")
    third = await world.put("丙情况", "丙丙")
    fourth = await world.put("丁情况", "丁丁")
    await merge(world, fourth, third)
    await merge(world, first, second)
    await merge(world, second, third)
    assert await undo(world)
    assert ((await world.there(first)).merged_into, (await world.there(fourth)).merged_into) == (second, third)


async def test_what_others_were_merged_into_is_not_taken_back(world: ExpressionWorld) -> None:
    into = await create(world, "有人熬夜", "又修仙呢")
    row = await world.put("有人通宵", "修仙呢")
    await merge(world, row, into.id)
    async with world.database.transaction() as conn:
        assert not await expression_review.restore(conn, into.id, None, 1)
    assert (await world.there(row)).merged_into == into.id


async def test_what_cannot_be_one_stays_two(world: ExpressionWorld) -> None:
    other = await ExpressionWorld.create(world.database, 5700000002)
    row = await world.put("甲情况", "甲甲")
    rejected = await world.put("乙情况", "乙乙", status="rejected")
    foreign = await other.put("丙情况", "丙丙")
    for into, why in ((row, "自己"), (rejected, "拒绝"), (foreign, "会话")):
        with pytest.raises(Unmergeable, match=why):
            await merge(world, row, into)
    with pytest.raises(Outdated):
        await merge(world, row, rejected, 7)


async def test_taking_back_fails_where_it_changed_since_or_the_words_are_taken(world: ExpressionWorld) -> None:
    row = await world.put("有人熬夜", "又修仙呢")
    await edit(world, row, Edit(1, situation="有人通宵"))
    await create(world, "有人熬夜", "又修仙呢")
    [audited] = await world.rows("SELECT before FROM audit ORDER BY id LIMIT 1")
    async with world.database.transaction() as conn:
        assert not await expression_review.restore(conn, row, audited[0], 2)
        assert not await expression_review.restore(conn, row, audited[0], 1)
        assert not await expression_review.restore(conn, 99999, audited[0], 1)
    assert (await world.there(row)).situation == "有人通宵"
