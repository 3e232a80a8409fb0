"""What a turn may do through an own account besides speaking."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from agent.ports import PlatformError
from db import conversations
from db.models import ConversationKey, Json, JsonObject
from plugins.chat.outbox import Address
from plugins.chat.platform import ConversationPlatform
from tests.chat.world import BOT, GROUP, MING, WANG, World, at, refused, text


async def platform(world: World, key: ConversationKey | None = None, now: datetime | None = None) -> ConversationPlatform:
    """The platform of the bot's account in a conversation; ``now`` sets its clock."""
    async with world.database.connection() as conn:
        where = await conversations.find(conn, key or ConversationKey("group", GROUP))
    assert where is not None
    address = Address(where, BOT)
    return ConversationPlatform(address, world.chat.outbox, world.napcat, world.database, lambda: now or datetime.now(UTC))


def answering(action: str, answer: Json) -> object:
    """Answer one action, leave the rest to the fake."""
    return lambda name, params: answer if name == action else None


async def test_notices_name_their_author_and_say_when(world: World) -> None:
    world.say("早", user=WANG)
    await world.settle()
    notice: JsonObject = {"sender_id": WANG, "publish_time": 1796000000, "message": {"text": "周六七点开局", "images": []}}
    strange: JsonObject = {"sender_id": 5000000099, "publish_time": "x", "message": None}
    world.napcat.on_call = answering("_get_group_notice", [notice, strange])  # type: ignore[assignment]
    found = await (await platform(world)).notices()
    assert [(item.author, item.text) for item in found] == [("老王", "周六七点开局"), ("用户0099", "")]
    assert found[0].at == datetime.fromtimestamp(1796000000, UTC)
    assert found[1].at is None


async def test_essence_messages_are_read_like_others(world: World) -> None:
    world.say("早")
    await world.settle()
    item: JsonObject = {
        "sender_nick": "小明",
        "operator_time": 1796000000,
        "content": [text("看这个"), {"type": "image", "data": {}}],
    }
    world.napcat.on_call = answering("get_essence_msg_list", [item])  # type: ignore[assignment]
    found = await (await platform(world)).essence()
    assert [(note.author, note.text) for note in found] == [("小明", "看这个[图片]")]


async def test_member_info_survives_odd_answers(world: World) -> None:
    world.say("早")
    await world.settle()
    answer: JsonObject = {"card": "", "nickname": "小明", "role": "admin", "level": 12, "join_time": "1700000000", "title": None}
    world.napcat.on_call = answering("get_group_member_info", answer)  # type: ignore[assignment]
    info = await (await platform(world)).member_info(MING)
    assert (info.name, info.role, info.level, info.title) == ("小明", "admin", "12", "")
    assert info.joined_at == datetime.fromtimestamp(1700000000, UTC)
    assert info.last_spoke_at is None


async def test_a_refused_call_tells_the_model_why(world: World) -> None:
    world.say("早")
    await world.settle()
    world.napcat.on_call = lambda action, params: refused("用户不存在") if action == "get_group_member_info" else None
    with pytest.raises(PlatformError, match="用户不存在"):
        await (await platform(world)).member_info(5000000099)


async def test_a_reaction_goes_to_the_message_with_that_label(world: World) -> None:
    said = world.say("好消息")
    await world.settle()
    doing = await platform(world)
    await doing.react(1, "76")
    assert world.napcat.called("set_msg_emoji_like") == [{"message_id": said["message_id"], "emoji_id": "76", "set": True}]
    with pytest.raises(PlatformError, match="#9"):
        await doing.react(9, "76")


async def test_only_own_messages_of_the_last_two_minutes_are_withdrawn(world: World) -> None:
    world.say(at(BOT), text(" 在吗"))
    await world.until_row("SELECT FROM messages WHERE is_self")
    doing = await platform(world)
    with pytest.raises(PlatformError, match="不是你发的"):
        await doing.withdraw(1)
    late = await platform(world, now=datetime(2100, 1, 1, tzinfo=UTC))
    with pytest.raises(PlatformError, match="2 分钟"):
        await late.withdraw(2)
    assert not world.napcat.called("delete_msg")
    await doing.withdraw(2)
    assert world.napcat.called("delete_msg") == [{"message_id": world.napcat.sent[0]["message_id"]}]


async def test_nudges_know_group_from_friend(world: World) -> None:
    world.say("早")
    world.event(
        post_type="message",
        message_type="private",
        sub_type="friend",
        user_id=WANG,
        message_id=1,
        message=[text("在吗")],
        sender={"user_id": WANG, "nickname": "老王"},
    )
    await world.settle()
    await (await platform(world)).poke(MING)
    await (await platform(world, ConversationKey("private", WANG))).poke(WANG)
    assert world.napcat.called("group_poke") == [{"group_id": GROUP, "user_id": MING}]
    assert world.napcat.called("friend_poke") == [{"user_id": WANG}]
