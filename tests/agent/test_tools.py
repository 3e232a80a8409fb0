"""The tools in real turns: what they do, what they refuse, what the model reads."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest
from langchain_core.messages import AIMessage, ToolMessage

from agent.ports import Delivery, Draft, PlatformError
from tests.agent.world import BOT, MING, STRANGER, WEI, ScriptedModels, World, broken, call, calls, quiet, says


async def test_a_call_by_an_impossible_name_is_sent_back_with_a_possible_one(world: World) -> None:
    await world.say("在吗", owed=True)
    models = ScriptedModels(calls(call("说 话", x=1), call("functions.getNewMessages")), quiet())
    await world.agent(models).run(await world.request())
    echoed = models.requests[1][-3]
    assert isinstance(echoed, AIMessage)
    assert [made["name"] for made in echoed.tool_calls] == ["___", "functions_getNewMessages"]
    assert models.requests[1][-1].text == "没有新消息。"


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


async def test_half_an_emoji_does_not_make_the_turn_unsendable(world: World) -> None:
    await world.say("在吗", owed=True)
    wrapped = call("speak", arguments='{"content": "嗨呀\\ud83d", "mentions": "小明\\ud83d", "then": "continue"}')
    odd = calls(wrapped, call("getMemberInfo", member="小明\ud83d"), call("speak", content="嗨\ud83d", then="continue"))
    models = ScriptedModels(odd, quiet())
    await world.agent(models).run(await world.request())
    assert world.qq.sent == [Draft("嗨呀?"), Draft("嗨?")]
    sent_back = [message.model_dump(mode="python") for message in models.requests[1]]
    json.dumps(sent_back, ensure_ascii=False, default=str).encode("utf-8")


async def test_wrong_arguments_are_explained_in_chinese(world: World) -> None:
    await world.say("在吗", owed=True)
    models = ScriptedModels(calls(call("speak", text="忘了参数名")), calls(call("speak", content="好", then="later")), quiet())
    await world.agent(models).run(await world.request())
    assert "content：缺少" in models.requests[1][-1].text
    assert "then：不在可选值里" in models.requests[2][-1].text


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


async def test_whom_nobody_knows_is_noted_and_the_words_still_leave(world: World) -> None:
    await world.say("我是一号", 5000000021, name="双胞胎")
    await world.say("我是二号", 5000000022, name="双胞胎", owed=True)
    world.qq.deliveries = [Delivery("sent", pos=901, dropped_mentions=(STRANGER,))]
    models = ScriptedModels(says("来", mentions=["全体成员", "双胞胎", str(STRANGER)], then="continue"), quiet())
    await world.agent(models).run(await world.request())
    assert world.qq.sent == [Draft("来", mentions=(STRANGER,))]
    told = models.requests[1][-1].text
    assert told == f"已发送 #901；不能 @ 全体成员；认不出成员“双胞胎”，请用成员号；QQ 不认识 {STRANGER}，没有 @"


async def test_a_reply_with_very_many_calls_is_bounded(world: World) -> None:
    await world.say("在吗", owed=True)
    flood = calls(*(call("getRecentMessages", count=number) for number in range(1, 12)))
    models = ScriptedModels(flood, quiet())
    await world.agent(models).run(await world.request())
    answers = [message.text for message in models.requests[1] if isinstance(message, ToolMessage)]
    assert [("没有执行" in text) for text in answers] == [False] * 8 + [True] * 3


async def test_what_leaves_is_cleaned(world: World) -> None:
    await world.say("在吗", owed=True)
    models = ScriptedModels(says("<think>他问我在不在</think>小满[我]: 在，小明[1] 你说"))
    await world.agent(models).run(await world.request())
    assert world.qq.sent == [Draft("在，小明 你说")]
    empty = ScriptedModels(says("<think>只想没说</think>"), quiet())
    assert (await world.agent(empty).run(await world.request())).outcome == "quiet"


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
