"""Storing what was learned, withdrawing and forgetting take turns in one conversation."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from db import forget, learned_lock
from db.pool import Connection, Database
from tests.db.memory_world import MING, MemoryWorld

Work = Callable[[Connection], Awaitable[object]]


async def _waits(world: MemoryWorld, work: Work) -> bool:
    """Whether work waits while somebody stores; it ends well afterwards."""

    async def do() -> None:
        async with world.database.transaction() as conn:
            await work(conn)

    async with world.database.transaction() as storing:
        await learned_lock.hold(storing, world.conversation)
        doing = asyncio.create_task(do())
        done, _ = await asyncio.wait({doing}, timeout=0.3)
    await doing
    return not done


async def test_forgetting_waits_until_the_learner_has_stored(database: Database) -> None:
    world = await MemoryWorld.create(database)
    await world.say("我养猫")
    assert await _waits(world, lambda conn: forget.member(conn, world.conversation, MING))


async def test_a_withdrawal_waits_until_the_learner_has_stored(database: Database) -> None:
    world = await MemoryWorld.create(database)
    pos = await world.say("我养猫")
    assert await _waits(world, lambda conn: world.withdraw_in(conn, pos))


@pytest.mark.parametrize("other", [5700000002])
async def test_other_groups_do_not_wait(database: Database, other: int) -> None:
    world = await MemoryWorld.create(database)
    elsewhere = await MemoryWorld.create(database, other)
    async with database.transaction() as storing:
        await learned_lock.hold(storing, world.conversation)
        async with database.transaction() as conn:
            await asyncio.wait_for(learned_lock.hold(conn, elsewhere.conversation), 5)
