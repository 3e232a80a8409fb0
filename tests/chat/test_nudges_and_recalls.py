"""Nudges that start nothing, and withdrawals that come where the bot does not listen."""

from __future__ import annotations

import asyncio
import json
import time

from db.models import Json, JsonObject
from plugins.chat.inbox import Frame
from tests.chat.edges import where
from tests.chat.world import BOT, GROUP, MING, ROBOT, WANG, WEI, World
from tests.llm.fake_service import FakeService

OFFICIAL_ROBOT = 3889000001


def nudge(user: int) -> JsonObject:
    """Somebody nudges the bot."""
    return {
        "time": int(time.time()),
        "post_type": "notice",
        "notice_type": "notify",
        "sub_type": "poke",
        "group_id": GROUP,
        "user_id": user,
        "target_id": BOT,
    }


async def test_nudges_of_ignored_members_and_robots_are_stored_and_start_nothing(world: World, service: FakeService) -> None:
    world.say("早", user=WEI)
    robot = world.message("我是机器人", user=ROBOT)
    robot["sender"] = {"user_id": ROBOT, "nickname": "群管家", "is_robot": True}
    world.event(BOT, **robot)
    await world.settle()
    row = (await where(world)).id
    await world.rows("INSERT INTO ignored (conversation_id, user_id) VALUES (%(c)s, %(u)s) RETURNING 1", c=row, u=WEI)
    for user in (WEI, ROBOT, OFFICIAL_ROBOT):
        world.event(BOT, **nudge(user))
    await world.settle()
    await asyncio.sleep(0.4)
    assert not service.requests
    assert len(await world.rows("SELECT FROM messages WHERE kind = 'poke'")) == 3
    world.event(BOT, **nudge(MING))
    await world.until(lambda: len(service.requests) == 1)


async def test_a_nudge_that_waited_on_disk_starts_nothing(world: World, service: FakeService) -> None:
    frame: JsonObject = {**nudge(MING), "self_id": BOT, "time": int(time.time()) - 7200}
    world.chat.inbox.put(Frame(BOT, time.time(), frame, json.dumps(frame), late=True))
    await world.settle()
    await asyncio.sleep(0.4)
    assert not service.requests
    assert len(await world.rows("SELECT FROM messages WHERE kind = 'poke'")) == 1


def recall(message_id: Json) -> JsonObject:
    """A member withdraws a message."""
    return {
        "post_type": "notice",
        "notice_type": "group_recall",
        "group_id": GROUP,
        "user_id": MING,
        "operator_id": MING,
        "message_id": message_id,
    }


async def test_a_withdrawal_counts_also_where_the_bot_was_disabled(world: World) -> None:
    said = world.say("秘密的话")
    await world.settle()
    world.say("/群友 关闭", user=WANG)
    await world.until(lambda: len(world.napcat.sent) == 1)
    world.event(BOT, **recall(said["message_id"]))
    world.event(BOT, **recall(99))
    await world.settle()
    row = next(row for row in await world.messages() if row["body"] == "秘密的话")
    assert row["withdrawn_at"] is not None
    assert not await world.rows("SELECT FROM early_withdrawals")
