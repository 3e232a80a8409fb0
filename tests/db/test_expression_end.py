"""Expressions end with their evidence, and enter a prompt only where they fit it."""

from __future__ import annotations

import pytest

from db import forget
from db.pool import Database
from tests.db.expression_world import ExpressionWorld
from tests.db.memory_world import MING, WEI


@pytest.fixture
async def world(database: Database) -> ExpressionWorld:
    """A group."""
    return await ExpressionWorld.create(database)


async def forgotten(world: ExpressionWorld, user: int) -> None:
    """A member says 忘记我."""
    async with world.database.transaction() as conn:
        await forget.member(conn, world.conversation, user)


async def test_a_candidate_goes_with_its_last_evidence(world: ExpressionWorld) -> None:
    first, second = await world.talk("又修仙呢", "你又修仙呢")
    row = await world.put("有人熬夜", "又修仙呢", first, second)
    await world.withdraw(first)
    assert (await world.there(row)).evidence == 1
    await world.withdraw(second)
    assert await world.expression(row) is None


async def test_an_approved_one_leaves_the_prompt_at_once_and_stays_for_people(world: ExpressionWorld) -> None:
    [pos] = await world.talk("又修仙呢")
    row = await world.approved("有人熬夜打游戏", "又修仙呢", pos)
    assert await world.prompted("昨天熬夜了") == ["又修仙呢"]
    await world.withdraw(pos)
    assert await world.prompted("昨天熬夜了") == []
    assert (await world.there(row)).evidence == 0


@pytest.mark.parametrize("fields", [{"locked": True}, {"status": "rejected"}])
async def test_what_a_person_wrote_or_rejected_stays(world: ExpressionWorld, fields: dict[str, object]) -> None:
    [pos] = await world.talk("又修仙呢")
    row = await world.put("有人熬夜", "又修仙呢", pos, **fields)
    await world.withdraw(pos)
    await forgotten(world, MING)
    assert await world.expression(row) is not None


async def test_a_forgotten_member_takes_along_what_only_they_supported(world: ExpressionWorld) -> None:
    mine, theirs = await world.talk("又修仙呢", "又修仙呢")
    only = await world.approved("有人熬夜", "又修仙呢", mine)
    both = await world.put("有人通宵", "又修仙呢", mine, theirs)
    await world.rows(
        """
        INSERT INTO audit (actor, action, conversation_id, before, after, target_kind, target_id)
        VALUES ('api', 'expression.approve', %(c)s, '{"phrase": "又修仙呢", "version": 1}', '{"phrase": "又修仙呢"}',
                'expression', %(id)s)
        RETURNING id
        """,
        id=only,
    )
    await forgotten(world, MING)
    assert await world.expression(only) is None
    assert await world.supporting(both) == [theirs]
    assert await world.rows("SELECT before, after FROM audit") == [({"version": 1}, {})]


async def test_another_members_forgetting_changes_nothing(world: ExpressionWorld) -> None:
    [pos] = await world.talk("又修仙呢")
    row = await world.put("有人熬夜", "又修仙呢", pos)
    await forgotten(world, WEI)
    assert await world.supporting(row) == [pos]


async def test_only_what_is_approved_and_fits_enters_the_prompt_at_most_five(world: ExpressionWorld) -> None:
    [pos] = await world.talk("又修仙呢")
    await world.put("有人熬夜", "候选的", pos)
    await world.put("有人熬夜", "拒绝的", pos, status="rejected")
    await world.approved("有人熬夜", "没有依据的")
    await world.approved("有人熬夜", "人写的", locked=True)
    await world.approved("有人迟到", "不相干的", pos)
    for number in range(6):
        await world.approved(f"有人熬夜到{number}点", f"说法{number}", pos)
    found = await world.prompted("昨天熬夜了")
    assert len(found) == 5
    assert set(found) <= {"人写的", *(f"说法{number}" for number in range(6))}
    assert await world.prompted("今天吃什么") == []
    assert await world.prompted("？？") == []


async def test_a_shared_word_that_everybody_uses_does_not_make_it_fit(world: ExpressionWorld) -> None:
    [pos] = await world.talk("又修仙呢")
    await world.approved("大家熬夜", "又修仙呢", pos)
    await world.rows("INSERT INTO search_stats (documents) VALUES (1000) RETURNING 1")
    await world.rows("INSERT INTO search_terms (term, df) VALUES ('大家', 300) RETURNING 1")
    assert await world.prompted("大家好") == []
    assert await world.prompted("熬夜好") == ["又修仙呢"]


async def test_what_shares_rarer_words_comes_first(world: ExpressionWorld) -> None:
    [pos] = await world.talk("又修仙呢")
    await world.approved("有人加班", "社畜辛苦了", pos)
    await world.approved("有人熬夜", "又修仙呢", pos)
    await world.rows("INSERT INTO search_stats (documents) VALUES (1000) RETURNING 1")
    await world.rows("INSERT INTO search_terms (term, df) VALUES ('加班', 10), ('熬夜', 2) RETURNING 1")
    assert await world.prompted("加班又熬夜") == ["又修仙呢", "社畜辛苦了"]


async def test_expressions_do_not_leave_their_group(world: ExpressionWorld) -> None:
    other = await ExpressionWorld.create(world.database, 5700000002)
    [pos] = await world.talk("又修仙呢")
    await world.approved("有人熬夜", "又修仙呢", pos)
    assert await other.prompted("熬夜") == []
