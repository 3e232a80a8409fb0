"""Several own accounts, here and in other processes: what one hears or suffers is not what all do."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from nonebot.log import logger

from agent.ports import Draft
from db import accounts, memberships
from db.models import JsonObject
from db.pool import Database
from plugins.chat.outbox import Address
from tests.chat.edges import where
from tests.chat.world import BOT, BOT2, GROUP, WANG, World, at, open_world, refused, text
from tests.llm.fake_service import FakeService, failure


@pytest.fixture
async def away(database: Database, tmp_path: Path, service: FakeService) -> AsyncGenerator[World, None]:
    """The chat, not connected."""
    async with open_world(database, tmp_path, service) as opened:
        yield opened


def kick(world: World, account_id: int) -> None:
    """An own account is kicked from the group."""
    world.event(
        account_id,
        post_type="notice",
        notice_type="group_decrease",
        sub_type="kick_me",
        group_id=GROUP,
        user_id=account_id,
        operator_id=WANG,
    )


def mute(world: World, account_id: int, seconds: int) -> None:
    """An own account is muted for so many seconds; 0: no longer."""
    world.event(
        account_id,
        post_type="notice",
        notice_type="group_ban",
        sub_type="ban" if seconds else "lift_ban",
        group_id=GROUP,
        user_id=account_id,
        operator_id=WANG,
        duration=seconds,
    )


def friend_says(world: World, account_id: int, message_id: int, *parts: JsonObject) -> None:
    """A friend of one account says something. QQ counts these apart for each account."""
    world.event(
        account_id,
        post_type="message",
        message_type="private",
        sub_type="friend",
        user_id=WANG,
        message_id=message_id,
        real_seq="7",
        message=list(parts),
        sender={"user_id": WANG, "nickname": "老王"},
    )


async def test_a_friend_of_two_accounts_is_heard_by_both(world: World) -> None:
    world.connect(BOT2)
    friend_says(world, BOT, 1, text("给一号的话"))
    friend_says(world, BOT2, 2, text("给二号的话"))
    friend_says(world, BOT2, 2, text("给二号的话"))
    await world.settle()
    assert [row["body"] for row in await world.messages() if not row["is_self"]] == ["给一号的话", "给二号的话"]


async def test_a_reply_of_a_friend_shows_what_it_quotes(world: World) -> None:
    friend_says(world, BOT, 1, text("先说的"))
    friend_says(world, BOT, 2, {"type": "reply", "data": {"id": "1"}}, text("接着说"))
    await world.settle()
    row = next(row for row in await world.messages() if row["body"] == "接着说")
    assert (row["quote_name"], row["quote_text"]) == ("老王", "先说的")


async def test_a_kick_of_one_account_costs_only_the_calls_of_that_account(world: World, service: FakeService) -> None:
    world.connect(BOT2)
    service.script([failure(401, "x")])
    world.say(at(BOT), text(" 一号在吗"))
    world.say(at(BOT2), text(" 二号在吗"))
    world.say("小满，谁在？")
    await world.until_row("SELECT FROM owed WHERE tries > 0")
    kick(world, BOT2)
    await world.settle()
    rows = await world.rows("SELECT m.body, o.settled_why FROM owed o JOIN messages m ON m.id = o.message ORDER BY o.pos")
    assert [(row["body"], row["settled_why"]) for row in rows] == [
        ("@小满 一号在吗", None),
        ("@小满 二号在吗", "removed"),
        ("小满，谁在？", None),
    ]
    assert not await world.rows("SELECT FROM conversations WHERE left_at IS NOT NULL")


async def test_when_the_last_account_is_kicked_the_bot_has_left(world: World) -> None:
    world.connect(BOT2)
    world.say("早")
    await world.until_row("SELECT count(*) FROM own_memberships HAVING count(*) = 2")
    kick(world, BOT2)
    kick(world, BOT)
    await world.settle()
    assert await world.rows("SELECT FROM conversations WHERE left_at IS NOT NULL AND target_id = %(g)s", g=GROUP)


async def test_a_mute_of_one_account_does_not_silence_the_other(world: World, service: FakeService) -> None:
    world.connect(BOT2)
    await world.until_row("SELECT FROM own_memberships WHERE account_id = %(a)s", a=BOT2)
    mute(world, BOT2, 600)
    world.say(at(BOT2), text(" 二号说话"))
    await world.settle()
    world.say("小满，在吗")
    world.say(at(BOT), text(" 一号说话"))
    await world.until(lambda: len(world.napcat.sent) == 1)
    assert world.napcat.sent[0]["account"] == BOT
    assert "你被禁言到" not in str(service.requests[0])
    assert await world.rows("SELECT FROM conversations WHERE muted_until > now()")


async def test_whoever_was_mentioned_answers_when_its_mute_is_over(world: World, service: FakeService) -> None:
    world.connect(BOT2)
    mute(world, BOT2, 600)
    world.say(at(BOT2), text(" 二号说话"))
    await world.settle()
    await asyncio.sleep(0.5)  # two scans
    assert not service.requests
    mute(world, BOT2, 0)
    await world.until(lambda: len(world.napcat.sent) == 1)
    assert world.napcat.sent[0]["account"] == BOT2
    assert not await world.rows("SELECT FROM conversations WHERE muted_until IS NOT NULL")


async def test_a_message_after_a_kick_in_one_batch_shows_that_the_bot_is_back(world: World) -> None:
    world.say("一")
    await world.settle()
    kick(world, BOT)
    world.say("二")
    await world.settle()
    assert not await world.rows("SELECT FROM conversations WHERE left_at IS NOT NULL")
    assert not await world.rows("SELECT FROM own_memberships WHERE left_at IS NOT NULL")


async def test_the_member_list_tells_of_mutes_and_their_ends(database: Database, tmp_path: Path, service: FakeService) -> None:
    async with open_world(database, tmp_path, service) as world:
        world.napcat.members = [{"user_id": BOT, "nickname": "小满", "shut_up_timestamp": int(time.time()) + 600}]
        world.connect()
        row = await world.until_row("SELECT * FROM own_memberships WHERE muted_until > now()")
        assert row["account_id"] == BOT
        await world.rows("DELETE FROM members RETURNING 1")
        await world.rows("UPDATE own_memberships SET told_at = now() - interval '10 minutes' RETURNING 1")
    async with open_world(database, tmp_path, service) as world:
        world.napcat.members = [{"user_id": BOT, "nickname": "小满", "shut_up_timestamp": 0}]
        world.connect()
        await world.until_row("SELECT FROM members")
        await world.until_row("SELECT FROM own_memberships WHERE muted_until IS NULL")


async def test_an_old_member_list_does_not_undo_a_mute(database: Database, tmp_path: Path, service: FakeService) -> None:
    async with open_world(database, tmp_path, service) as world:
        world.napcat.members = [{"user_id": BOT, "nickname": "小满", "shut_up_timestamp": 0}]
        world.event(
            post_type="notice",
            notice_type="group_ban",
            sub_type="ban",
            group_id=GROUP,
            user_id=BOT,
            operator_id=WANG,
            duration=600,
        )
        await world.settle()
        world.connect()
        await world.until_row("SELECT FROM members")
        assert await world.rows("SELECT FROM own_memberships WHERE muted_until > now()")


async def test_a_send_that_a_group_refuses_as_muted_mutes_the_account_alone(world: World) -> None:
    world.connect(BOT2)
    await world.until_row("SELECT FROM own_memberships WHERE account_id = %(a)s", a=BOT2)
    world.napcat.on_call = lambda action, params: refused('{"result": 120, "errMsg": ""}') if action.startswith("send_") else None
    await world.chat.outbox.send(Address(await where(world), BOT2), Draft("在的"))
    await world.until_row("SELECT FROM own_memberships WHERE account_id = %(a)s AND muted_until > now()", a=BOT2)
    assert not await world.rows("SELECT FROM own_memberships WHERE account_id = %(a)s AND muted_until > now()", a=BOT)
    world.napcat.on_call = lambda action, params: refused('{"result": 110, "errMsg": ""}') if action.startswith("send_") else None
    await world.chat.outbox.send(Address(await where(world), BOT2), Draft("在的"))
    await world.until_row("SELECT FROM own_memberships WHERE account_id = %(a)s AND left_at IS NOT NULL", a=BOT2)
    assert not await world.rows("SELECT FROM conversations WHERE left_at IS NOT NULL")


async def test_an_account_that_joined_another_process_is_no_person_here(
    database: Database, tmp_path: Path, service: FakeService
) -> None:
    async with open_world(database, tmp_path, service, scan_seconds="60") as world:
        world.connect(BOT)
        world.say("早", user=BOT2)
        await world.settle()
        async with database.connection() as conn:
            await accounts.save(conn, BOT2, connected=True, online=True, worker="elsewhere:1:1.0")
        world.say("小满，在吗", user=BOT2)
        await world.settle()
        assert [row["is_self"] for row in await world.messages()] == [False, True]
        assert not await world.rows("SELECT FROM owed")


async def test_a_wrong_message_format_is_told_once_for_each_account(world: World) -> None:
    lines: list[str] = []
    sink = logger.add(lines.append, level="WARNING", format="{message}")
    try:
        for account_id in (BOT, BOT2, BOT, BOT2):
            world.event(account_id, **world.message() | {"message": "几点了[CQ:face,id=74]"})
            await world.settle()
    finally:
        logger.remove(sink)
    told = [line for line in lines if "消息格式请改成 array" in line]
    assert len(told) == 2
    assert str(BOT) in told[0]
    assert str(BOT2) in told[1]


async def test_a_group_list_that_was_asked_for_before_a_kick_does_not_undo_it(away: World) -> None:
    away.say("早")
    await away.settle()
    row = (await where(away)).id
    asked = datetime.now(UTC)
    kick(away, BOT)
    await away.settle()
    async with away.database.transaction() as conn:
        await memberships.arrive(conn, [(row, BOT)], known_at=asked)
    assert await away.rows("SELECT FROM conversations WHERE left_at IS NOT NULL")
    async with away.database.transaction() as conn:
        await memberships.arrive(conn, [(row, BOT)], known_at=datetime.now(UTC))
    assert not await away.rows("SELECT FROM conversations WHERE left_at IS NOT NULL")
