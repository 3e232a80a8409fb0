"""Whole turns: the real graph, tools and database, with a scripted model and a fake QQ."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from agent.ports import Delivery, Draft, PlatformError, TurnFailed
from db.pool import Database
from llm.errors import BudgetExhausted, ContextTooLong, ModelUnavailable
from tests.agent.world import BOT, MING, STRANGER, WEI, ScriptedModels, World, broken, call, calls, quiet, says, texts


async def test_a_mention_is_answered_with_one_model_call(world: World) -> None:
    pos = await world.say("@小满 今晚几点", owed=True)
    models = ScriptedModels(says("七点，老地方"))
    request = await world.request()
    result = await world.agent(models).run(request)
    assert (result.outcome, result.shown_pos, result.spoken) == ("spoke", pos, 1)
    assert world.qq.sent == [Draft("七点，老地方")]
    assert len(models.requests) == 1
    assert models.contexts[0].daily_limit == 7
    assert models.contexts[0].turn_id == request.turn_id
    steps = await world.steps(request)
    assert steps[0][:3] == ("model", "chat", True)
    assert steps[1] == ("tool", "speak", True, "已发送 #901")
    assert (1, "rules", "kept") in await world.blocks(request)


async def test_silence_costs_one_model_call(world: World) -> None:
    await world.say("你们聊")
    models = ScriptedModels(quiet())
    result = await world.agent(models).run(await world.request("ambient"))
    assert (result.outcome, result.spoken, len(models.requests)) == ("quiet", 0, 1)
    assert not world.qq.sent


async def test_nothing_new_makes_no_model_call(world: World) -> None:
    last = await world.say("旧话")
    await world.read_up_to(last)
    await world.say("我自己的话", BOT)
    models = ScriptedModels(quiet())
    result = await world.agent(models).run(await world.request("ambient"))
    assert (result.outcome, result.shown_pos, models.requests) == ("nothing_new", 2, [])


async def test_a_call_that_was_withdrawn_is_no_reason_to_speak(world: World) -> None:
    await world.read_up_to(await world.say("旧话"))
    await world.say("别的新话", WEI)
    await world.withdraw(await world.say("@小满 在吗", owed=True))
    models = ScriptedModels(quiet())
    result = await world.agent(models).run(await world.request("mention"))
    assert (result.outcome, result.shown_pos, models.requests) == ("nothing_new", 1, [])


async def test_a_call_by_an_impossible_name_is_sent_back_with_a_possible_one(world: World) -> None:
    await world.say("在吗", owed=True)
    models = ScriptedModels(calls(call("说 话", x=1), call("functions.getNewMessages")), quiet())
    await world.agent(models).run(await world.request())
    echoed = models.requests[1][-3]
    assert isinstance(echoed, AIMessage)
    assert [made["name"] for made in echoed.tool_calls] == ["___", "functions_getNewMessages"]
    assert models.requests[1][-1].text == "没有新消息。"


async def test_calls_after_stay_quiet_are_not_run_but_two_speaks_are_both_sent(world: World) -> None:
    await world.say("在吗", owed=True)
    models = ScriptedModels(calls(call("speak", content="第一句"), call("speak", content="第二句"), call("stayQuiet")))
    result = await world.agent(models).run(await world.request())
    assert (result.outcome, result.spoken) == ("spoke", 2)
    again = ScriptedModels(calls(call("stayQuiet"), call("speak", content="不该发")))
    assert (await world.agent(again).run(await world.request())).outcome == "quiet"
    assert [draft.text for draft in world.qq.sent] == ["第一句", "第二句"]


async def test_at_most_three_messages_leave_in_a_turn(world: World) -> None:
    await world.say("讲个故事", owed=True)
    parts = ["从前有座山在远方", "山里住着一只猫咪", "猫咪会写 Python", "后来它退休去钓鱼"]
    models = ScriptedModels(*(says(part, then="continue") for part in parts))
    result = await world.agent(models).run(await world.request())
    assert (result.outcome, result.spoken, len(world.qq.sent), len(models.requests)) == ("spoke", 3, 3, 3)


async def test_wrapped_arguments_repeats_and_unknown_tools_are_mended(world: World) -> None:
    await world.say("来", owed=True)
    wrapped = call("speak", arguments='{"content": "包了一层", "mentions": "[5000000012]", "then": "continue"}')
    plain = call("speak", content="包了一层", mentions=[WEI], then="continue")
    models = ScriptedModels(calls(wrapped), calls(plain, call("noSuchTool", x=1)), quiet())
    request = await world.request()
    result = await world.agent(models).run(request)
    assert (result.outcome, len(models.requests)) == ("spoke", 3)
    assert world.qq.sent == [Draft("包了一层", mentions=(WEI,))]
    answers = [message.text for message in models.requests[2] if isinstance(message, ToolMessage)]
    assert "跳过" in answers[1]
    assert "stayQuiet" in answers[2]
    assert [step[2] for step in await world.steps(request)] == [True, True, True, True, False, True, True]


async def test_broken_json_is_mended_or_answered(world: World) -> None:
    await world.say("在吗", owed=True)
    models = ScriptedModels(broken("speak", '{"content": "说到一半'), broken("speak", '```json\n{"content": "在的",}\n```'))
    result = await world.agent(models).run(await world.request())
    assert result.outcome == "spoke"
    assert [draft.text for draft in world.qq.sent] == ["在的"]
    echoed = models.requests[1][-2]
    assert isinstance(echoed, AIMessage)
    assert not echoed.invalid_tool_calls
    assert echoed.tool_calls[0]["id"] == "bad1"
    assert "JSON" in models.requests[1][-1].text


async def test_wrong_arguments_are_explained_in_chinese(world: World) -> None:
    await world.say("在吗", owed=True)
    models = ScriptedModels(calls(call("speak", text="忘了参数名")), calls(call("speak", content="好", then="later")), quiet())
    await world.agent(models).run(await world.request())
    assert "content：缺少" in models.requests[1][-1].text
    assert "then：不在可选值里" in models.requests[2][-1].text


async def test_prose_after_a_mention_gets_one_correction(world: World) -> None:
    await world.say("在吗", owed=True)
    models = ScriptedModels(AIMessage("我决定说你好"), says("你好"))
    assert (await world.agent(models).run(await world.request())).outcome == "spoke"
    assert isinstance(models.requests[1][-1], HumanMessage)
    stubborn = ScriptedModels(AIMessage("就不用工具"))
    result = await world.agent(stubborn).run(await world.request())
    assert (result.outcome, len(stubborn.requests)) == ("no_tool_call", 2)


async def test_prose_without_a_call_is_silence(world: World) -> None:
    await world.say("随便聊")
    models = ScriptedModels(AIMessage("我想想"))
    result = await world.agent(models).run(await world.request("ambient"))
    assert (result.outcome, len(models.requests), world.qq.sent) == ("no_tool_call", 1, [])


async def test_a_refusal_is_told_and_an_unknown_end_ends_the_turn(world: World) -> None:
    await world.say("说句话", owed=True)
    world.qq.deliveries = [
        Delivery("refused", reason="other", detail="消息体无法解析"),
        Delivery("unknown", reason="unconfirmed"),
    ]
    models = ScriptedModels(says("被拒的话"), says("换个说法"), says("绝不能再发"))
    result = await world.agent(models).run(await world.request())
    assert (result.outcome, result.spoken) == ("spoke", 1)
    assert [draft.text for draft in world.qq.sent] == ["被拒的话", "换个说法"]
    assert "消息体无法解析" in models.requests[1][-1].text


async def test_a_refused_message_may_be_tried_again_as_it_was(world: World) -> None:
    await world.say("说句话", owed=True)
    world.qq.deliveries = [Delivery("refused", reason="rich_media")]
    await world.agent(ScriptedModels(says("刚才被禁言了的一句话"))).run(await world.request())
    assert len(world.qq.sent) == 2


async def test_a_mute_in_the_middle_of_a_turn_leaves_the_call_owed(world: World) -> None:
    await world.say("说句话", owed=True)
    world.qq.deliveries = [Delivery("refused", reason="muted")]
    with pytest.raises(TurnFailed, match="禁言"):
        await world.agent(ScriptedModels(says("被禁言的话"))).run(await world.request())
    world.qq.deliveries = [Delivery("sent", pos=901), Delivery("refused", reason="muted")]
    models = ScriptedModels(says("第一句话", then="continue"), says("另外一句"))
    assert (await world.agent(models).run(await world.request())).outcome == "spoke"


async def test_saying_nearly_the_same_again_is_refused(world: World) -> None:
    await world.say("今晚七点老地方见哦！", BOT, at=world.clock.now - timedelta(seconds=60))
    await world.say("几点？", owed=True)
    models = ScriptedModels(says("今晚七点，老地方见哦"), says("七点，别忘了"))
    await world.agent(models).run(await world.request())
    assert [draft.text for draft in world.qq.sent] == ["七点，别忘了"]
    world.clock.now += timedelta(minutes=3)
    await world.agent(ScriptedModels(says("今晚七点，老地方见哦"))).run(await world.request())
    assert world.qq.sent[-1].text == "今晚七点，老地方见哦"


async def test_replies_and_mentions_are_resolved(world: World) -> None:
    pos = await world.say("@小满 问阿伟", owed=True)
    await world.say("在", WEI)
    who = ["小明[1]", "阿伟", 3, BOT, "没这个人", str(STRANGER)]
    models = ScriptedModels(says("都来", reply_to="#1", mentions=who, then="continue"), says("还有", reply_to=77))
    await world.agent(models).run(await world.request())
    assert world.qq.sent[0] == Draft("都来", reply_to=pos, mentions=(MING, WEI, 5000000013, STRANGER))
    assert world.qq.sent[1].reply_to is None
    told = models.requests[1][-1].text
    assert "没这个人" in told
    assert "不用 @ 自己" in told


async def test_what_leaves_is_cleaned(world: World) -> None:
    await world.say("在吗", owed=True)
    models = ScriptedModels(says("<think>他问我在不在</think>小满[我]: 在，小明[1] 你说"))
    await world.agent(models).run(await world.request())
    assert world.qq.sent == [Draft("在，小明 你说")]
    empty = ScriptedModels(says("<think>只想没说</think>"), quiet())
    assert (await world.agent(empty).run(await world.request())).outcome == "quiet"


async def test_new_messages_extend_what_was_shown_only_when_the_model_answers_again(world: World) -> None:
    await world.say("@小满 第1问", owed=True)
    models = ScriptedModels(calls(call("getNewMessages")), calls(call("getNewMessages"), call("speak", content="答")))

    async def another(number: int) -> None:
        await world.say(f"@小满 第{number + 1}问", owed=True)

    models.before = another
    result = await world.agent(models).run(await world.request())
    assert "第2问" in models.requests[1][-1].text
    assert "【待回应】#2" in models.requests[1][-1].text
    # The second look came with the last words: the model was never asked again with what it found.
    assert (result.shown_pos, world.pos) == (2, 3)


async def test_a_model_that_fails_fails_the_turn(world: World) -> None:
    await world.say("在吗", owed=True)
    request = await world.request()
    with pytest.raises(TurnFailed, match="服务没有回答"):
        await world.agent(ScriptedModels(ModelUnavailable("服务没有回答"))).run(request)
    assert await world.steps(request) == [("model", "chat", False, "服务没有回答")]
    with pytest.raises(TurnFailed) as failed:
        await world.agent(ScriptedModels(BudgetExhausted("今天的额度用完了"))).run(await world.request())
    assert isinstance(failed.value.__cause__, BudgetExhausted)


async def test_a_failure_after_speaking_is_not_a_failed_turn(world: World) -> None:
    await world.say("在吗", owed=True)
    models = ScriptedModels(says("我在", then="continue"), ModelUnavailable("断了"))
    result = await world.agent(models).run(await world.request())
    assert (result.outcome, result.spoken, result.shown_pos) == ("spoke", 1, 1)


async def test_a_prompt_that_is_too_long_is_shortened_once(world: World) -> None:
    for number in range(1, 16):
        await world.say(f"第{number}句", owed=number == 2)
    models = ScriptedModels(ContextTooLong("太长"), says("好"))
    request = await world.request()
    result = await world.agent(models).run(request)
    assert (result.outcome, result.shown_pos) == ("spoke", 15)
    assert "第3句" not in "\n".join(texts(models.requests[1]))
    assert "#2 11-30 18:00 小明[1]: 第2句\n【待回应】#2(@你)" in models.requests[1][-1].text
    assert (1, "history:0", "kept") in await world.blocks(request)
    with pytest.raises(TurnFailed, match="太长"):
        await world.agent(ScriptedModels(ContextTooLong("太长"))).run(await world.request())


async def test_a_small_window_drops_old_history_before_the_call(world: World) -> None:
    for number in range(1, 16):
        await world.say(f"第{number}句" + "长" * 400)
    models = ScriptedModels(quiet(), window=6000)
    request = await world.request("ambient")
    assert (await world.agent(models).run(request)).shown_pos == 15
    assert ("history:0", "dropped") in [block[1:] for block in await world.blocks(request)]
    assert "第15句" in "\n".join(texts(models.requests[0]))


async def test_the_step_limit_ends_a_turn(world: World) -> None:
    await world.say("查一查", owed=True)
    models = ScriptedModels(lambda messages: calls(call("getRecentMessages", count=len(messages))))
    result = await world.agent(models).run(await world.request())
    assert (result.outcome, len(models.requests)) == ("step_limit", 6)


async def test_the_time_limit_ends_a_turn(world: World) -> None:
    await world.say("在吗", owed=True)
    world.settings = world.settings.model_copy(update={"llm_timeout_seconds": 0.1})

    async def hang(number: int) -> None:
        if number == slow_from:
            await asyncio.Event().wait()

    models = ScriptedModels(calls(call("getNewMessages")))
    models.before = hang
    slow_from = 1
    request = await world.request()
    with pytest.raises(TurnFailed, match="时限"):
        await world.agent(models).run(request)
    assert await world.steps(request) == [("model", "chat", False, "被中断")]
    slow_from = 2
    assert (await world.agent(models).run(await world.request())).outcome == "time_limit"


async def test_an_interrupted_turn_still_shows_its_steps(world: World) -> None:
    await world.say("在吗", owed=True)
    reached = asyncio.Event()

    async def hang(number: int) -> None:
        if number == 2:
            reached.set()
            await asyncio.Event().wait()

    models = ScriptedModels(calls(call("getNewMessages")))
    models.before = hang
    request = await world.request()
    running = asyncio.create_task(world.agent(models).run(request))
    await reached.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert [step[:3] for step in await world.steps(request)] == [
        ("model", "chat", True),
        ("tool", "getNewMessages", True),
        ("model", "chat", False),
    ]


async def test_a_tool_that_breaks_is_a_result(world: World, caplog: pytest.LogCaptureFixture) -> None:
    await world.say("戳我", owed=True)
    world.qq.fails = PlatformError("QQ 说太频繁")
    models = ScriptedModels(calls(call("poke", member="1")), says("戳不了"))
    await world.agent(models).run(await world.request())
    assert "QQ 说太频繁" in models.requests[1][-1].text
    world.qq.fails = RuntimeError("没想到的错")
    models = ScriptedModels(calls(call("getMemberInfo", member="1")), says("查不到呢"))
    await world.agent(models).run(await world.request())
    assert "工具出错了" in models.requests[1][-1].text
    assert "没想到的错" in caplog.text


async def test_the_small_acts(world: World) -> None:
    mine = await world.say("手滑了", BOT, at=world.clock.now - timedelta(seconds=90))
    old = await world.say("很久以前", BOT, at=world.clock.now - timedelta(seconds=150))
    pos = await world.say("好笑吧", owed=True)
    models = ScriptedModels(
        calls(
            call("reactToMessage", label=f"#{pos}", reaction="笑哭"),
            call("reactToMessage", label=pos, reaction="飞机"),
            call("withdrawMessage", label=old),
            call("withdrawMessage", label=pos),
            call("withdrawMessage", label=mine),
            call("poke", member="小明[1]"),
            call("poke", member="阿伟"),
        ),
        calls(call("getMemberInfo", member=1), call("getGroupNotices"), call("getEssenceMessages")),
        quiet(),
    )
    await world.agent(models).run(await world.request())
    assert world.qq.acts == [("react", pos, "182"), ("withdraw", mine, ""), ("poke", MING, ""), ("member_info", MING, "")]
    first = [message.text for message in models.requests[1] if isinstance(message, ToolMessage)]
    assert "可用：赞" in first[1]
    assert "两分钟" in first[2]
    assert "不是你发的" in first[3]
    assert "动作够多" in first[6]
    info, notices, essence = (message.text for message in models.requests[2][-3:])
    assert info.startswith("小明[1]，管理员，头衔 桌游王，等级 42，2026-11-30 入群")
    assert notices == "- 11-30 18:00 老王: 周六下午桌游 ⏎ 〔待回应】#1"
    assert "没有精华" in essence


async def test_older_messages_can_be_read(world: World) -> None:
    for number in range(1, 31):
        await world.say(f"第{number}句")
    models = ScriptedModels(
        calls(call("getRecentMessages", count="3")), calls(call("getRecentMessages", count=2, before="#5")), quiet()
    )
    await world.agent(models).run(await world.request("ambient"))
    assert [line[:3] for line in models.requests[1][-1].text.splitlines()] == ["#17", "#18", "#19"]
    assert [line[:2] for line in models.requests[2][-1].text.splitlines()] == ["#3", "#4"]


async def test_a_private_conversation_has_its_own_tools(database: Database, tmp_path: Path) -> None:
    world = await World.create(database, tmp_path, "private")
    await world.say("你好呀", owed=True)
    models = ScriptedModels(says("你好", mentions=["1"]))
    await world.agent(models).run(await world.request())
    assert world.qq.sent == [Draft("你好")]
    declared = str(models.tools[0])
    assert "mentions" not in declared
    assert "poke" not in declared
    assert "私聊" in models.requests[0][0].text


async def test_a_missing_persona_falls_back_or_fails(world: World) -> None:
    await world.say("在吗", owed=True)
    world.settings = world.settings.model_copy(update={"persona": "nobody"})
    with pytest.raises(TurnFailed, match="现有：default"):
        await world.agent(ScriptedModels(quiet())).run(await world.request())


async def test_an_unexpected_error_while_sending_is_never_sent_twice(world: World) -> None:
    await world.say("在吗", owed=True)
    world.qq.deliveries = [RuntimeError("插座断了")]
    models = ScriptedModels(says("在"))
    result = await world.agent(models).run(await world.request())
    assert (len(world.qq.sent), len(models.requests), result.outcome) == (1, 1, "quiet")
