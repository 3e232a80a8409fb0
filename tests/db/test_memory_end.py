"""Withdrawing ends what stands on a message: claims, what was built from them, their use; what they replaced stands again."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from db import memories, withdraw
from db.memory_lists import newest
from db.memory_models import GROUP, Ask, Claim, MemoryId, Scope, Subject, Wish
from db.pool import Database, DatabaseUnavailable
from db.recall import recall
from tests.db.memory_world import ABOUT_MING, BOT2, START, WEI, MemoryWorld


@pytest.fixture
async def world(database: Database) -> MemoryWorld:
    """A group."""
    return await MemoryWorld.create(database)


async def recalled(world: MemoryWorld, text: str) -> list[MemoryId]:
    """What a question finds."""
    found = await recall(world.database, [Ask(text)], Scope((world.conversation,)), Wish(6))
    return [item.memory.id for item in found]


async def test_the_last_evidence_takes_the_claim_and_its_use_with_it(world: MemoryWorld) -> None:
    first, second = await world.say("我养了一只猫"), await world.say("我家猫叫年糕")
    cat = await world.remember("小明养了一只猫", first, second, about=ABOUT_MING)
    other = await world.remember("小明养了一条鱼", second, about=ABOUT_MING)
    turn = await world.turn()
    async with world.database.connection() as conn:
        await memories.used(conn, turn, [cat, other])
    await world.withdraw(first)
    assert await world.states(cat, other) == ["active", "active"]
    assert await recalled(world, "小明养了一只猫") == [cat, other]
    await world.withdraw(second)
    assert await world.states(cat, other) == ["withdrawn", "withdrawn"]
    assert await world.rows("SELECT * FROM memory_uses") == []
    assert await recalled(world, "小明养了一只猫") == []


async def test_a_claim_ends_in_the_transaction_of_the_withdrawal_and_comes_back_with_it(world: MemoryWorld) -> None:
    pos = await world.say("我养了一只猫")
    cat = await world.remember("小明养了一只猫", pos, about=ABOUT_MING)
    merged = await world.remember("小明养了一只猫，叫年糕", await world.say("叫年糕"), about=ABOUT_MING, refines=cat)
    turn = await world.turn()
    async with world.database.connection() as conn:
        await memories.used(conn, turn, [merged])
    async with world.database.connection() as conn, conn.transaction(force_rollback=True):
        assert await world.withdraw_in(conn, pos)
        cur = await conn.execute("SELECT archived_why, (SELECT count(*) FROM memory_uses) FROM memories ORDER BY id")
        assert await cur.fetchall() == [("withdrawn", 0), ("withdrawn", 0)]
    assert await world.states(cat, merged) == ["refined", "active"]
    assert await world.rows("SELECT memory_id FROM memory_uses") == [(merged,)]


async def test_what_was_built_from_withdrawn_text_goes_too_however_far(world: MemoryWorld) -> None:
    positions = [await world.say(text) for text in ("我养了一只猫", "叫年糕", "三岁了")]
    one = await world.remember("小明养猫", positions[0], about=ABOUT_MING)
    two = await world.remember("小明养猫，叫年糕", positions[1], about=ABOUT_MING, refines=one)
    three = await world.remember("小明养猫，叫年糕，三岁", positions[2], about=ABOUT_MING, refines=two)
    await world.withdraw(positions[0])
    assert await world.states(one, two, three) == ["withdrawn"] * 3


async def test_what_only_took_its_place_or_speaks_against_it_stays(world: MemoryWorld) -> None:
    first, second, third = [await world.say(text) for text in ("我住海边", "我搬到山里了", "谁说我住海边")]
    sea = await world.remember("小明住海边", first, about=ABOUT_MING)
    hill = await world.remember("小明住山里", second, about=ABOUT_MING, supersedes=sea)
    never = await world.remember("小明没住过海边", third, about=ABOUT_MING)
    async with world.database.connection() as conn:
        await memories.link(conn, sea, never, "contradicts")
    await world.withdraw(first)
    assert await world.states(sea, hill, never) == ["withdrawn", "active", "active"]


@pytest.mark.parametrize("how", ["refines", "supersedes"])
async def test_what_it_replaced_stands_again_while_that_has_evidence(world: MemoryWorld, how: str) -> None:
    first, second = await world.say("我住海边"), await world.say("我搬到山里了")
    sea = await world.remember("小明住海边", first, about=ABOUT_MING)
    old = {how: sea}
    hill = await world.remember(
        "小明住山里", second, about=ABOUT_MING, refines=old.get("refines"), supersedes=old.get("supersedes")
    )
    await world.withdraw(second)
    assert await world.states(sea, hill) == ["active", "withdrawn"]
    memory = await world.memory(sea)
    assert memory is not None
    assert (memory.archived_at, memory.version) == (None, 3)
    await world.withdraw(first)
    assert await world.states(sea, hill) == ["withdrawn", "withdrawn"]


async def test_both_withdrawn_at_once_leaves_neither(world: MemoryWorld) -> None:
    first, second = await world.say("我住海边"), await world.say("我搬到山里了")
    sea = await world.remember("小明住海边", first, about=ABOUT_MING)
    hill = await world.remember("小明住山里", second, about=ABOUT_MING, supersedes=sea)
    await world.withdraw(second, first)
    assert await world.states(sea, hill) == ["withdrawn", "withdrawn"]


async def homes(world: MemoryWorld) -> tuple[list[int], list[MemoryId]]:
    """Three homes, each in the place of the one before."""
    positions = [await world.say(text) for text in ("我住海边", "我搬到山里了", "我搬到城里了")]
    sea = await world.remember("小明住海边", positions[0], about=ABOUT_MING)
    hill = await world.remember("小明住山里", positions[1], about=ABOUT_MING, supersedes=sea)
    town = await world.remember("小明住城里", positions[2], about=ABOUT_MING, supersedes=hill)
    return positions, [sea, hill, town]


async def test_only_the_latest_of_a_chain_stands_again(world: MemoryWorld) -> None:
    positions, chain = await homes(world)
    await world.withdraw(positions[2])
    assert await world.states(*chain) == ["superseded", "active", "withdrawn"]
    await world.withdraw(positions[1])
    assert await world.states(*chain) == ["active", "withdrawn", "withdrawn"]


async def test_an_origin_does_not_stand_again_beside_a_later_heir(world: MemoryWorld) -> None:
    positions, chain = await homes(world)
    await world.withdraw(positions[1])
    assert await world.states(*chain) == ["superseded", "withdrawn", "active"]
    await world.withdraw(positions[2])
    assert await world.states(*chain) == ["active", "withdrawn", "withdrawn"]


async def test_what_the_agent_archived_itself_does_not_come_back(world: MemoryWorld) -> None:
    pos = await world.say("我住海边")
    sea = await world.remember("小明住海边", pos, about=ABOUT_MING)
    async with world.database.connection() as conn:
        await memories.archive(conn, sea, "agent")
        hill = await world.remember("小明住山里", await world.say("我住山里"), about=ABOUT_MING)
        await memories.link(conn, sea, hill, "supersedes")
    await world.withdraw(2)
    assert await world.states(sea, hill) == ["agent", "withdrawn"]


async def test_nothing_stands_again_beside_an_equal_claim(world: MemoryWorld) -> None:
    first, second, third = [await world.say(text) for text in ("我住海边", "我搬到山里了", "其实我又回海边了")]
    sea = await world.remember("小明住海边", first, about=ABOUT_MING)
    hill = await world.remember("小明住山里", second, about=ABOUT_MING, supersedes=sea)
    again = await world.remember("小明住海边。", third, about=ABOUT_MING)
    await world.withdraw(second)
    assert await world.states(sea, hill, again) == ["superseded", "withdrawn", "active"]


async def test_an_equal_claim_written_at_that_moment_does_not_break_the_withdrawal(world: MemoryWorld) -> None:
    first, second = await world.say("我住海边"), await world.say("我搬到山里了")
    sea = await world.remember("小明住海边", first, about=ABOUT_MING)
    hill = await world.remember("小明住山里", second, about=ABOUT_MING, supersedes=sea)
    async with world.database.transaction() as conn:
        again = await memories.insert(conn, Claim(world.conversation, ABOUT_MING, "fact", "小明住海边", "agent"))
        assert again is not None
        withdrawing = asyncio.create_task(world.withdraw(second))
        await world.blocked()
    await withdrawing
    assert await world.states(sea, hill, again) == ["superseded", "withdrawn", "active"]


async def test_of_two_equal_ones_the_newer_stands_again(world: MemoryWorld) -> None:
    pos, last = await world.say("我住海边"), await world.say("我搬家了")
    first = await world.remember("小明住海边", pos, about=ABOUT_MING)
    middle = await world.remember("小明没有家", last, about=ABOUT_MING, supersedes=first)
    second = await world.remember("小明住海边！", pos, about=ABOUT_MING)
    final = await world.remember("小明搬家了", last, about=ABOUT_MING, supersedes=second)
    await world.withdraw(last)
    assert await world.states(first, middle, second, final) == ["superseded", "withdrawn", "active", "withdrawn"]


async def test_what_a_person_locked_stays_with_all_evidence_gone(world: MemoryWorld) -> None:
    pos = await world.say("我养了一只猫")
    cat = await world.remember("小明养了一只猫", pos, about=ABOUT_MING, locked=True)
    await world.withdraw(pos)
    assert await world.states(cat) == ["active"]


async def test_a_locked_refinement_stays_and_so_does_what_was_built_from_it(world: MemoryWorld) -> None:
    positions = [await world.say(text) for text in ("我养了一只猫", "叫年糕", "三岁了")]
    one = await world.remember("小明养猫", positions[0], about=ABOUT_MING)
    two = await world.remember("小明养猫，叫年糕", positions[1], about=ABOUT_MING, refines=one)
    three = await world.remember("小明养猫，叫年糕，三岁", positions[2], about=ABOUT_MING, refines=two)
    await world.lock(two)
    await world.withdraw(positions[0])
    assert await world.states(one, two, three) == ["withdrawn", "refined", "active"]


async def test_withdrawing_twice_changes_nothing_more(world: MemoryWorld) -> None:
    pos = await world.say("我养了一只猫")
    cat = await world.remember("小明养了一只猫", pos, about=ABOUT_MING)
    await world.withdraw(pos)
    before = await world.memory(cat)
    await world.withdraw(pos)
    assert await world.memory(cat) == before


async def test_another_groups_claims_are_left_alone(world: MemoryWorld) -> None:
    other = await MemoryWorld.create(world.database, 5700000002)
    pos = await world.say("我养了一只猫")
    cat = await other.remember("小明养了一只猫", await other.say("我养了一只猫"), about=ABOUT_MING)
    await world.withdraw(pos)
    assert await other.states(cat) == ["active"]


async def test_a_withdrawn_message_leaves_search_and_its_vector_goes(world: MemoryWorld) -> None:
    pos, stays = await world.say("今天去吃番茄火锅吗各位"), await world.say("今天去吃番茄牛腩吗各位")
    wanted = "SELECT m.pos, m.search <> '', v.message IS NOT NULL FROM messages m LEFT JOIN message_vectors v ON v.message = m.id"
    assert await world.rows(f"{wanted} ORDER BY m.pos") == [(pos, True, True), (stays, True, True)]
    await world.withdraw(pos)
    assert await world.rows(f"{wanted} ORDER BY m.pos") == [(pos, False, False), (stays, True, True)]


async def test_a_notice_that_came_before_the_second_sight_ends_the_claim_as_well(world: MemoryWorld) -> None:
    pos = await world.say("我养了一只猫")
    cat = await world.remember("小明养了一只猫", pos, about=ABOUT_MING)
    async with world.database.transaction() as conn:
        assert await withdraw.withdraw(conn, BOT2, 900, operator_id=None, at=START) is None
    assert await world.states(cat) == ["active"]
    assert await world.say("我养了一只猫", account_id=BOT2, message_id=900, real_seq=pos) == pos
    assert await world.states(cat) == ["withdrawn"]
    assert await world.rows("SELECT search FROM messages") == [("",)]


async def test_a_claim_that_is_merged_while_its_origin_is_withdrawn_does_not_survive(world: MemoryWorld) -> None:
    first, second = await world.say("我养了一只猫"), await world.say("叫年糕")
    cat = await world.remember("小明养猫", first, about=ABOUT_MING)
    claim = await world.claim("小明养猫，叫年糕", [second], ABOUT_MING, "fact")
    async with world.database.transaction() as conn:
        assert await memories.archive(conn, cat, "refined")
        merged = await memories.insert(conn, claim)
        assert merged is not None
        await memories.link(conn, cat, merged, "refines")
        withdrawing = asyncio.create_task(world.withdraw(first))
        await world.blocked()
    await withdrawing
    assert await world.states(cat, merged) == ["withdrawn", "withdrawn"]


async def test_a_claim_is_not_merged_with_one_that_is_being_withdrawn(world: MemoryWorld) -> None:
    pos = await world.say("我养了一只猫")
    cat = await world.remember("小明养猫", pos, about=ABOUT_MING)
    memory = await world.memory(cat)
    assert memory is not None

    async def hold() -> bool:
        async with world.database.transaction() as conn:
            return await memories.hold(conn, memory)

    async with world.database.transaction() as conn:
        assert await world.withdraw_in(conn, pos)
        holding = asyncio.create_task(hold())
        await world.blocked()
    assert not await holding


async def test_many_writers_and_withdrawals_at_once_lock_in_one_order(world: MemoryWorld) -> None:
    positions = [await world.say(f"第 {number} 件事", WEI) for number in range(12)]
    base = [await world.remember(f"大家说了第 {pos} 件事", pos, pos % 12 + 1) for pos in positions]
    turns = [await world.turn() for _ in range(4)]

    async def add(memory: MemoryId, labels: Sequence[int]) -> None:
        found = await world.check(GROUP, labels)
        async with world.database.transaction() as conn:
            await memories.add_evidence(conn, memory, found.messages)

    async def build(no: int) -> None:
        """As saving does: hold the messages, then the old claim, then write."""
        async with world.database.transaction() as conn:
            await conn.execute("SELECT FROM messages WHERE pos = ANY(%(p)s) ORDER BY id FOR SHARE", {"p": positions[-2:]})
            if await memories.archive(conn, base[no], "refined"):
                claim = Claim(world.conversation, Subject("group"), "fact", f"大家说了第 {no} 件事，还有下文", "agent")
                new = await memories.insert(conn, claim)
                assert new is not None
                await memories.link(conn, base[no], new, "refines")

    async def use(turn: int) -> None:
        async with world.database.connection() as conn:
            await memories.used(conn, turns[turn], [*reversed(base)] if turn % 2 else base)

    work = [world.withdraw(pos) for pos in positions[:10]]
    work += [build(no) for no in range(12)] + [add(base[no], positions[-3:]) for no in range(12)] + [use(no) for no in range(4)]
    ended = await asyncio.gather(*work[::2], *work[1::2], return_exceptions=True)
    assert [error for error in ended if isinstance(error, BaseException)] == []
    left = await world.rows(
        """
        SELECT m.id FROM memories m
        WHERE m.status = 'active' AND NOT EXISTS (SELECT FROM memory_links l WHERE l.new_id = m.id)
          AND NOT EXISTS (SELECT FROM memory_evidence e JOIN messages s ON s.id = e.message
                          WHERE e.memory_id = m.id AND s.withdrawn_at IS NULL)
        """
    )
    assert left == []


async def test_a_backend_that_is_killed_withdraws_nothing_by_halves(world: MemoryWorld) -> None:
    pos = await world.say("我养了一只猫")
    cat = await world.remember("小明养了一只猫", pos, about=ABOUT_MING)
    async with world.database.transaction() as conn:
        await conn.execute("SELECT FROM memories WHERE id = %(id)s FOR UPDATE", {"id": cat})
        withdrawing = asyncio.create_task(world.withdraw(pos))
        await conn.execute("SELECT pg_terminate_backend(%(pid)s)", {"pid": await world.blocked()})
        with pytest.raises(DatabaseUnavailable):
            await withdrawing
    assert await world.states(cat) == ["active"]
    assert await world.rows("SELECT withdrawn_at, search <> '' FROM messages") == [(None, True)]


async def test_what_was_withdrawn_is_found_among_the_archived_only_on_the_owners_wish(world: MemoryWorld) -> None:
    pos = await world.say("我养了一只橘猫")
    gone = await world.remember("小明养了一只橘猫", pos, about=ABOUT_MING)
    kept = await world.remember("小明养了一只橘猫叫年糕", await world.say("叫年糕"), about=ABOUT_MING)
    async with world.database.connection() as conn:
        await memories.archive(conn, kept, "agent")
    await world.withdraw(pos)
    for withdrawn, expected in ((False, {kept}), (True, {kept, gone})):
        scope = Scope((world.conversation,), statuses=("active", "archived"), withdrawn=withdrawn)
        found = await recall(world.database, [Ask("橘猫")], scope, Wish(limit=5))
        assert {one.memory.id for one in found} == expected
        async with world.database.connection() as conn:
            assert {memory.id for memory in await newest(conn, scope, limit=5)} == expected
