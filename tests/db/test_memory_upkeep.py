"""Old messages and memories go, but what memories stand on stays."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from db import memories, upkeep
from db.pool import Database
from tests.db.memory_world import ABOUT_MING, MemoryWorld

LIMIT = datetime.now(UTC) - timedelta(days=90)


@pytest.fixture
async def world(database: Database) -> MemoryWorld:
    """A group."""
    return await MemoryWorld.create(database)


async def age(world: MemoryWorld) -> None:
    """Let a hundred days pass."""
    await world.rows("UPDATE messages SET sent_at = now() - interval '100 days', stored_at = sent_at RETURNING id")
    await world.rows("UPDATE messages SET stored_at = sent_at RETURNING id")
    await world.rows("UPDATE memories SET archived_at = archived_at - interval '100 days' RETURNING id")


async def cleaned(world: MemoryWorld) -> tuple[int, int]:
    """Delete old messages and memories."""
    async with world.database.connection() as conn:
        return await upkeep.old_messages(conn, LIMIT, limit=100), await upkeep.old_memories(conn, LIMIT, limit=100)


async def left(world: MemoryWorld) -> list[object]:
    """The positions of the messages that are left."""
    return [row[0] for row in await world.rows("SELECT pos FROM messages ORDER BY pos")]


async def test_evidence_of_active_memories_stays_and_of_archived_ones_goes(world: MemoryWorld) -> None:
    keeps, goes, plain = await world.say("我养猫"), await world.say("我养狗"), await world.say("哈哈")
    cat = await world.remember("小明养猫", keeps, about=ABOUT_MING)
    dog = await world.remember("小明养狗", goes, about=ABOUT_MING)
    async with world.database.connection() as conn:
        await memories.archive(conn, dog, "agent")
    await age(world)
    assert plain in await left(world)
    assert await cleaned(world) == (2, 1)
    assert await left(world) == [keeps]
    assert await world.supported_by(cat) == [keeps]
    assert await world.states(cat, dog) == ["active", "gone"]


async def test_what_was_archived_lately_or_locked_stays(world: MemoryWorld) -> None:
    locked = await world.remember("小明养狗", about=ABOUT_MING)
    async with world.database.connection() as conn:
        await memories.archive(conn, locked, "agent")
    await world.lock(locked)
    await age(world)
    lately = await world.remember("小明养猫", about=ABOUT_MING)
    async with world.database.connection() as conn:
        await memories.archive(conn, lately, "agent")
    assert await cleaned(world) == (0, 0)


async def test_what_a_claim_was_built_from_stays_as_long_as_it_does(world: MemoryWorld) -> None:
    first, second, third = [await world.say(text) for text in ("我养猫", "叫年糕", "三岁")]
    one = await world.remember("小明养猫", first, about=ABOUT_MING)
    two = await world.remember("小明养猫，叫年糕", second, about=ABOUT_MING, refines=one)
    three = await world.remember("小明养猫，叫年糕，三岁", third, about=ABOUT_MING, refines=two)
    await age(world)
    assert await cleaned(world) == (0, 0)
    await world.withdraw(first)
    assert await world.states(one, two, three) == ["withdrawn"] * 3


async def test_an_archived_chain_goes_from_its_end(world: MemoryWorld) -> None:
    one = await world.remember("小明养猫", await world.say("我养猫"), about=ABOUT_MING)
    two = await world.remember("小明养猫，叫年糕", await world.say("叫年糕"), about=ABOUT_MING, refines=one)
    async with world.database.connection() as conn:
        await memories.archive(conn, two, "agent")
    await age(world)
    assert await cleaned(world) == (1, 1)
    assert await world.states(one, two) == ["refined", "gone"]
    assert await cleaned(world) == (1, 1)
    assert await world.states(one, two) == ["gone", "gone"]


async def test_what_was_superseded_goes_while_its_heir_lives(world: MemoryWorld) -> None:
    sea = await world.remember("小明住海边", about=ABOUT_MING)
    hill = await world.remember("小明住山里", about=ABOUT_MING, supersedes=sea)
    await age(world)
    assert await cleaned(world) == (0, 1)
    assert await world.states(sea, hill) == ["gone", "active"]


async def test_a_piece_is_no_larger_than_asked(world: MemoryWorld) -> None:
    for number in range(4):
        row = await world.remember(f"第 {number} 件事")
        async with world.database.connection() as conn:
            await memories.archive(conn, row, "agent")
    await age(world)
    async with world.database.connection() as conn:
        assert [await upkeep.old_memories(conn, LIMIT, limit=3) for _ in range(3)] == [3, 1, 0]
