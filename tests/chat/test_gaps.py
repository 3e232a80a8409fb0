"""Gaps that are hard to fill: QQ does not answer at once, clocks differ, nobody knows whether a message arrived."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from nonebot.log import logger

from agent.ports import Draft
from db.models import Json, JsonObject
from db.pool import Database
from plugins.chat import catchup
from plugins.chat.failures import Failure
from plugins.chat.onebot import CallFailed
from plugins.chat.outbox import Address
from tests.chat.edges import where
from tests.chat.world import BOT, MING, WANG, Answerer, World, at, lost, open_world, refused, text
from tests.llm.fake_service import FakeService


@pytest.fixture(autouse=True)
def _pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catchup, "PAUSES", (0.02, 0.05))
    monkeypatch.setattr(catchup, "LOOK_AGAIN", (0.05, 0.3))


@pytest.fixture
async def away(database: Database, tmp_path: Path, service: FakeService) -> AsyncGenerator[World, None]:
    """The chat, not connected yet."""
    async with open_world(database, tmp_path, service) as opened:
        yield opened


def missed(world: World, *parts: str | JsonObject, age: int = 60, user: int = MING) -> None:
    """Somebody said something while nobody listened."""
    world.napcat.history = [*world.napcat.history, {**world.message(*parts, user=user), "time": int(time.time()) - age}]


def failing(action: str, times: int) -> Answerer:
    """NapCat refuses an action so often, then does it."""
    left = [times]

    def answer(name: str, _params: JsonObject) -> Json | CallFailed:
        if name == action and left[0] > 0:
            left[0] -= 1
            return refused("还没准备好")
        return None

    return answer


@pytest.mark.parametrize("action", ["get_group_list", "get_group_msg_history"])
async def test_a_mention_is_found_although_qq_needs_several_tries(away: World, action: str) -> None:
    missed(away, at(BOT), " 掉线时叫的")
    away.napcat.on_call = failing(action, 3)
    away.connect()
    await away.until(lambda: away.napcat.texts() == ["好"])
    assert len(away.napcat.called(action)) >= 4


async def test_a_member_list_is_asked_for_again(away: World) -> None:
    away.napcat.members = [{"user_id": WANG, "nickname": "老王", "role": "owner"}]
    away.napcat.on_call = failing("get_group_member_list", 2)
    away.connect()
    await away.until_row("SELECT FROM members WHERE role = 'owner'")


async def test_nothing_is_asked_of_an_account_that_is_gone(away: World) -> None:
    away.napcat.on_call = failing("get_group_list", 1000)
    away.connect()
    await away.until(lambda: len(away.napcat.called("get_group_list")) >= 3)
    away.chat.parted(BOT)
    await asyncio.sleep(0.1)
    asked = len(away.napcat.called("get_group_list"))
    await asyncio.sleep(0.3)
    assert len(away.napcat.called("get_group_list")) == asked


async def test_a_gap_that_was_not_filled_is_filled_after_the_next_connect(away: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catchup, "PAUSES", (3600.0,))
    away.say("很早的话")
    await away.settle()
    missed(away, at(BOT), " 掉线时叫的")
    away.napcat.on_call = failing("get_group_msg_history", 1)
    away.connect()
    await away.until(lambda: len(away.napcat.called("get_group_msg_history")) == 1)
    away.say("后来的话")
    await away.settle()
    away.chat.parted(BOT)
    away.connect()
    await away.until_row("SELECT FROM owed")
    assert [row["body"] for row in await away.messages() if not row["is_self"]] == ["很早的话", "后来的话", "@小满 掉线时叫的"]


async def test_what_was_missed_while_qq_was_offline_is_fetched(world: World) -> None:
    world.say("之前")
    await world.settle()
    await world.until(lambda: len(world.napcat.called("get_group_msg_history")) == 1)
    beat: dict[str, Json] = {"post_type": "meta_event", "meta_event_type": "heartbeat", "interval": 30000}
    world.event(BOT, **beat | {"status": {"online": False, "good": True}})
    await world.settle()
    missed(world, at(BOT), " 离线时叫的")
    world.say("之后")  # heard before the next heartbeat
    await world.until(lambda: world.napcat.texts() == ["好"])


async def test_a_missed_mention_is_young_by_the_clock_of_qq(away: World) -> None:
    away.connect()
    for _ in range(3):  # QQ's clock is eleven minutes behind ours
        away.event(BOT, **{**away.message("聊着"), "time": int(time.time()) - 660})
    await away.settle()
    away.chat.parted(BOT)
    missed(away, at(BOT), " 一分钟前叫的", age=60 + 660)
    missed(away, at(BOT), " 十一分钟前叫的", age=660 + 660)
    away.connect()
    await away.until_row("SELECT FROM owed")
    rows = await away.rows("SELECT m.body FROM owed o JOIN messages m ON m.id = o.message")
    assert [row["body"] for row in rows] == ["@小满 一分钟前叫的"]


async def test_a_send_without_an_answer_is_settled_by_history(world: World) -> None:
    world.napcat.on_call = lambda action, params: lost() if action == "send_group_msg" else None
    fields = world.message(text("好呀"), user=BOT)
    world.say("之后的话")
    await world.settle()
    asked = len(world.napcat.called("get_group_msg_history"))
    world.napcat.history = [{**fields, "time": int(time.time())}]
    assert (await world.chat.outbox.send(Address(await where(world), BOT), Draft("好呀"))).status == "unknown"
    row = await world.until_row("SELECT * FROM outbox WHERE status = 'sent'")
    assert row["message_id"] == fields["message_id"]
    await asyncio.sleep(0.5)
    assert len(world.napcat.called("get_group_msg_history")) <= asked + 3
    assert sum(bool(row["is_self"]) for row in await world.messages()) == 1


async def test_a_private_send_without_an_answer_is_settled_by_history(world: World) -> None:
    history: list[Json] = []

    def answer(action: str, params: JsonObject) -> Json | CallFailed:
        if action == "get_friend_msg_history":
            assert params["user_id"] == WANG
            return {"messages": history}
        return lost() if action == "send_private_msg" else None

    world.napcat.on_call = answer
    history.append({"user_id": BOT, "message_id": 77, "time": int(time.time()), "message": [text("好呀")], "real_seq": "5"})
    to = Address(await where(world, WANG, "private"), BOT)
    assert (await world.chat.outbox.send(to, Draft("好呀"))).status == "unknown"
    await world.until_row("SELECT FROM outbox WHERE status = 'sent' AND message_id = 77")
    assert [(row["sender_id"], row["is_self"]) for row in await world.messages()] == [(BOT, True)]


async def test_a_send_without_an_answer_is_looked_for_after_a_restart(
    database: Database, tmp_path: Path, service: FakeService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catchup, "LOOK_AGAIN", ())
    async with open_world(database, tmp_path, service) as world:
        world.connect()
        world.say("早")
        await world.settle()
        world.napcat.on_call = lambda action, params: lost() if action == "send_group_msg" else None
        assert (await world.chat.outbox.send(Address(await where(world), BOT), Draft("好呀"))).status == "unknown"
        fields = world.message(text("好呀"), user=BOT, real_seq="1")
        world.say("之后的话")
        await world.settle()
    async with open_world(database, tmp_path, service) as world:
        world.napcat.history = [{**fields, "time": int(time.time())}]
        world.connect()
        await world.until_row("SELECT FROM outbox WHERE status = 'sent'")


async def test_a_lost_connection_is_not_told_as_a_lost_login(away: World) -> None:
    lines: list[str] = []
    sink = logger.add(lines.append, level="WARNING", format="{message}")

    def part(action: str, _params: JsonObject) -> CallFailed | None:
        if not action.startswith("send_"):
            return None
        away.chat.parted(BOT)
        return CallFailed(Failure("refused", "offline", "账号没有连接"))

    away.napcat.on_call = part
    try:
        away.connect()
        await away.until_row("SELECT FROM accounts WHERE connected")
        await away.chat.outbox.send(Address(await where(away), BOT), Draft("在的"))
        await away.until(lambda: any("请看 NapCat 是否在运行" in line for line in lines))
    finally:
        logger.remove(sink)
    assert not [line for line in lines if "重新登录" in line]
