"""Frames become rows: once, in order, with names, quotes and calls."""

from __future__ import annotations

import time
from datetime import timedelta

from tests.chat.world import BOT, BOT2, GROUP, MING, ROBOT, WEI, World, at, reply, text


async def test_messages_are_stored_in_order_of_arrival_with_text_and_display(world: World) -> None:
    for number in range(30):
        world.say(f"第{number}句", user=WEI)
    await world.settle()
    rows = await world.messages()
    assert [row["body"] for row in rows] == [f"第{number}句" for number in range(30)]
    assert [row["pos"] for row in rows] == list(range(1, 31))
    assert {row["sender_name"] for row in rows} == {"阿伟"}


async def test_a_repeated_event_is_stored_once(world: World) -> None:
    first = world.say("今晚几点")
    world.event(**{key: value for key, value in first.items() if key not in {"self_id", "time"}})
    await world.settle()
    world.event(**{key: value for key, value in first.items() if key not in {"self_id", "time"}})
    await world.settle()
    assert len(await world.messages()) == 1


async def test_two_own_accounts_see_one_message(world: World) -> None:
    world.connect(BOT2)
    fields = world.message("在吗")
    world.event(BOT, **fields)
    world.event(BOT2, **fields | {"message_id": 777})
    await world.settle()
    assert len(await world.messages()) == 1
    keys = await world.rows("SELECT account_id, message_id FROM message_keys ORDER BY account_id")
    assert [(key["account_id"], key["message_id"]) for key in keys] == [(BOT, fields["message_id"]), (BOT2, 777)]


async def test_one_account_giving_two_messages_one_place_loses_neither(world: World) -> None:
    world.say("第一条", real_seq="50", message_id=1)
    world.say("第二条", real_seq="50", message_id=2)
    await world.settle()
    world.say("第三条", real_seq="50", message_id=3)
    await world.settle()
    rows = await world.messages()
    assert [(row["body"], row["real_seq"]) for row in rows] == [("第一条", 50), ("第二条", None), ("第三条", None)]


async def test_ids_may_collide_where_the_order_says_they_are_two(world: World) -> None:
    world.say("早", message_id=-5, real_seq="10")
    await world.settle()
    world.say("晚", message_id=-5, real_seq="900")
    await world.settle()
    assert [row["body"] for row in await world.messages()] == ["早", "晚"]


async def test_a_reply_shows_whom_and_what_it_quotes(world: World) -> None:
    first = world.say("七点老地方")
    world.say(reply(first), text("改成八点"), user=WEI)
    await world.settle()
    row = (await world.messages())[1]
    assert (row["quote_name"], row["quote_text"], row["body"]) == ("小明", "七点老地方", "改成八点")
    assert row["quoted_id"] == (await world.messages())[0]["id"]


async def test_a_quote_that_is_not_stored_is_fetched(world: World) -> None:
    asked = {"message": [text("去年的事")], "sender": {"user_id": WEI, "nickname": "阿伟"}}
    world.napcat.on_call = lambda action, params: asked if action == "get_msg" else None
    world.say({"type": "reply", "data": {"id": "31337"}}, text("还记得吗"))
    row = await world.until_row("SELECT * FROM messages WHERE quote_text IS NOT NULL")
    assert (row["quote_name"], row["quote_text"]) == ("阿伟", "去年的事")
    assert not await world.rows("SELECT FROM owed")


async def test_a_fetched_quote_of_ours_is_a_call(world: World) -> None:
    asked = {"message": [text("记好了")], "sender": {"user_id": BOT, "nickname": "小满"}}
    world.napcat.on_call = lambda action, params: asked if action == "get_msg" else None
    world.say({"type": "reply", "data": {"id": "31337"}}, text("改一下"))
    row = await world.until_row("SELECT * FROM owed")
    assert row["kind"] == "reply"
    await world.until(lambda: world.napcat.texts() == ["好"])


async def test_a_withdrawn_message_leaves_quotes_and_owes_nothing(world: World) -> None:
    world.napcat.on_call = lambda action, params: None
    first = world.say("说漏嘴了", user=WEI)
    world.say(reply(first), text("啥"), user=MING)
    await world.settle()
    world.withdraw(first["message_id"], by=WEI)
    await world.settle()
    rows = await world.messages()
    assert rows[0]["withdrawn_at"] is not None
    assert rows[0]["withdrawn_by"] == WEI
    assert rows[1]["quote_text"] is None
    assert rows[1]["quote_name"] == "阿伟"


async def test_a_withdraw_notice_may_come_first(world: World) -> None:
    fields = world.message(at(BOT), text(" 算了"))
    world.withdraw(fields["message_id"], by=MING)
    await world.settle()
    world.event(**fields)
    await world.settle()
    assert (await world.messages())[0]["withdrawn_at"] is not None
    assert not await world.rows("SELECT FROM owed")


async def test_a_file_and_its_upload_notice_are_one_message_in_either_order(world: World) -> None:
    part = {"type": "file", "data": {"file": "规则书.pdf", "file_id": "f1", "file_size": "734003"}}
    notice = {"id": "f1", "name": "规则书.pdf", "size": 734003, "busid": 102}
    world.say(part)
    world.event(post_type="notice", notice_type="group_upload", group_id=GROUP, user_id=MING, file=notice)
    await world.settle()
    world.event(post_type="notice", notice_type="group_upload", group_id=GROUP, user_id=WEI, file=notice)
    await world.settle()
    world.say(part, user=WEI)
    await world.settle()
    rows = await world.messages()
    assert [(row["sender_id"], row["body"]) for row in rows] == [
        (MING, "[文件 规则书.pdf 717KB]"),
        (WEI, "[文件 规则书.pdf 717KB]"),
    ]


async def test_what_a_foreign_group_says_is_not_kept(world: World) -> None:
    world.say("路过", group=5700000099, group_name="别的群")
    world.say("在")
    await world.settle()
    assert [row["body"] for row in await world.messages()] == ["在"]
    known = await world.rows("SELECT name FROM conversations WHERE target_id = 5700000099")
    assert [row["name"] for row in known] == ["别的群"]


async def test_members_get_short_numbers_and_keep_their_old_names(world: World) -> None:
    world.say("早", user=WEI)
    await world.settle()
    world.say("又来了", user=WEI, sender={"user_id": WEI, "nickname": "阿伟", "card": "迟到王", "role": "admin"})
    world.say("早", user=MING)
    await world.settle()
    rows = await world.rows("SELECT user_id, no, card, role FROM members ORDER BY no")
    assert [(row["user_id"], row["no"]) for row in rows] == [(WEI, 1), (MING, 2)]
    assert (rows[0]["card"], rows[0]["role"]) == ("迟到王", "admin")
    names = await world.rows("SELECT name FROM member_names WHERE user_id = %(user)s ORDER BY name", user=WEI)
    assert [row["name"] for row in names] == ["迟到王", "阿伟"]


async def test_an_emptied_card_in_a_notice_is_not_believed(world: World) -> None:
    world.say("早", sender={"user_id": MING, "nickname": "小明", "card": "小明同学", "role": "member"})
    await world.settle()
    world.event(post_type="notice", notice_type="group_card", group_id=GROUP, user_id=MING, card_new="", card_old="小明同学")
    await world.settle()
    assert (await world.rows("SELECT card FROM members"))[0]["card"] == "小明同学"


async def test_a_join_reported_twice_happened_once(world: World) -> None:
    for kind in ("approve", "invite"):
        world.event(post_type="notice", notice_type="group_increase", sub_type=kind, group_id=GROUP, user_id=WEI, operator_id=0)
    await world.settle()
    assert len(await world.rows("SELECT FROM happenings WHERE kind = 'joined'")) == 1


async def test_reactions_come_and_go(world: World) -> None:
    said = world.say("好消息")
    for added in (True, True, False):
        world.event(
            post_type="notice",
            notice_type="group_msg_emoji_like",
            group_id=GROUP,
            user_id=WEI,
            message_id=said["message_id"],
            likes=[{"emoji_id": "76", "count": 1}],
            is_add=added,
        )
        await world.settle()
        assert len(await world.rows("SELECT FROM reactions")) == int(added)


async def test_robots_are_known_from_the_member_list_and_never_call(world: World) -> None:
    world.napcat.members = [{"user_id": ROBOT, "nickname": "群管家", "role": "member", "is_robot": True}]
    world.event(post_type="notice", notice_type="group_increase", sub_type="approve", group_id=GROUP, user_id=0, operator_id=0)
    await world.until_row("SELECT FROM members WHERE is_robot")
    world.say(at(BOT), text(" 签到成功"), user=ROBOT)
    await world.settle()
    row = (await world.messages())[0]
    assert row["is_robot"] is True
    assert not await world.rows("SELECT FROM owed")


async def test_a_missed_call_is_owed_while_young_and_history_when_old(world: World) -> None:
    now = int(time.time())
    for minutes, words in ((5, "刚才的"), (15, "老早的")):
        world.napcat.history.append(
            world.message(at(BOT), text(words), user=WEI) | {"time": now - int(timedelta(minutes=minutes).total_seconds())}
        )
    world.event(post_type="meta_event", meta_event_type="heartbeat", status={"online": False, "good": True})
    world.event(post_type="meta_event", meta_event_type="heartbeat", status={"online": True, "good": True})
    await world.until_row("SELECT FROM messages WHERE body LIKE '%%老早的'")
    owed = await world.rows("SELECT m.body FROM owed o JOIN messages m ON m.id = o.message")
    assert len(owed) == 1
    assert str(owed[0]["body"]).endswith("刚才的")
