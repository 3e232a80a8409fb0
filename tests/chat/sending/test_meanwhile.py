"""Sending while something else happens: stops, mutes, kicks, a database that breaks, a crash."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from agent.ports import Draft
from db.models import JsonObject
from db.pool import Database
from tests.chat.edges import BusyNapCat, break_waiting, held, where
from tests.chat.sending.own import address, echo, own_rows
from tests.chat.world import BOT, GROUP, WANG, WEI, World, at, lost, open_world, refused, text
from tests.llm.fake_service import FakeService, Raw, call, calls, completion


async def test_typing_takes_time_and_is_bounded(database: Database, tmp_path: Path, service: FakeService) -> None:
    async with open_world(database, tmp_path, service, typing_chars_per_second="10") as slow:
        slow.connect()
        before = time.monotonic()
        await slow.chat.outbox.send(await address(slow), Draft("四个字啊"))
        assert time.monotonic() - before >= 0.4


async def test_a_stop_while_it_waits_cancels_the_message(database: Database, tmp_path: Path) -> None:
    async with (
        FakeService(calls(call("speak", content="很长的一段话" * 20))) as service,
        open_world(database, tmp_path, service, typing_chars_per_second="1") as slow,
    ):
        slow.connect()
        slow.say(at(BOT), text(" 讲个故事"))
        await slow.until_row("SELECT FROM outbox WHERE status = 'waiting'")
        assert await slow.chat.lanes.interrupt(conversation_id=(await where(slow)).id)
        row = (await slow.rows("SELECT status, detail, left_at FROM outbox"))[0]
        assert (row["status"], row["detail"], row["left_at"]) == ("cancelled", "被叫停", None)
        assert not slow.napcat.sent
        assert (await slow.rows("SELECT status FROM turns"))[0]["status"] == "interrupted"


async def test_a_stop_while_it_leaves_loses_nothing(world: World, napcat: BusyNapCat, service: FakeService) -> None:
    leaving, answered = asyncio.Event(), asyncio.Event()

    async def take_long() -> None:
        leaving.set()
        await answered.wait()

    napcat.during = take_long
    world.say(at(BOT), text(" 在吗"))
    await asyncio.wait_for(leaving.wait(), 10)
    assert await world.chat.lanes.interrupt(conversation_id=(await where(world)).id)
    answered.set()
    row = await world.until_row("SELECT * FROM outbox WHERE status = 'sent'")
    assert row["message"] == (await own_rows(world))[0]["id"]


async def test_a_refusal_that_comes_after_the_turn_was_stopped_is_no_longer_unknown(
    world: World, napcat: BusyNapCat, service: FakeService
) -> None:
    leaving, answered = asyncio.Event(), asyncio.Event()

    async def take_long() -> None:
        leaving.set()
        await answered.wait()

    napcat.during = take_long
    napcat.on_call = lambda action, params: refused("消息体无法解析") if action.startswith("send_") else None
    world.say(at(BOT), text(" 在吗"))
    await asyncio.wait_for(leaving.wait(), 10)
    assert await world.chat.lanes.interrupt(conversation_id=(await where(world)).id)
    await world.until_row("SELECT FROM outbox WHERE status = 'unknown'")
    answered.set()
    await world.until_row("SELECT FROM outbox WHERE status = 'refused'")


async def test_a_mute_while_it_waits_keeps_the_call_owed(database: Database, tmp_path: Path, service: FakeService) -> None:
    async with open_world(database, tmp_path, service, typing_chars_per_second="1") as slow:
        slow.connect()
        slow.say(at(BOT), text(" 在吗"))
        await slow.until_row("SELECT FROM outbox WHERE status = 'waiting'")
        slow.event(
            post_type="notice",
            notice_type="group_ban",
            sub_type="ban",
            group_id=GROUP,
            user_id=BOT,
            operator_id=WANG,
            duration=600,
        )
        await slow.until_row("SELECT FROM turns WHERE status = 'failed'")
        row = (await slow.rows("SELECT status, reason, left_at FROM outbox"))[0]
        assert (row["status"], row["reason"], row["left_at"]) == ("refused", "muted", None)
        assert not slow.napcat.sent
        assert len(await slow.rows("SELECT FROM owed WHERE settled_at IS NULL")) == 1


@pytest.mark.parametrize("parted", [True, False], ids=["disconnected", "offline"])
async def test_an_account_that_goes_away_while_it_waits_keeps_the_call_owed(
    database: Database, tmp_path: Path, service: FakeService, parted: bool
) -> None:
    async with open_world(database, tmp_path, service, typing_chars_per_second="1") as slow:
        slow.connect()
        slow.say(at(BOT), text(" 在吗"))
        await slow.until_row("SELECT FROM outbox WHERE status = 'waiting'")
        if parted:
            slow.chat.parted(BOT)
        else:
            status: JsonObject = {"online": False, "good": True}
            slow.event(BOT, post_type="meta_event", meta_event_type="heartbeat", interval=30000, status=status)
        await slow.until_row("SELECT FROM turns WHERE status = 'failed'")
        row = (await slow.rows("SELECT status, reason, left_at FROM outbox"))[0]
        assert (row["status"], row["reason"], row["left_at"]) == ("refused", "offline", None)
        assert not slow.napcat.sent
        assert len(await slow.rows("SELECT FROM owed WHERE settled_at IS NULL")) == 1


async def test_a_whole_mute_while_it_waits_holds_back_a_member_but_not_an_admin(
    database: Database, tmp_path: Path, service: FakeService
) -> None:
    async with open_world(database, tmp_path, service, typing_chars_per_second="5") as slow:
        slow.connect()
        slow.event(post_type="notice", notice_type="group_admin", sub_type="set", group_id=GROUP, user_id=BOT)
        slow.say(at(BOT), text(" 在吗"))
        await slow.until_row("SELECT FROM outbox WHERE status = 'waiting'")
        slow.event(
            post_type="notice", notice_type="group_ban", sub_type="ban", group_id=GROUP, user_id=0, operator_id=WANG, duration=-1
        )
        await slow.until(lambda: slow.napcat.texts() == ["好"])


async def test_a_kick_while_it_waits_cancels_it(database: Database, tmp_path: Path, service: FakeService) -> None:
    async with open_world(database, tmp_path, service, typing_chars_per_second="1") as slow:
        slow.connect()
        slow.say(at(BOT), text(" 在吗"))
        await slow.until_row("SELECT FROM outbox WHERE status = 'waiting'")
        slow.event(
            post_type="notice", notice_type="group_decrease", sub_type="kick_me", group_id=GROUP, user_id=BOT, operator_id=WANG
        )
        await slow.until_row("SELECT FROM turns WHERE status = 'done'")
        assert (await slow.rows("SELECT status FROM outbox"))[0]["status"] == "cancelled"
        assert not slow.napcat.sent


async def test_a_connection_that_breaks_after_the_send_does_not_make_it_a_failure(
    world: World, napcat: BusyNapCat, database_url: str
) -> None:
    to = await address(world)
    async with held(database_url, "SELECT FROM conversations FOR NO KEY UPDATE"):
        sending = asyncio.create_task(world.chat.outbox.send(to, Draft("在的")))
        await asyncio.wait_for(break_waiting(database_url), 10)
    delivery = await sending
    assert (delivery.status, delivery.pos) == ("sent", 1)
    assert len(napcat.sent) == 1
    assert (await world.rows("SELECT status FROM outbox"))[0]["status"] == "sent"


async def test_a_message_that_could_not_be_written_down_leaves_the_call_owed(
    world: World, napcat: BusyNapCat, database_url: str
) -> None:
    async with held(database_url, "LOCK TABLE outbox IN SHARE MODE"):
        world.say(at(BOT), text(" 在吗"))
        await asyncio.wait_for(break_waiting(database_url), 10)
    await world.until_row("SELECT FROM turns WHERE status = 'failed'")
    assert len(await world.rows("SELECT FROM owed WHERE settled_at IS NULL AND tries = 1")) == 1
    assert not napcat.sent


async def test_a_stop_is_a_stop_also_when_the_database_breaks_meanwhile(
    database: Database, tmp_path: Path, service: FakeService, database_url: str
) -> None:
    async with open_world(database, tmp_path, service, typing_chars_per_second="1") as slow:
        slow.connect()
        sending = asyncio.create_task(slow.chat.outbox.send(await address(slow), Draft("一段话")))
        await slow.until_row("SELECT FROM outbox WHERE status = 'waiting'")
        async with held(database_url, "SELECT FROM outbox FOR UPDATE"):
            sending.cancel()
            await asyncio.wait_for(break_waiting(database_url), 10)
        await asyncio.wait({sending})
        assert sending.cancelled()


async def test_a_stop_that_comes_while_the_row_is_freed_leaves_no_row_open(
    world: World, napcat: BusyNapCat, database_url: str
) -> None:
    sending = asyncio.create_task(world.chat.outbox.send(await address(world), Draft("在的")))
    await world.until_row("SELECT FROM outbox")
    sending.cancel()
    await asyncio.wait({sending})
    row = await world.until_row("SELECT status FROM outbox WHERE status NOT IN ('waiting', 'sending')")
    assert row["status"] == ("sent" if napcat.sent else "cancelled")


async def test_a_crash_while_it_left_is_unknown_until_the_message_is_seen(world: World, napcat: BusyNapCat) -> None:
    napcat.on_call = lambda action, params: lost() if action.startswith("send_") else None
    await world.chat.outbox.send(await address(world), Draft("在的"))
    await world.rows("UPDATE outbox SET status = 'sending', created_at = now() - interval '6 minutes' RETURNING 1")
    echo(world, "在的")
    await world.settle()
    await world.rows("UPDATE messages SET sent_at = now() - interval '6 minutes' RETURNING 1")
    await world.until_row("SELECT FROM outbox WHERE status = 'sent' AND message IS NOT NULL")


async def test_a_slow_model_and_a_withdrawn_call_answer_nothing_more(world: World, service: FakeService) -> None:
    service.script([Raw(completion(calls(call("speak", content="好"))), delay=0.3)])
    said = world.say(at(BOT), text(" 在吗"), user=WEI)
    await world.until(lambda: len(service.requests) == 1)
    withdrawal: dict[str, object] = {"post_type": "notice", "notice_type": "group_recall", "group_id": GROUP}
    world.event(**withdrawal | {"user_id": WEI, "operator_id": WEI, "message_id": said["message_id"]})  # type: ignore[arg-type]
    await world.until_row("SELECT FROM turns WHERE status = 'done'")
    await asyncio.sleep(0.5)
    assert len(service.requests) == 1
    assert (await world.rows("SELECT settled_why FROM owed"))[0]["settled_why"] == "withdrawn"
