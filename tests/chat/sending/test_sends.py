"""Sending: a row before anything leaves, one end for each, and every own message stored once."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from agent.ports import Draft
from db.pool import Database
from plugins.chat.outbox import Address
from plugins.chat.plaintext import LONGEST
from tests.chat.edges import BusyNapCat, where
from tests.chat.sending.own import address, echo, own_rows
from tests.chat.world import BOT, BOT2, GROUP, MING, WANG, World, at, lost, open_world, refused, reply, text
from tests.llm.fake_service import FakeService


async def test_the_row_is_there_before_the_call(world: World, napcat: BusyNapCat) -> None:
    seen: list[dict[str, object]] = []

    async def look() -> None:
        seen.extend(await world.rows("SELECT status, text, left_at, message_id FROM outbox"))

    napcat.during = look
    delivery = await world.chat.outbox.send(await address(world), Draft("在的"))
    assert [(row["status"], row["text"], row["message_id"]) for row in seen] == [("sending", "在的", None)]
    assert seen[0]["left_at"] is not None
    row = (await world.rows("SELECT * FROM outbox"))[0]
    stored = (await own_rows(world))[0]
    assert (delivery.status, delivery.pos) == ("sent", stored["pos"])
    assert (row["status"], row["message_id"], row["message"]) == ("sent", napcat.sent[0]["message_id"], stored["id"])


async def test_a_refusal_has_its_reason_and_stores_no_message(world: World, napcat: BusyNapCat) -> None:
    napcat.on_call = lambda action, params: refused("消息体无法解析") if action.startswith("send_") else None
    delivery = await world.chat.outbox.send(await address(world), Draft("在的"))
    assert (delivery.status, delivery.reason, delivery.detail) == ("refused", "other", "消息体无法解析")
    row = (await world.rows("SELECT * FROM outbox"))[0]
    assert (row["status"], row["reason"], row["detail"]) == ("refused", "other", "消息体无法解析")
    assert row["settled_at"] is not None
    assert not await own_rows(world)


async def test_an_answer_without_an_id_is_unknown(world: World, napcat: BusyNapCat) -> None:
    napcat.on_call = lambda action, params: {"message_id": 0} if action.startswith("send_") else None
    assert (await world.chat.outbox.send(await address(world), Draft("在的"))).status == "unknown"
    row = (await world.rows("SELECT * FROM outbox"))[0]
    assert (row["status"], row["reason"], row["settled_at"]) == ("unknown", "unconfirmed", None)


async def test_result_then_echo_is_one_message(world: World, napcat: BusyNapCat) -> None:
    await world.chat.outbox.send(await address(world), Draft("在的"))
    shown = echo(world, "在的", message_id=napcat.sent[0]["message_id"])
    await world.settle()
    row = (await own_rows(world))[0]
    assert len(await world.messages()) == 1
    assert row["real_seq"] == int(str(shown["real_seq"]))


async def test_echo_then_result_is_one_message(world: World, napcat: BusyNapCat) -> None:
    async def come_first() -> None:
        echo(world, "在的", message_id=900001)
        await world.settle()

    napcat.during = come_first
    delivery = await world.chat.outbox.send(await address(world), Draft("在的"))
    assert len(await world.messages()) == 1
    assert delivery.pos == 1
    assert (await world.rows("SELECT status FROM outbox"))[0]["status"] == "sent"


async def test_the_sight_of_a_second_account_then_the_result_is_one_message(world: World, napcat: BusyNapCat) -> None:
    world.connect(BOT2)

    async def come_first() -> None:
        echo(world, "在的", account=BOT2)
        await world.settle()

    napcat.during = come_first
    await world.chat.outbox.send(await address(world), Draft("在的"))
    rows = await world.messages()
    assert [(row["body"], row["is_self"]) for row in rows] == [("在的", True)]
    assert len(await world.rows("SELECT FROM message_keys")) == 2
    assert not await world.rows("SELECT FROM owed")


async def test_what_another_process_took_for_a_strangers_words_is_ours_once_it_was_sent(
    world: World, napcat: BusyNapCat, database: Database, tmp_path: Path, service: FakeService
) -> None:
    await world.until_row("DELETE FROM accounts RETURNING 1")
    async with open_world(database, tmp_path / "b", service, scan_seconds="600") as other:
        other.connect(BOT2)
        assert BOT not in other.chat.own.ids

        async def come_first() -> None:
            other.event(BOT2, **other.message("在的", user=BOT))
            await other.settle()

        napcat.during = come_first
        await world.chat.outbox.send(await address(world), Draft("在的"))
        assert [row["is_self"] for row in await world.messages()] == [True]


async def test_the_same_words_twice_are_two_messages_for_both_accounts(world: World) -> None:
    world.connect(BOT2)
    for _ in range(2):
        await world.chat.outbox.send(await address(world), Draft("好"))
    for _ in range(2):
        echo(world, "好", account=BOT2)
    await world.settle()
    rows = await world.messages()
    assert len(rows) == 2
    assert None not in {row["real_seq"] for row in rows}


async def test_a_reply_that_mentions_whom_it_quotes_is_one_message_for_both_accounts(world: World) -> None:
    world.connect(BOT2)
    asked = world.say("几点", user=MING)
    world.event(BOT2, **{k: v for k, v in asked.items() if k not in {"self_id", "time"}} | {"message_id": 4711})
    await world.settle()
    await world.chat.outbox.send(await address(world), Draft("八点", reply_to=1, mentions=(MING,)))
    echo(world, reply({"message_id": 4711}), at(MING), text(" 八点"), account=BOT2)
    await world.settle()
    assert [(row["body"], row["quote_text"]) for row in await own_rows(world)] == [("八点", "几点")]


async def test_an_unknown_send_is_settled_by_its_echo(world: World, napcat: BusyNapCat) -> None:
    napcat.on_call = lambda action, params: lost() if action.startswith("send_") else None
    assert (await world.chat.outbox.send(await address(world), Draft("第一行\n第二行"))).status == "unknown"
    shown = echo(world, "第一行\n第二行")
    row = await world.until_row("SELECT * FROM outbox WHERE status = 'sent'")
    assert row["message_id"] == shown["message_id"]
    assert len(await own_rows(world)) == 1


async def test_a_send_whose_echo_came_before_the_answer_was_lost_is_sent(world: World, napcat: BusyNapCat) -> None:
    async def come_first() -> None:
        echo(world, "在的")
        await world.settle()

    napcat.during = come_first
    napcat.on_call = lambda action, params: lost() if action.startswith("send_") else None
    delivery = await world.chat.outbox.send(await address(world), Draft("在的"))
    assert (delivery.status, delivery.pos) == ("sent", 1)
    row = (await world.rows("SELECT * FROM outbox"))[0]
    assert (row["status"], row["reason"]) == ("sent", None)
    assert len(await own_rows(world)) == 1


async def test_an_unknown_send_is_settled_by_history_after_a_reconnect(world: World, napcat: BusyNapCat) -> None:
    napcat.on_call = lambda action, params: lost() if action.startswith("send_") else None
    await world.chat.outbox.send(await address(world), Draft("在的"))
    fields = world.message("在的", user=BOT, sender={"user_id": BOT, "nickname": "小满"})
    napcat.history.append(fields | {"time": int(time.time())})
    world.chat.parted(BOT)
    world.connect()
    await world.until_row("SELECT FROM outbox WHERE status = 'sent'")
    assert len(await own_rows(world)) == 1


async def test_one_echo_settles_one_of_two_unknown_sends(world: World, napcat: BusyNapCat) -> None:
    napcat.on_call = lambda action, params: lost() if action.startswith("send_") else None
    for _ in range(2):
        await world.chat.outbox.send(await address(world), Draft("好"))
    echo(world, "好")
    await world.settle()
    rows = await world.rows("SELECT status FROM outbox ORDER BY id")
    assert [row["status"] for row in rows] == ["sent", "unknown"]


async def test_long_text_goes_in_parts_of_which_the_first_replies_and_mentions(world: World, napcat: BusyNapCat) -> None:
    world.say("讲讲", user=MING)
    await world.settle()
    sentence = "这一句话正好有十二个字。"
    said = sentence * (LONGEST // len(sentence) + 1)
    delivery = await world.chat.outbox.send(await address(world), Draft(said, reply_to=1, mentions=(MING,)))
    assert (delivery.status, delivery.pos) == ("sent", 2)
    kinds = [[part["type"] for part in item["message"]] for item in napcat.sent]  # type: ignore[union-attr,index]
    assert kinds == [["reply", "at", "text"], ["text"]]
    bodies = [str(row["text"]) for row in await own_rows(world)]
    assert "".join(bodies) == said


async def test_two_sends_at_once_do_not_mix_their_parts(world: World, napcat: BusyNapCat) -> None:
    one, two = "甲" * (LONGEST + 1), "乙" * (LONGEST + 1)
    to = await address(world)
    await asyncio.gather(world.chat.outbox.send(to, Draft(one)), world.chat.outbox.send(to, Draft(two)))
    assert "".join(said[0] for said in napcat.texts()) in {"甲甲乙乙", "乙乙甲甲"}


async def test_a_part_that_is_refused_after_the_first_left_does_not_unsay_it(world: World, napcat: BusyNapCat) -> None:
    answers = [None, refused("消息体无法解析")]
    napcat.on_call = lambda action, params: answers.pop(0) if action.startswith("send_") and answers else None
    delivery = await world.chat.outbox.send(await address(world), Draft("哈" * (LONGEST * 3)))
    assert (delivery.status, delivery.pos) == ("sent", 1)
    assert len(napcat.called("send_group_msg")) == 2


async def test_a_mentioned_stranger_is_dropped_and_the_message_sent_once_more(world: World, napcat: BusyNapCat) -> None:
    napcat.on_call = lambda action, params: (
        refused("获取用户 uid 失败：uid 不存在")
        if action.startswith("send_") and '"at"' in str(params).replace("'", '"')
        else None
    )
    delivery = await world.chat.outbox.send(await address(world), Draft("来吗", mentions=(5000000777,)))
    assert (delivery.status, delivery.dropped_mentions) == ("sent", (5000000777,))
    assert napcat.texts() == ["来吗"]
    rows = await world.rows("SELECT status, reason FROM outbox ORDER BY id")
    assert [(row["status"], row["reason"]) for row in rows] == [("refused", "unknown_user"), ("sent", None)]


async def test_an_unknown_user_without_a_mention_is_not_sent_again(world: World, napcat: BusyNapCat) -> None:
    napcat.on_call = lambda action, params: refused("用户不存在") if action.startswith("send_") else None
    assert (await world.chat.outbox.send(await address(world), Draft("来吗"))).status == "refused"
    assert len(napcat.called("send_group_msg")) == 1


async def test_a_muted_refusal_is_remembered_for_a_while(world: World, napcat: BusyNapCat) -> None:
    napcat.on_call = lambda action, params: refused('{"result": 120, "errMsg": ""}') if action.startswith("send_") else None
    await world.chat.outbox.send(await address(world), Draft("在的"))
    await world.until_row("SELECT FROM conversations WHERE muted_until > now() AND left_at IS NULL")


async def test_a_removed_refusal_ends_talking_in_the_group(world: World, napcat: BusyNapCat) -> None:
    napcat.on_call = lambda action, params: refused('{"result": 110, "errMsg": ""}') if action.startswith("send_") else None
    await world.chat.outbox.send(await address(world), Draft("在的"))
    await world.until_row("SELECT FROM conversations WHERE left_at IS NOT NULL")


async def test_an_offline_refusal_marks_the_account(world: World, napcat: BusyNapCat) -> None:
    napcat.on_call = lambda action, params: refused("账号已离线") if action.startswith("send_") else None
    await world.chat.outbox.send(await address(world), Draft("在的"))
    row = await world.until_row("SELECT * FROM accounts WHERE NOT online")
    assert (row["account_id"], row["note"]) == (BOT, "账号已离线")
    assert not world.chat.own.get(BOT).usable


async def test_nothing_the_model_writes_becomes_a_code(world: World, napcat: BusyNapCat) -> None:
    words = "[CQ:at,qq=all] @全体成员 [CQ:image,file=https://a.example/b.png] &#91;CQ:at,qq=all&#93;"
    await world.chat.outbox.send(await address(world), Draft(words))
    assert napcat.sent[0]["message"] == [text(words)]
    assert (await own_rows(world))[0]["body"] == words


async def test_a_reply_to_what_this_account_has_not_seen_goes_without_the_quote(world: World, napcat: BusyNapCat) -> None:
    world.connect(BOT2)
    world.event(BOT2, **world.message("只有小九看到"))
    await world.settle()
    await world.chat.outbox.send(await address(world), Draft("什么", reply_to=1))
    assert napcat.sent[0]["message"] == [text("什么")]
    assert (await own_rows(world))[0]["quote_name"] is None


async def test_a_reply_to_what_was_withdrawn_meanwhile_goes_without_the_quote(world: World, napcat: BusyNapCat) -> None:
    said = world.say("说漏嘴了")
    await world.settle()
    withdrawal: dict[str, object] = {"post_type": "notice", "notice_type": "group_recall", "group_id": GROUP}
    world.event(**withdrawal | {"user_id": MING, "operator_id": MING, "message_id": said["message_id"]})  # type: ignore[arg-type]
    await world.settle()
    await world.chat.outbox.send(await address(world), Draft("什么", reply_to=1))
    assert napcat.sent[0]["message"] == [text("什么")]


async def test_a_friend_is_answered_in_private_without_mentions(world: World, napcat: BusyNapCat) -> None:
    friend = Address(await where(world, WANG, "private"), BOT)
    await world.chat.outbox.send(friend, Draft("在", mentions=(WANG,)))
    assert napcat.called("send_private_msg") == [{"user_id": WANG, "message": [text("在")]}]
    assert not napcat.called("send_group_msg")


async def test_what_is_empty_after_cleaning_is_refused_without_a_row(world: World, napcat: BusyNapCat) -> None:
    delivery = await world.chat.outbox.send(await address(world), Draft("<think>说点什么好呢</think>"))
    assert delivery.status == "refused"
    assert not await world.rows("SELECT FROM outbox")


async def test_messages_keep_their_distance(world: World, napcat: BusyNapCat, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("plugins.chat.outbox.GAP_SECONDS", 0.3)
    times: list[float] = []

    async def note() -> None:
        times.append(time.monotonic())

    napcat.during = note
    to = await address(world)
    for words in ("一", "二"):
        await world.chat.outbox.send(to, Draft(words))
    assert times[1] - times[0] >= 0.3
