"""Lanes and turns when they are stopped at a bad moment: one end for each turn, no answer twice, no call lost."""

from __future__ import annotations

import asyncio
from pathlib import Path

import psycopg

from db.models import ConversationId
from db.pool import Database
from tests.chat.edges import held, where
from tests.chat.world import BOT, GROUP, GROUP2, MING, WANG, WEI, World, at, open_world, text
from tests.llm.fake_service import FakeService, Raw, call, calls, completion


async def blocked(url: str) -> None:
    """Wait until a connection of the bot waits for a lock."""
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as conn:
        while True:
            cur = await conn.execute(
                """
                SELECT FROM pg_stat_activity
                WHERE datname = current_database() AND application_name = 'qunyou' AND wait_event_type = 'Lock'
                """
            )
            if await cur.fetchall():
                return
            await asyncio.sleep(0.01)


def slow(seconds: float, content: str = "好") -> Raw:
    """A model that takes its time."""
    return Raw(completion(calls(call("speak", content=content))), delay=seconds)


async def stop(world: World) -> asyncio.Task[bool]:
    """Stop the group's turn, and let the stop reach it."""
    where_to = (await where(world)).id
    stopping = asyncio.create_task(world.chat.lanes.interrupt(conversation_id=where_to))
    await asyncio.sleep(0.05)
    return stopping


async def test_a_stop_while_a_turn_begins_stops_it(world: World, database_url: str) -> None:
    await where(world)
    async with held(database_url, "LOCK TABLE turns IN SHARE MODE"):
        world.say(at(BOT), text(" 在吗"))
        await asyncio.wait_for(blocked(database_url), 10)
        stopping = await stop(world)
    assert await stopping
    await world.until_row("SELECT FROM owed WHERE settled_why = 'stopped'")
    assert [row["status"] for row in await world.rows("SELECT status FROM turns")] == ["interrupted"]
    await asyncio.sleep(0.4)
    assert not world.napcat.sent


async def test_a_stop_while_the_end_is_written_does_not_answer_twice(
    world: World, service: FakeService, database_url: str
) -> None:
    service.script([slow(0.3)])
    world.say(at(BOT), text(" 在吗"))
    await world.until(lambda: len(service.requests) == 1)
    async with held(database_url, "SELECT FROM turns FOR NO KEY UPDATE"):
        await world.until(lambda: len(world.napcat.sent) == 1)
        await asyncio.wait_for(blocked(database_url), 10)
        stopping = await stop(world)
    await stopping
    await world.until_row("SELECT FROM owed WHERE settled_at IS NOT NULL")
    assert [row["status"] for row in await world.rows("SELECT status FROM turns")] == ["done"]
    await asyncio.sleep(0.4)
    assert len(world.napcat.sent) == 1


async def test_closing_while_the_end_is_written_does_not_answer_twice(
    database: Database, tmp_path: Path, database_url: str
) -> None:
    async with FakeService(slow(0.3)) as service:
        async with open_world(database, tmp_path, service) as world:
            world.connect()
            world.say(at(BOT), text(" 在吗"))
            await world.until(lambda: len(service.requests) == 1)
            async with held(database_url, "SELECT FROM turns FOR NO KEY UPDATE"):
                await world.until(lambda: len(world.napcat.sent) == 1)
                await asyncio.wait_for(blocked(database_url), 10)
                closing = asyncio.create_task(world.chat.close())
                await asyncio.sleep(0.1)
            await closing
        async with open_world(database, tmp_path, service) as again:
            again.connect()
            await asyncio.sleep(0.6)
            assert not again.napcat.sent
            assert [row["status"] for row in await again.rows("SELECT status FROM turns")] == ["done"]


async def test_closing_begins_no_new_turn_for_what_came_meanwhile(database: Database, tmp_path: Path) -> None:
    async with FakeService(slow(5)) as service, open_world(database, tmp_path, service) as world:
        world.connect()
        world.say(at(BOT), text(" 一"))
        await world.until(lambda: len(service.requests) == 1)
        world.say(at(BOT), text(" 二"), user=WEI)
        await world.settle()
        await world.chat.close()
        assert [row["status"] for row in await world.rows("SELECT status FROM turns")] == ["interrupted"]
        assert len(await world.rows("SELECT FROM owed WHERE settled_at IS NULL")) == 2


async def test_a_stop_with_nothing_running_says_so(world: World) -> None:
    world.say("早")
    await world.settle()
    assert not await world.chat.lanes.interrupt(conversation_id=(await where(world)).id)
    assert not await world.chat.lanes.interrupt(conversation_id=ConversationId(999999))


async def test_a_stop_of_one_group_leaves_the_other_alone(database: Database, tmp_path: Path) -> None:
    async with FakeService(slow(0.6)) as service, open_world(database, tmp_path, service) as world:
        world.napcat.groups = [GROUP, GROUP2]
        world.connect()
        world.say(at(BOT), text(" 一"))
        world.say(at(BOT), text(" 二"), group=GROUP2)
        await world.until(lambda: len(service.requests) == 2)
        assert await world.chat.lanes.interrupt(conversation_id=(await where(world)).id)
        await world.until(lambda: len(world.napcat.sent) == 1)
        assert world.napcat.sent[0]["group_id"] == GROUP2
        assert (world.chat.lanes.running, world.chat.lanes.waiting) in {(0, 0), (1, 0)}


async def test_a_turn_is_stopped_by_its_id(world: World, service: FakeService) -> None:
    service.script([slow(5)])
    world.say(at(BOT), text(" 在吗"))
    await world.until(lambda: len(service.requests) == 1)
    turn = (await world.rows("SELECT id FROM turns"))[0]["id"]
    assert isinstance(turn, int)
    assert await world.chat.interrupt(turn)  # type: ignore[arg-type]
    await world.until_row("SELECT FROM turns WHERE status = 'interrupted'")


async def test_a_burst_is_one_batch(database: Database, tmp_path: Path) -> None:
    async with (
        FakeService(calls(call("speak", content="好"))) as service,
        open_world(database, tmp_path, service, debounce_seconds="0.3", debounce_max_seconds="1") as world,
    ):
        world.connect()
        for number in range(6):
            world.say(at(BOT), text(f" 第{number}次"), user=MING if number % 2 else WEI)
            await asyncio.sleep(0.05)
        await world.until_row("SELECT FROM turns WHERE status = 'done'")
        await asyncio.sleep(0.5)
        assert len(service.requests) == 1
        assert "第5次" in str(service.requests[0])
        assert len(await world.rows("SELECT FROM owed WHERE settled_why = 'shown'")) == 6


async def test_a_group_that_never_rests_is_looked_at_all_the_same(database: Database, tmp_path: Path) -> None:
    async with (
        FakeService(calls(call("speak", content="好"))) as service,
        open_world(database, tmp_path, service, debounce_seconds="0.5", debounce_max_seconds="0.8") as world,
    ):
        world.connect()
        world.say(at(BOT), text(" 在吗"))
        async with asyncio.timeout(10):
            while not service.requests:
                world.say("闲聊", user=WEI)
                await asyncio.sleep(0.1)


async def test_an_error_in_a_turn_ends_the_turn_and_not_the_lane(world: World, service: FakeService) -> None:
    await where(world)
    async with world.database.connection() as conn:
        await conn.execute("ALTER TABLE turn_steps RENAME TO hidden")
    world.say(at(BOT), text(" 在吗"))
    await world.until_row("SELECT FROM turns WHERE ended_at IS NOT NULL")
    async with world.database.connection() as conn:
        await conn.execute("ALTER TABLE hidden RENAME TO turn_steps")
    world.say(at(BOT), text(" 还在吗"), user=WANG)
    await world.until_row("SELECT FROM turns WHERE status = 'done'")
