"""Several processes on one database: who answers, who rolls the dice, what one process leaves behind."""

from __future__ import annotations

import asyncio
from pathlib import Path

from db.pool import Database
from tests.chat.world import BOT, BOT2, World, at, open_world, text
from tests.llm.fake_service import FakeService, call, calls


async def test_a_call_is_answered_by_the_process_of_the_called_account(database: Database, tmp_path: Path) -> None:
    async with FakeService(calls(call("speak", content="好"))) as service:
        (tmp_path / "a").mkdir()
        (tmp_path / "b").mkdir()
        async with (
            open_world(database, tmp_path / "a", service) as first,
            open_world(database, tmp_path / "b", service) as second,
        ):
            second.chat.own.worker = "elsewhere:1:1.0"  # both run in this test's process
            first.connect(BOT)
            second.connect(BOT2)
            await first.until_row("SELECT FROM accounts WHERE account_id = %(a)s AND connected", a=BOT)
            await first.until_row("SELECT FROM accounts WHERE account_id = %(a)s AND connected", a=BOT2)
            fields = first.message(at(BOT), text(" 在吗"))
            second.event(BOT2, **fields | {"message_id": 4242})
            await second.settle()
            await asyncio.sleep(0.5)
            first.event(BOT, **fields)
            await first.until(lambda: len(first.napcat.sent) == 1)
            await asyncio.sleep(0.5)
            assert not second.napcat.sent
            assert len(service.requests) == 1
            assert sum(not row["is_self"] for row in await first.messages()) == 1


async def test_a_call_to_an_account_that_is_gone_is_answered_by_another_that_hears_it(world: World) -> None:
    world.connect(BOT2)
    fields = world.message(at(BOT2), text(" 在吗"))
    world.event(BOT, **fields)
    await world.settle()
    world.chat.parted(BOT2)
    await world.until(lambda: len(world.napcat.sent) == 1)
    assert world.napcat.sent[0]["account"] in {BOT, BOT2}


async def test_a_nudge_seen_by_two_accounts_is_one_row(world: World) -> None:
    world.connect(BOT2)
    for account in (BOT, BOT2):
        world.event(
            account,
            post_type="notice",
            notice_type="notify",
            sub_type="poke",
            group_id=5700000001,
            user_id=5000000011,
            target_id=5000000012,
        )
    await world.settle()
    assert len(await world.messages()) == 1


async def test_closing_marks_the_accounts_of_this_process_as_gone(
    database: Database, tmp_path: Path, service: FakeService
) -> None:
    async with open_world(database, tmp_path, service) as world:
        world.connect()
        await world.until_row("SELECT FROM accounts WHERE connected")
    async with database.connection() as conn:
        row = await (await conn.execute("SELECT connected FROM accounts")).fetchone()
    assert row == (False,)
