"""Expressions end with their evidence, and enter a prompt only where they fit it."""

from __future__ import annotations

import pytest

from db import expression_findings, expression_review, forget
from db.expression_review import Edit
from db.expressions import read_pair
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


async def test_an_approved_one_goes_at_once_with_its_words(world: ExpressionWorld) -> None:
    [pos] = await world.talk("又修仙呢")
    row = await world.approved("有人熬夜打游戏", "又修仙呢", pos)
    assert await world.prompted("昨天熬夜了") == ["又修仙呢"]
    await world.withdraw(pos)
    assert await world.prompted("昨天熬夜了") == []
    assert await world.expression(row) is None


@pytest.mark.parametrize("status", ["approved", "rejected"])
async def test_what_a_person_wrote_stays(world: ExpressionWorld, status: str) -> None:
    [pos] = await world.talk("又修仙呢")
    row = await world.put("有人熬夜", "又修仙呢", pos, locked=True, status=status)
    await world.withdraw(pos)
    await forgotten(world, MING)
    assert (await world.there(row)).phrase == "又修仙呢"


@pytest.mark.parametrize("how", ["withdrawn", "forgotten"])
async def test_of_what_a_person_rejected_only_a_hash_stays(world: ExpressionWorld, how: str) -> None:
    pair = read_pair("有人熬夜", "又修仙呢")
    mine, _, _, again = await world.talk("又修仙呢", "一", "二", "又修仙呢")
    row = await world.put(pair.situation, pair.phrase, mine, status="rejected", decided_by="api", note="小明说的")
    other = await world.put("有人通宵", "修仙啦", again, status="rejected", decided_by="api")
    await (world.withdraw(mine, again) if how == "withdrawn" else forgotten(world, MING))
    [left, _] = await world.rows("SELECT * FROM expressions ORDER BY id")
    assert not any("修仙" in str(value) or "熬夜" in str(value) or "小明" in str(value) for value in left)
    assert [await world.expression(gone) for gone in (row, other)] == [None, None]
    async with world.database.transaction() as conn:
        near = await expression_findings.near(conn, world.conversation, pair, None, None)
        assert near is not None
        assert (near.id, near.status) == (row, "rejected")


async def test_no_act_brings_forgotten_words_back(world: ExpressionWorld) -> None:
    [pos] = await world.talk("又修仙呢")
    row = await world.approved("有人熬夜", "又修仙呢", pos)
    async with world.database.transaction() as conn:
        await expression_review.edit(conn, row, Edit(1, phrase="早点睡"), actor="api")
    await forgotten(world, MING)
    [(before, after)] = await world.rows("SELECT before, after FROM audit")
    assert "修仙" not in str(before)
    async with world.database.transaction() as conn:
        assert not await expression_review.restore(conn, row, before, after["version"])
    assert (await world.there(row)).phrase == "早点睡"


async def test_forgetting_takes_the_words_of_what_was_merged(world: ExpressionWorld) -> None:
    mine, theirs = await world.talk("又修仙呢", "修仙啦")
    row = await world.put("有人熬夜", "又修仙呢", mine)
    into = await world.approved("有人通宵", "修仙啦", theirs)
    async with world.database.transaction() as conn:
        await expression_review.merge(conn, row, into, version=None, actor="api")
    await forgotten(world, MING)
    assert await world.expression(row) is None
    assert await world.supporting(into) == [theirs]
    [(before,)] = await world.rows("SELECT before FROM audit")
    assert "修仙" not in str(before)


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
