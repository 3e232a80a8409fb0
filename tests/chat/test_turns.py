"""From a call to an answer: one turn at a time, nothing lost, each end written by the lane."""

from __future__ import annotations

import asyncio
from pathlib import Path

from db import turns
from db.models import JsonObject
from db.pool import Database
from plugins.chat.workers import is_dead, worker_name
from tests.chat.world import BOT, GROUP, GROUP2, MING, WANG, WEI, World, at, lost, open_world, refused, reply, text
from tests.llm.fake_service import FakeService, Raw, call, calls, completion, failure, says


def slow(seconds: float, content: str = "好") -> Raw:
    """A model that takes its time."""
    return Raw(completion(calls(call("speak", content=content))), delay=seconds)


async def test_a_mention_is_answered_and_settled(world: World, service: FakeService) -> None:
    world.say(at(BOT), text(" 在吗"))
    await world.until_row("SELECT FROM owed WHERE settled_why = 'shown'")
    assert world.napcat.texts() == ["好"]
    turn = (await world.rows("SELECT * FROM turns"))[0]
    assert (turn["status"], turn["outcome"], turn["trigger"]) == ("done", "spoke", "mention")
    rows = await world.messages()
    assert [(row["is_self"], row["body"]) for row in rows] == [(False, "@小满 在吗"), (True, "好")]
    assert rows[1]["turn_id"] == turn["id"]
    assert len(service.requests) == 1


async def test_without_a_call_and_without_frequency_no_model_is_asked(world: World, service: FakeService) -> None:
    world.say("大家早")
    await world.settle()
    await world.until_row("SELECT FROM conversations WHERE diced_pos = 1")
    assert not service.requests


async def test_the_dice_are_rolled_once_for_an_unread_batch(database: Database, tmp_path: Path) -> None:
    async with (
        FakeService(calls(call("stayQuiet", reason="无"))) as service,
        open_world(database, tmp_path, service, talk_frequency="1", quiet_hours="") as world,
    ):
        world.connect()
        world.say("有人打球吗")
        await world.until_row("SELECT FROM turns WHERE status = 'done' AND trigger = 'ambient'")
        await asyncio.sleep(0.6)  # three scans
        assert len(service.requests) == 1


async def test_what_comes_during_a_turn_waits_for_the_next(world: World, service: FakeService) -> None:
    service.script([slow(0.4, "答甲"), slow(0, "答乙")])
    world.say(at(BOT), text(" 问甲"))
    await world.until(lambda: len(service.requests) == 1)
    world.say(at(BOT), text(" 问乙"), user=WEI)
    await world.until(lambda: len(world.napcat.sent) == 2)
    assert world.napcat.texts() == ["答甲", "答乙"]
    assert "问乙" not in str(service.requests[0])
    assert "问乙" in str(service.requests[1])


async def test_conversations_run_side_by_side_up_to_the_limit(database: Database, tmp_path: Path) -> None:
    async with FakeService(slow(0.5)) as service, open_world(database, tmp_path, service, max_turns="1") as world:
        world.napcat.groups = [GROUP, GROUP2]
        world.connect()
        world.say(at(BOT), text(" 一"))
        world.say(at(BOT), text(" 二"), group=GROUP2)
        await world.until(lambda: len(service.requests) == 1)
        await asyncio.sleep(0.2)
        assert len(service.requests) == 1
        assert (world.chat.lanes.running, world.chat.lanes.waiting) == (1, 1)
        await world.until(lambda: len(world.napcat.sent) == 2)


async def test_a_failed_turn_keeps_what_is_owed_and_tries_again_later(world: World, service: FakeService) -> None:
    service.script([failure(401, "wrong key")])
    world.say(at(BOT), text(" 在吗"))
    turn = await world.until_row("SELECT * FROM turns WHERE status = 'failed'")
    assert turn["error"]
    owed = (await world.rows("SELECT *, retry_at > now() AS later FROM owed"))[0]
    assert (owed["settled_at"], owed["tries"], owed["later"]) == (None, 1, True)
    service.script([calls(call("speak", content="来了"))])
    await world.rows("UPDATE owed SET retry_at = now() RETURNING 1")
    await world.until(lambda: world.napcat.texts() == ["来了"])


async def test_a_stopped_turn_is_interrupted_and_owes_nothing(world: World, service: FakeService) -> None:
    service.script([slow(5)])
    world.say(at(BOT), text(" 讲个长的"))
    await world.until(lambda: len(service.requests) == 1)
    world.say("/群友 停", user=WANG)
    await world.until_row("SELECT FROM turns WHERE status = 'interrupted'")
    await world.until(lambda: world.napcat.texts() == ["好，停下了"])
    assert (await world.rows("SELECT settled_why FROM owed"))[0]["settled_why"] == "stopped"


async def test_closing_interrupts_and_the_next_process_answers(database: Database, tmp_path: Path) -> None:
    async with FakeService(slow(5)) as service:
        async with open_world(database, tmp_path, service) as world:
            world.connect()
            world.say(at(BOT), text(" 还在吗"))
            await world.until(lambda: len(service.requests) == 1)
        service.script([calls(call("speak", content="在"))])
        async with open_world(database, tmp_path, service) as again:
            again.connect()
            await again.until(lambda: again.napcat.texts() == ["在"])
            await again.until_row("SELECT FROM turns WHERE status = 'done'")
            rows = await again.rows("SELECT status FROM turns ORDER BY id")
            assert [row["status"] for row in rows] == ["interrupted", "done"]


async def test_a_dead_process_is_told_from_a_living_one() -> None:
    me = worker_name()
    host, pid, _ = me.rsplit(":", 2)
    assert not is_dead(me)
    assert is_dead(f"{host}:{pid}:1.0")
    assert is_dead(f"{host}:4194000:1.0")
    assert not is_dead("another-host:1:1.0")
    assert not is_dead("nonsense")


async def test_one_conversation_has_one_running_turn_whatever_the_process(world: World) -> None:
    world.say("早")
    await world.settle()
    where = (await world.rows("SELECT id FROM conversations WHERE target_id = %(group)s", group=GROUP))[0]["id"]
    assert isinstance(where, int)
    async with world.database.connection() as conn:
        ids = [
            await turns.queue(conn, where, account_id=BOT, trigger="console", persona="", from_pos=0)  # type: ignore[arg-type]
            for _ in range(2)
        ]
        assert await turns.start(conn, ids[0], worker="another-host:1:1.0", lease=30)
        assert not await turns.start(conn, ids[1], worker=worker_name(), lease=30)


async def test_a_turn_whose_lease_ran_out_is_interrupted_and_not_finished_later(world: World, service: FakeService) -> None:
    service.script([slow(1.0)])
    world.say(at(BOT), text(" 在吗"))
    await world.until(lambda: len(service.requests) == 1)
    await world.rows("UPDATE turns SET lease_until = now() - interval '1 second' RETURNING 1")
    await world.until_row("SELECT FROM turns WHERE status = 'interrupted'")
    await asyncio.sleep(1.2)
    first = (await world.rows("SELECT status, outcome FROM turns ORDER BY id LIMIT 1"))[0]
    assert (first["status"], first["outcome"]) == ("interrupted", None)


async def test_a_muted_bot_thinks_nothing_and_answers_after_the_mute(world: World, service: FakeService) -> None:
    ban: dict[str, object] = {
        "post_type": "notice",
        "notice_type": "group_ban",
        "group_id": GROUP,
        "user_id": BOT,
        "operator_id": WANG,
    }
    world.event(**ban | {"sub_type": "ban", "duration": 600})  # type: ignore[arg-type]
    world.say(at(BOT), text(" 被禁了吗"))
    await world.settle()
    await asyncio.sleep(0.5)
    assert not service.requests
    world.event(**ban | {"sub_type": "lift_ban", "duration": 0})  # type: ignore[arg-type]
    await world.until(lambda: world.napcat.texts() == ["好"])


async def test_a_whole_mute_does_not_bind_an_admin(world: World, service: FakeService) -> None:
    world.event(
        post_type="notice", notice_type="group_ban", sub_type="ban", group_id=GROUP, user_id=0, operator_id=WANG, duration=-1
    )
    world.say(at(BOT), text(" 一"))
    await world.settle()
    await asyncio.sleep(0.4)
    assert not service.requests
    world.event(post_type="notice", notice_type="group_admin", sub_type="set", group_id=GROUP, user_id=BOT)
    await world.until(lambda: world.napcat.texts() == ["好"])


async def test_an_offline_account_pauses_and_resumes(world: World, service: FakeService) -> None:
    beat: dict[str, object] = {"post_type": "meta_event", "meta_event_type": "heartbeat", "interval": 30000}
    world.event(**beat | {"status": {"online": False, "good": True}})  # type: ignore[arg-type]
    await world.settle()
    assert not world.chat.own.get(BOT).usable
    world.event(**beat | {"status": {"online": True, "good": True}})  # type: ignore[arg-type]
    await world.settle()
    assert world.chat.own.get(BOT).usable
    world.say(at(BOT), text(" 回来了？"))
    await world.until(lambda: world.napcat.texts() == ["好"])


async def test_a_kicked_bot_cancels_and_comes_back_when_invited(world: World, service: FakeService) -> None:
    await world.until_row("SELECT FROM own_memberships")  # the list of groups was read before
    world.event(
        post_type="notice", notice_type="group_decrease", sub_type="kick_me", group_id=GROUP, user_id=BOT, operator_id=WANG
    )
    await world.settle()
    assert (await world.rows("SELECT left_at FROM conversations WHERE target_id = %(g)s", g=GROUP))[0]["left_at"]
    world.event(
        post_type="notice", notice_type="group_increase", sub_type="invite", group_id=GROUP, user_id=BOT, operator_id=WANG
    )
    world.say(at(BOT), text(" 欢迎回来"))
    await world.until(lambda: world.napcat.texts() == ["好"])


async def test_pokes_at_the_bot_start_a_turn_but_not_many(world: World, service: FakeService) -> None:
    world.say("早")
    for _ in range(5):
        world.event(post_type="notice", notice_type="notify", sub_type="poke", group_id=GROUP, user_id=MING, target_id=BOT)
    await world.until_row("SELECT FROM turns WHERE trigger = 'poke' AND status = 'done'")
    world.event(post_type="notice", notice_type="notify", sub_type="poke", group_id=GROUP, user_id=MING, target_id=BOT)
    await world.settle()
    await asyncio.sleep(0.4)
    assert len(service.requests) == 1
    assert (await world.messages())[1]["body"] == "小明 戳了戳 小满"


async def test_the_daily_budget_silences_even_mentions(database: Database, tmp_path: Path) -> None:
    async with (
        FakeService(calls(call("speak", content="好"))) as service,
        open_world(database, tmp_path, service, group_daily_calls="1") as world,
    ):
        world.connect()
        world.say(at(BOT), text(" 一"))
        await world.until(lambda: len(world.napcat.sent) == 1)
        world.say(at(BOT), text(" 二"))
        await world.settle()
        await asyncio.sleep(0.5)
        assert len(service.requests) == 1
        assert len(await world.rows("SELECT FROM owed WHERE settled_at IS NULL")) == 1


async def test_someone_on_the_ignore_list_never_calls(world: World, service: FakeService) -> None:
    world.say("早", user=WEI)
    await world.settle()
    await world.rows("INSERT INTO ignored (conversation_id, user_id) SELECT id, %(u)s FROM conversations RETURNING 1", u=WEI)
    world.say(at(BOT), text(" 出来"), user=WEI)
    await world.settle()
    assert not await world.rows("SELECT FROM owed")


async def test_a_friend_talks_only_where_the_owner_allowed_it(world: World, service: FakeService) -> None:
    def private(user: int, words: str, number: int) -> JsonObject:
        return {
            "post_type": "message",
            "message_type": "private",
            "sub_type": "friend",
            "user_id": user,
            "message_id": number,
            "message": [text(words)],
            "sender": {"user_id": user, "nickname": "老王"},
        }

    world.event(**private(MING, "在吗", 1))
    world.event(**private(WANG, "在吗", 2))
    await world.until_row("SELECT FROM messages WHERE is_self")
    assert world.napcat.sent[0]["user_id"] == WANG
    assert "mentions" not in str(service.requests[0]["tools"])
    assert [row["sender_id"] for row in await world.messages()] == [WANG, BOT]


async def test_prose_after_a_mention_is_silence(world: World, service: FakeService) -> None:
    service.script([says("我想想"), says("还是我想想")])
    world.say(at(BOT), text(" 在吗"))
    turn = await world.until_row("SELECT * FROM turns WHERE status = 'done'")
    assert turn["outcome"] == "no_tool_call"
    assert not world.napcat.sent
    assert len(service.requests) == 2


async def test_a_reply_to_the_bot_is_a_call(world: World, service: FakeService) -> None:
    world.say(at(BOT), text(" 记一下"))
    await world.until(lambda: len(world.napcat.sent) == 1)
    world.say(reply(world.napcat.sent[0]), text("不是这个"))
    await world.until_row("SELECT FROM turns WHERE trigger = 'reply' AND status = 'done'")
    row = (await world.messages())[-2]
    assert (row["quote_name"], row["quote_text"]) == ("小满", "好")


async def test_refused_is_told_to_the_model_and_unknown_is_never_sent_again(world: World, service: FakeService) -> None:
    answers = [refused("消息体无法解析"), None]
    world.napcat.on_call = lambda action, params: answers.pop(0) if action.startswith("send_") and answers else None
    service.script([calls(call("speak", content="被拒的话")), calls(call("speak", content="换个说法"))])
    world.say(at(BOT), text(" 说话"))
    await world.until(lambda: world.napcat.texts() == ["换个说法"])
    world.napcat.on_call = lambda action, params: lost() if action.startswith("send_") else None
    service.script([calls(call("speak", content="再说一句"))])
    world.say(at(BOT), text(" 再来"))
    await world.until_row("SELECT FROM outbox WHERE status = 'unknown'")
    await asyncio.sleep(0.8)
    assert len(world.napcat.called("send_group_msg")) == 3
