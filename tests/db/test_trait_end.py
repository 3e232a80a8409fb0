"""Traits end with their evidence, with a member who is forgotten, and with one who left; what enters a prompt."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from db import forget, unlearned, upkeep
from db.pool import Database
from tests.db.memory_world import MING, WANG, WEI
from tests.db.trait_world import TraitWorld

LIMIT = datetime.now(UTC) - timedelta(days=90)


@pytest.fixture
async def world(database: Database) -> TraitWorld:
    """A group."""
    return await TraitWorld.create(database)


async def forgotten(world: TraitWorld, user: int) -> None:
    """A member says 忘记我."""
    async with world.database.transaction() as conn:
        await forget.member(conn, world.conversation, user)


async def test_a_withdrawal_drops_a_trait_at_once_and_out_of_the_next_prompt(world: TraitWorld) -> None:
    first, second = await world.says(MING, "周末去爬山", "又去爬山了")
    row = await world.put("interest", "喜欢爬山", first, second)
    alias = await world.put("alias", "明哥", first)
    assert await world.prompted() == ["明哥", "喜欢爬山"]
    await world.withdraw(second)
    assert await world.prompted() == ["明哥"]
    left = await world.there(row)
    assert (left.dropped_why, left.version, left.evidence) == ("withdrawn", 2, 1)
    await world.withdraw(first)
    assert await world.prompted() == []
    assert (await world.there(alias)).dropped_why == "withdrawn"


async def test_enough_other_evidence_keeps_a_trait_and_a_person_vouches_for_a_locked_one(world: TraitWorld) -> None:
    first, second, third = await world.says(MING, "周末去爬山", "又去爬山了", "山顶真好")
    row = await world.put("interest", "喜欢爬山", first, second, third)
    locked = await world.put("fact", "养了一只猫", first, second, locked=True)
    await world.withdraw(first)
    assert (await world.there(row)).dropped_at is None
    await world.withdraw(second, third)
    assert (await world.there(row)).dropped_why == "withdrawn"
    assert await world.prompted() == ["养了一只猫"]
    assert (await world.there(locked)).evidence == 0


async def test_a_forgotten_member_has_no_profile_and_nobody_elses_names_them(world: TraitWorld) -> None:
    first, second = await world.says(MING, "周末去爬山", "又去爬山了")
    third, fourth = await world.says(WEI, "我和小明是室友", "和小明住")
    mine = await world.put("interest", "喜欢爬山", first, second)
    locked = await world.put("fact", "养了一只猫", locked=True)
    dropped = await world.put("fact", "怕狗", dropped_at=datetime.now(UTC), dropped_why="person")
    naming = await world.put("relation", "和小明[1]是室友", third, fourth, user=WEI)
    other = await world.put("relation", "和老王[3]是同乡", third, fourth, user=WEI)
    await world.rows(
        """
        INSERT INTO audit (actor, action, conversation_id, before, after, target_kind, target_id)
        VALUES ('api', 'trait.drop', %(c)s, '{"user_id": 5000000011, "content": "怕狗", "version": 1}',
                '{"user_id": 5000000011, "content": "怕狗"}', 'trait', %(id)s)
        RETURNING id
        """,
        id=dropped,
    )
    await forgotten(world, MING)
    assert [await world.trait(row) for row in (mine, locked, dropped, naming)] == [None] * 4
    assert (await world.there(other)).dropped_at is None
    assert await world.rows("SELECT before, after FROM audit") == [
        ({"user_id": MING, "version": 1}, {"user_id": MING}),
    ]


async def test_the_prompt_has_four_of_each_in_the_order_asked_and_none_of_who_left(world: TraitWorld) -> None:
    first, second, third = await world.says(MING, "一", "二", "三")
    for number in range(5):
        await world.put("interest", f"喜欢第{number}件事", first, second)
    await world.put("style", "爱说谐音梗", first, second, third)
    await world.put("alias", "明哥", first)
    await world.put("fact", "依据不够", first)
    theirs = await world.says(WEI, "一", "二")
    await world.put("interest", "喜欢下棋", *theirs, user=WEI)
    found = await world.prompted(WEI, MING, WANG)
    assert found[:3] == ["喜欢下棋", "明哥", "爱说谐音梗"]
    assert len(found) == 5
    await world.leave(WEI)
    assert await world.prompted(WEI, MING) == found[1:]


async def test_sensitive_traits_leave_the_prompt_with_the_owners_consent(world: TraitWorld) -> None:
    pos = await world.says(MING, "一", "二")
    await world.put("fact", "有抑郁症", *pos, sensitive=True)
    await world.put("fact", "对花生过敏", sensitive=True, locked=True)
    await world.put("interest", "喜欢下棋", *pos)
    assert set(await world.prompted(sensitive=True)) == {"对花生过敏", "有抑郁症", "喜欢下棋"}
    assert await world.prompted() == ["对花生过敏", "喜欢下棋"]


async def test_what_is_known_stays_when_a_member_says_not_to_learn(world: TraitWorld) -> None:
    pos = await world.says(MING, "一", "二")
    await world.put("interest", "喜欢下棋", *pos)
    async with world.database.connection() as conn:
        await unlearned.set(conn, world.conversation, MING)
    assert await world.prompted() == ["喜欢下棋"]


async def test_profiles_do_not_leave_their_group(world: TraitWorld) -> None:
    other = await TraitWorld.create(world.database, 5700000002)
    await world.put("interest", "喜欢下棋", locked=True)
    assert await other.prompted() == []
    await forgotten(other, MING)
    assert await world.prompted() == ["喜欢下棋"]


async def test_traits_of_who_left_long_ago_go_and_tombstones_of_who_is_there_stay(world: TraitWorld) -> None:
    old = datetime.now(UTC) - timedelta(days=100)
    stays = await world.put("interest", "喜欢下棋", locked=True)
    tomb = await world.put("fact", "怕狗", dropped_at=old, dropped_why="person")
    withdrawn = await world.put("fact", "怕猫", dropped_at=old, dropped_why="withdrawn")
    recent = await world.put("fact", "怕鱼", dropped_at=datetime.now(UTC), dropped_why="withdrawn")
    gone = await world.put("interest", "喜欢钓鱼", user=WEI, locked=True)
    left = await world.put("interest", "喜欢跑步", user=WANG)
    await world.leave(WANG)
    await world.leave(WEI)
    await world.rows("UPDATE members SET left_at = %(old)s WHERE user_id = %(user)s RETURNING 1", old=old, user=WEI)
    async with world.database.connection() as conn:
        assert await upkeep.old_traits(conn, LIMIT, limit=100) == 2
    assert [await world.trait(row) is None for row in (stays, tomb, withdrawn, recent, gone, left)] == [
        False, False, True, False, True, False,
    ]  # fmt: skip


async def test_old_messages_stay_while_something_of_value_stands_on_them(world: TraitWorld) -> None:
    pos = await world.says(MING, *"一二三四五六七")
    messages = [await world.row(number) for number in pos]
    await world.put("interest", "喜欢下棋", pos[0])
    await world.put("interest", "喜欢钓鱼", pos[1], dropped_at=datetime.now(UTC), dropped_why="changed")
    for number, status, locked in ((2, "approved", False), (3, "candidate", False), (4, "rejected", True)):
        await world.rows(
            """
            WITH term AS (
                INSERT INTO slang (conversation_id, term, term_key, source, status, locked)
                VALUES (%(c)s, %(key)s, %(key)s, 'model', %(status)s, %(locked)s) RETURNING id
            ), pair AS (
                INSERT INTO expressions (conversation_id, situation, phrase, pair_key, phrase_key, search, phrase_search, source,
                                         status, locked)
                VALUES (%(c)s, '情境', '说法', %(key)s, '', '', '', 'model', %(status)s, %(locked)s) RETURNING id
            ), first AS (
                INSERT INTO slang_evidence SELECT id, %(slang)s FROM term WHERE %(slang)s IS NOT NULL
            )
            INSERT INTO expression_evidence SELECT id, %(expression)s FROM pair RETURNING 1
            """,
            key=f"词{number}", status=status, locked=locked, slang=messages[number], expression=messages[5 if number == 2 else 6],
        )  # fmt: skip
    await world.rows("UPDATE expressions SET status = 'rejected', locked = false WHERE status <> 'approved' RETURNING 1")
    await world.rows(
        "UPDATE messages SET sent_at = now() - interval '100 days', stored_at = now() - interval '100 days' RETURNING 1"
    )
    async with world.database.connection() as conn:
        assert await upkeep.old_messages(conn, LIMIT, limit=100) == 3
    assert [row[0] for row in await world.rows("SELECT pos FROM messages ORDER BY pos")] == [pos[0], pos[2], pos[4], pos[5]]
