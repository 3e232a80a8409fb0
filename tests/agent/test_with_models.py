"""Turns with the real models room: over HTTP, and with the demo model."""

from __future__ import annotations

import json

from llm.service import Models
from llm.usage import UsageBook
from tests.agent.world import World
from tests.llm.fake_service import FakeService, calls, dig, says
from tests.llm.fake_service import call as service_call


async def test_the_demo_model_answers_a_mention_and_keeps_quiet_otherwise(world: World) -> None:
    settings = world.settings
    usage = UsageBook(world.database, settings.zone)
    models = Models.from_settings(settings, usage)
    assert models.is_demo
    await world.say("@小满 你好呀", owed=True)
    result = await world.agent(models, settings).run(await world.request())
    assert result.outcome == "spoke"
    assert world.qq.sent[0].text.startswith("你好呀")
    await world.settle()
    await world.say("今天吃什么")
    assert (await world.agent(models, settings).run(await world.request("ambient"))).outcome == "quiet"
    await models.aclose()
    await usage.aclose()


async def test_a_turn_over_http(world: World) -> None:
    looks_then_speaks = (calls(service_call("getGroupNotices")), calls(service_call("speak", content="周六下午")))
    async with FakeService(*looks_then_speaks) as service:
        settings = world.settings.model_copy(
            update={"llm_base_url": service.base_url, "llm_api_key": "sk-test", "llm_model": "fake-chat"}
        )
        usage = UsageBook(world.database, settings.zone)
        models = Models.from_settings(settings, usage)
        await world.say("@小满 公告说什么", owed=True)
        result = await world.agent(models, settings).run(await world.request())
        assert (result.outcome, [draft.text for draft in world.qq.sent]) == ("spoke", ["周六下午"])
        first, second = service.requests
        assert json.dumps(second["messages"]).startswith(json.dumps(first["messages"])[:-1])
        assert first["tools"] == second["tools"]
        await models.aclose()
        await usage.aclose()


async def test_an_empty_answer_is_not_sent_back_empty(world: World) -> None:
    async with FakeService(says(""), calls(service_call("speak", content="<think>想一想</think>在呢"))) as service:
        settings = world.settings.model_copy(
            update={"llm_base_url": service.base_url, "llm_api_key": "sk-test", "llm_model": "fake-chat"}
        )
        usage = UsageBook(world.database, settings.zone)
        models = Models.from_settings(settings, usage)
        await world.say("@小满 在吗", owed=True)
        request = await world.request()
        result = await world.agent(models, settings).run(request)
        assert (result.outcome, [draft.text for draft in world.qq.sent]) == ("spoke", ["在呢"])
        # Some services refuse an assistant's message that says nothing and calls nothing.
        assert dig(service.requests[1], "messages", -2) == {"role": "assistant", "content": "（空）"}
        assert "想一想" not in str(await world.steps(request))
        await models.aclose()
        await usage.aclose()


async def test_broken_arguments_over_http_are_answered(world: World) -> None:
    bad = {"id": "c1", "type": "function", "function": {"name": "speak", "arguments": '{"content": "半句'}}
    async with FakeService(calls(bad), says("还是不用工具")) as service:
        settings = world.settings.model_copy(
            update={"llm_base_url": service.base_url, "llm_api_key": "sk-test", "llm_model": "fake-chat"}
        )
        usage = UsageBook(world.database, settings.zone)
        models = Models.from_settings(settings, usage)
        await world.say("@小满 在吗", owed=True)
        result = await world.agent(models, settings).run(await world.request())
        assert (result.outcome, world.qq.sent, len(service.requests)) == ("no_tool_call", [], 3)
        await models.aclose()
        await usage.aclose()
