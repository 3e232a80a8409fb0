"""别记我: nothing new is learned about who says it, and what they say waits for no vector."""

from __future__ import annotations

import pytest

from db import unlearned
from db.pool import Database
from tests.db.memory_world import MING, WANG, WEI, MemoryWorld


@pytest.fixture
async def world(database: Database) -> MemoryWorld:
    """A group."""
    return await MemoryWorld.create(database)


async def test_the_wish_is_kept_until_it_is_taken_back(world: MemoryWorld) -> None:
    async with world.database.connection() as conn:
        assert await unlearned.among(conn, world.conversation, [MING, WEI]) == frozenset()
        assert await unlearned.set(conn, world.conversation, MING)
        assert not await unlearned.set(conn, world.conversation, MING)
        assert await unlearned.set(conn, world.conversation, WANG)
        assert await unlearned.among(conn, world.conversation, [MING, WEI]) == {MING}
        assert await unlearned.clear(conn, world.conversation, MING)
        assert not await unlearned.clear(conn, world.conversation, MING)
        assert await unlearned.among(conn, world.conversation, [MING, WEI, WANG]) == {WANG}


async def test_the_wish_holds_in_its_own_group_only(world: MemoryWorld) -> None:
    other = await MemoryWorld.create(world.database, 5700000002)
    async with world.database.connection() as conn:
        await unlearned.set(conn, world.conversation, MING)
        assert await unlearned.among(conn, other.conversation, [MING]) == frozenset()


async def test_no_vector_is_made_of_what_they_said_and_will_say(world: MemoryWorld) -> None:
    await world.say("今天去吃番茄火锅吗各位")
    weis = await world.say("我带两副扑克牌过去吧", WEI)
    async with world.database.connection() as conn:
        await unlearned.set(conn, world.conversation, MING)
    await world.say("那我从家里带锅过去好了")
    waiting = "SELECT m.pos FROM message_vectors v JOIN messages m ON m.id = v.message ORDER BY m.pos"
    assert await world.rows(waiting) == [(weis,)]
