"""The demo model: speaks when something is owed, else keeps quiet, and never claims to be more than it is."""

from __future__ import annotations

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

from db.models import ConversationId, JsonObject
from db.pool import Database
from llm.demo import OWED_MARKER, answer_to, owed_text
from llm.types import CallContext
from llm.usage import UsageBook
from tests.llm.conftest import Opener
from tests.llm.test_service import rows


def tool(name: str) -> JsonObject:
    return {"type": "function", "function": {"name": name, "description": "", "parameters": {"type": "object", "properties": {}}}}


TOOLS = (tool("speak"), tool("stayQuiet"), tool("poke"))
HISTORY = "\n".join(
    (
        "— 03-01 —",
        "#11 12:00 小明[1]: 【待回应】 #11 #12",
        "#12 12:01 小明[1]: [回复 阿伟:「谢谢」] @小满 你好呀",
        "#13 12:02 阿伟[2]: 你是谁呀",
        "#14 12:03 小满[我]: 你好]: 奇怪的一行",
    )
)


def prompt(owed: str) -> list[BaseMessage]:
    return [SystemMessage("你是小满"), HumanMessage(HISTORY), HumanMessage(f"现在 12:04\n{owed}\n看看要不要说话")]


async def test_what_is_owed_is_answered_with_speak(open_models: Opener):
    async with open_models(None) as models:
        reply = await models.chat(prompt(f"{OWED_MARKER} #12"), role="chat", tools=TOOLS, context=CallContext("turn"))
    (call,) = reply.message.tool_calls
    assert call["name"] == "speak"
    assert "你好" in call["args"]["content"]
    assert reply.model == "demo"
    assert models.is_demo


@pytest.mark.parametrize("owed", ["", f"{OWED_MARKER} 无", f"说明：{OWED_MARKER} #12"])
async def test_nothing_owed_is_silence(open_models: Opener, owed: str):
    async with open_models(None) as models:
        reply = await models.chat(prompt(owed), role="chat", tools=TOOLS, context=CallContext("turn"))
    assert [call["name"] for call in reply.message.tool_calls] == ["stayQuiet"]


async def test_after_a_tools_result_it_keeps_quiet(open_models: Opener):
    async with open_models(None) as models:
        first = (await models.chat(prompt(f"{OWED_MARKER} #12"), role="chat", tools=TOOLS, context=CallContext("turn"))).message
        result = ToolMessage("QQ 拒绝了", tool_call_id=first.tool_calls[0]["id"] or "")
        messages = [*prompt(f"{OWED_MARKER} #12"), first, result]
        second = await models.chat(messages, role="chat", tools=TOOLS, context=CallContext("turn"))
    assert [call["name"] for call in second.message.tool_calls] == ["stayQuiet"]


async def test_without_tools_it_answers_in_text(open_models: Opener):
    async with open_models(None) as models:
        reply = await models.chat([HumanMessage("你好")], role="chat", context=CallContext("turn"))
    assert isinstance(reply.message, AIMessage)
    assert reply.message.content


async def test_it_is_counted_and_always_there(
    open_models: Opener, book: UsageBook, database: Database, conversation: ConversationId
):
    async with open_models(None) as models:
        await models.chat(prompt(""), role="chat", tools=TOOLS, context=CallContext("turn", conversation))
        probe = await models.probe()
    assert probe.ok
    assert "不是语言模型" in probe.detail
    (row,) = await rows(database, book)
    assert (row["model"], row["ok"]) == ("demo", True)


async def test_every_start_says_that_it_is_no_language_model(open_models: Opener, caplog: pytest.LogCaptureFixture):
    async with open_models(None):
        assert "不是语言模型" in caplog.text


def test_the_newest_owed_line_is_read():
    assert owed_text(prompt(f"{OWED_MARKER}#12(@你) #13(叫你)")) == "你是谁呀"
    assert owed_text(prompt(f"{OWED_MARKER}#12(@你)")) == "你好呀"
    assert owed_text(prompt(f"{OWED_MARKER} #99")) == ""
    assert owed_text(prompt("")) is None


def test_a_line_quoted_in_the_last_message_is_read():
    assert owed_text(prompt(f"{OWED_MARKER} #7\n#7 02-28 09:00 老王[3]: 几点开局？")) == "几点开局？"


@pytest.mark.parametrize(
    ("said", "part"),
    [
        ("你是谁", "不是语言模型"),
        ("你是机器人吗？", "LLM_BASE_URL"),
        ("早", "早呀"),
        ("谢谢你", "不客气"),
        ("在吗", "在的"),
        ("hi", "你好"),
        ("几点了", "演示模型"),
        ("我买了个新键盘", "收到"),
        ("", "收到"),
    ],
)
def test_the_answer_fits(said: str, part: str):
    assert part in answer_to(said)
