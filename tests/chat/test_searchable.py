"""From the socket to the search: a message is found once it is stored, and not when it is gone."""

from __future__ import annotations

from db.message_search import MessageQuery, search_messages
from db.models import ConversationId
from tests.chat.world import BOT, GROUP, MING, WANG, WEI, World, at, reply, text


async def found(world: World, words: str, *, sender_ids: tuple[int, ...] = ()) -> list[str]:
    """What a search by words finds in the first group."""
    rows = await world.rows("SELECT id FROM conversations WHERE target_id = %(group)s", group=GROUP)
    where = ConversationId(int(str(rows[0]["id"])))
    hits = await search_messages(world.database, MessageQuery((where,), words, sender_ids))
    return [hit.line.body for hit in hits]


async def test_a_message_is_found_as_soon_as_it_is_stored(world: World) -> None:
    world.say("周六去爬山吗", user=WEI)
    world.say("我去", user=MING)
    await world.settle()
    assert await found(world, "爬山") == ["周六去爬山吗"]
    assert await found(world, "爬山", sender_ids=(MING,)) == []


async def test_a_reply_is_found_by_its_own_words_and_not_by_what_it_quotes(world: World) -> None:
    first = world.say("烧烤还是火锅", user=WEI)
    await world.settle()
    world.say(reply(first), text("都行，听你的"), user=MING)
    await world.settle()
    assert await found(world, "听你的") == ["都行，听你的"]
    assert await found(world, "烧烤") == ["烧烤还是火锅"]


async def test_a_withdrawn_message_is_not_found(world: World) -> None:
    said = world.say("说漏嘴的秘密", user=WEI)
    await world.settle()
    world.withdraw(said["message_id"], by=WEI)
    await world.settle()
    assert await found(world, "秘密") == []
    assert await world.rows("SELECT FROM message_vectors") == []
    assert [row["search"] for row in await world.messages()] == [""]


async def test_a_message_withdrawn_before_it_came_is_not_found(world: World) -> None:
    fields = world.message("说漏嘴的秘密", user=WEI)
    world.withdraw(fields["message_id"], by=WEI)
    await world.settle()
    world.event(**fields)
    await world.settle()
    assert await found(world, "秘密") == []
    assert await world.rows("SELECT FROM message_vectors") == []


async def test_a_forgotten_member_is_not_found(world: World) -> None:
    world.say("我养了两只猫", user=WEI)
    world.say("我也养猫", user=MING)
    await world.settle()
    world.say("/群友 忘记我", user=WEI)
    await world.until(lambda: any("忘记" in sent for sent in world.napcat.texts()))
    assert await found(world, "养猫") == ["我也养猫"]
    assert await found(world, "", sender_ids=(WEI,)) == []


async def test_the_lines_of_a_forward_are_found_once_they_are_fetched(world: World) -> None:
    node = {"sender": {"user_id": WANG, "nickname": "老王"}, "message": [text("下周三考试")]}
    world.napcat.on_call = lambda action, params: {"messages": [node]} if action == "get_forward_msg" else None
    world.say({"type": "forward", "data": {"id": "7001"}}, user=WEI)
    await world.until_row("SELECT FROM messages WHERE body LIKE '%%考试%%'")
    [body] = await found(world, "考试")
    assert "老王" in body


async def test_what_the_bot_says_is_found(world: World) -> None:
    world.say(at(BOT), text(" 在吗"))
    await world.until_row("SELECT FROM messages WHERE is_self")
    assert await found(world, "", sender_ids=(BOT,)) == ["好"]
    assert "好" in await found(world, "好")


async def test_history_that_is_fetched_later_is_found(world: World) -> None:
    world.napcat.history.append(world.message("昨天说好去游泳", user=WEI) | {"time": 1_700_000_000})
    world.event(post_type="meta_event", meta_event_type="heartbeat", status={"online": False, "good": True})
    world.event(post_type="meta_event", meta_event_type="heartbeat", status={"online": True, "good": True})
    await world.until_row("SELECT FROM messages")
    assert await found(world, "游泳") == ["昨天说好去游泳"]
