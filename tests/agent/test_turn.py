"""Whole turns: the real graph, tools and database, with a scripted model and a fake QQ."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from langchain_core.messages import AIMessage, HumanMessage

from agent.ports import Delivery, Draft, TurnFailed
from db.pool import Database
from llm.errors import BudgetExhausted, ContextTooLong, ModelUnavailable
from tests.agent.world import BOT, WEI, ScriptedModels, World, call, calls, quiet, says, texts


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


async def test_a_cancelled_send_ends_the_turn_without_words(world: World) -> None:
    await world.say("在吗", owed=True)
    world.qq.deliveries = [Delivery("cancelled")]
    models = ScriptedModels(calls(call("speak", content="第一句话"), call("speak", content="另外一句")))
    result = await world.agent(models).run(await world.request())
    assert (result.outcome, result.spoken, len(world.qq.sent)) == ("quiet", 0, 1)


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
    blocks = await world.blocks(request)
    assert (1, "history:0", "kept") in blocks
    assert (2, "history:0", "dropped") in blocks
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
    said: list[object] = []

    async def lane() -> None:
        try:
            await world.agent(models).run(request)
        except asyncio.CancelledError as stopped:
            said.extend(stopped.args)

    running = asyncio.create_task(lane())
    await reached.wait()
    running.cancel("停")
    await running
    # The lane tells an owner's stop from a shutdown by the message.
    assert said == ["停"]
    assert [step[:3] for step in await world.steps(request)] == [
        ("model", "chat", True),
        ("tool", "getNewMessages", True),
        ("model", "chat", False),
    ]


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
