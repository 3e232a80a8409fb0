"""The pure parts: routing, capabilities, reasoning text, tokens, failures."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from db.models import JsonObject
from llm.capabilities import UNKNOWN, capabilities_of, relax, strip, structured_mode
from llm.failures import clean, is_too_long, retry_after
from llm.reasoning import strip_reasoning
from llm.routing import Features, choose_role, compose, is_about_code, is_small_talk
from llm.tokens import estimate
from llm.types import ModelRole, Params
from llm.wire import request_fields

ALL: frozenset[ModelRole] = frozenset({"fast", "code", "vision", "learner"})
TOOL: JsonObject = {"type": "function", "function": {"name": "speak", "parameters": {"type": "object", "properties": {}}}}


@pytest.mark.parametrize(
    "text",
    [
        "```\nprint(1)\n```",
        "def f(x): return x",
        "帮我写个 python 爬虫",
        "这个正则怎么写",
        "SELECT * FROM users 为什么慢",
        "Traceback (most recent call last)",
        "ValueError 是什么意思",
        "main.py 跑不起来",
    ],
)
def test_code_is_noticed(text: str):
    assert is_about_code(text)
    assert choose_role(text, ALL) == "code"


@pytest.mark.parametrize(
    "text", ["今晚七点老地方", "他学 python 三年了", "这个函数课真无聊", "为什么又下雨", "红绿灯真慢", "good morning"]
)
def test_talk_is_not_code(text: str):
    assert not is_about_code(text)
    assert choose_role(text, ALL) == "chat"


@pytest.mark.parametrize("text", ["早", "@小满 你好呀", "谢谢～", "收到", "哈哈哈哈", "在吗", "OK", "晚安！"])
def test_small_talk_is_noticed(text: str):
    assert is_small_talk(text)
    assert choose_role(text, ALL) == "fast"
    assert choose_role(text, frozenset()) == "chat"


@pytest.mark.parametrize("text", ["", "你好，今晚几点开局", "早上好像要下雨", "谢谢你帮我想想怎么回老板", "在吗？借我五百"])
def test_what_says_more_is_not_small_talk(text: str):
    assert not is_small_talk(text)


def test_rules_compose_role_temperature_and_flags():
    assert compose(Features("早", ALL), Params()) == Params(role="fast", thinking=False)
    assert compose(Features("帮我改一下这段代码", ALL), Params()) == Params(role="code", temperature=0.2)
    assert compose(Features("今晚吃什么", ALL), Params()) == Params()
    assert compose(Features("", ALL), Params(role="learner")) == Params(role="learner", temperature=0.2)


@pytest.mark.parametrize(
    ("model", "field", "value"),
    [
        ("deepseek-chat", "window", 64 * 1024),
        ("deepseek-reasoner", "thinking", True),
        ("deepseek-ai/DeepSeek-V3.2", "echo", True),
        ("deepseek-v4-pro", "switch", "thinking"),
        ("deepseek-r1:7b", "echo", False),
        ("qwen-plus", "switch", "enable_thinking"),
        ("qwen2.5:7b", "window", 32 * 1024),
        ("qwen-vl-max", "vision", True),
        ("doubao-seed-1-6-251015", "switch", "thinking"),
        ("glm-4.6", "thinking", True),
        ("glm-4-flash", "switch", "none"),
        ("moonshot-v1-32k", "window", 32 * 1024),
        ("kimi-k2-thinking", "echo", True),
        ("gpt-4o-mini", "vision", True),
        ("gpt-4.1", "parallel_tool_calls", True),
        ("gpt-5-mini", "temperature", False),
        ("openai/o3-mini", "temperature", False),
        ("claude-sonnet-4-5", "window", 200 * 1024),
        ("gemini-2.5-flash", "vision", True),
        ("llama3.1:8b", "window", 32 * 1024),
        ("something-new", "window", UNKNOWN.window),
        ("foo3-mini", "temperature", True),
    ],
)
def test_the_table_knows_a_model(model: str, field: str, value: object):
    assert getattr(capabilities_of(model), field) == value


FULL = Params(
    role="chat",
    temperature=0.5,
    thinking=False,
    tools=(TOOL,),
    forced_tool="speak",
    parallel_tool_calls=False,
    response_format={"type": "json_object"},
)


def test_what_a_service_would_ignore_is_taken_out():
    plain = strip(FULL, UNKNOWN)
    assert (plain.temperature, plain.forced_tool) == (0.5, "speak")
    assert (plain.thinking, plain.parallel_tool_calls, plain.response_format) == (None, None, None)
    openai = strip(FULL, capabilities_of("gpt-4o"))
    assert openai.parallel_tool_calls is False
    reasoner = strip(FULL, capabilities_of("deepseek-reasoner"))
    assert (reasoner.temperature, reasoner.forced_tool, reasoner.thinking) == (None, None, None)
    thinking = strip(Params(tools=(TOOL,), forced_tool="speak", thinking=True), capabilities_of("qwen-plus"))
    assert thinking.forced_tool is None


@given(st.builds(Params, temperature=st.none() | st.floats(0, 2), thinking=st.none() | st.booleans()), st.text())
def test_strip_is_final_and_adds_nothing(params: Params, model: str):
    capabilities = capabilities_of(model)
    once = strip(params, capabilities)
    assert strip(once, capabilities) == once
    assert once.temperature in {None, params.temperature}


def test_schemas_are_asked_for_in_a_way_the_model_heeds():
    assert structured_mode("json_schema", UNKNOWN) == "json_schema"
    assert structured_mode("json_schema", capabilities_of("deepseek-chat")) == "json_object"
    assert structured_mode("json_object", capabilities_of("claude-sonnet-4-5")) == "tool"


@pytest.mark.parametrize(
    ("model", "extra"),
    [
        ("deepseek-v4-flash", {"thinking": {"type": "disabled"}}),
        ("qwen-plus", {"enable_thinking": False}),
        ("gpt-5", {"reasoning_effort": "low"}),
    ],
)
def test_the_switch_is_spelled_as_the_service_wants(model: str, extra: JsonObject):
    capabilities = capabilities_of(model)
    assert request_fields(strip(Params(thinking=False), capabilities), capabilities)["extra_body"] == extra
    assert request_fields(strip(Params(), capabilities), capabilities) == {}


def test_reasoning_that_needs_streaming_is_switched_off():
    capabilities = capabilities_of("qwen3-8b")
    assert strip(Params(thinking=True), capabilities).thinking is False


def test_a_refusal_relaxes_only_what_it_names():
    assert relax(FULL, "temperature must be 1") == replace(FULL, temperature=None)
    assert relax(Params(), "temperature must be 1") is None
    assert relax(FULL, "content policy") is None


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("你好", "你好"),
        ("<think>想</think>你好", "你好"),
        ("<think>\n想\n</think>\n\n你好\n", "你好"),
        ("<THINK time=3>想</Think>你好", "你好"),
        ("想到一半</think>你好", "你好"),
        ("<think>没有想完", ""),
        ("你好<think>没有想完", "你好"),
        ("<think>a</think>你<think>b</think>好", "你好"),
        ("<thinking>a</thinking>你好", "你好"),
        ("<think></think>", ""),
        ("1 < 2，think 一下", "1 < 2，think 一下"),
    ],
)
def test_reasoning_is_stripped(text: str, left: str):
    assert strip_reasoning(text) == left


@given(st.lists(st.sampled_from(["<think>", "</think>", "你好", "想", "\n", "<", ">", "</", "<thinking>"])))
def test_no_reasoning_tag_survives(parts: list[str]):
    left = strip_reasoning("".join(parts))
    assert "<think>" not in left
    assert "</think>" not in left
    assert strip_reasoning(left) == left


def test_tokens_are_near_what_tokenizers_count():
    assert estimate("") == 0
    assert estimate("a") == 1
    assert estimate("hello world, this is English text") == 9
    assert 60 <= estimate("今天去吃火锅吗" * 14) <= 100


@given(st.text(), st.text())
def test_tokens_grow_with_the_text(one: str, two: str):
    assert estimate(one) <= estimate(one + two) <= estimate(one) + estimate(two)
    assert estimate(one) == estimate(one)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"Retry-After": "7"}, 7.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after-ms": "1500"}, 1.5),
        ({"Retry-After": "Sun, 01 Mar 2026 00:00:10 GMT"}, 10.0),
        ({"Retry-After": "Sat, 28 Feb 2026 00:00:00 GMT"}, 0.0),
        ({"Retry-After": "soon"}, None),
        ({"Retry-After": "-1"}, None),
        ({"retry-after-ms": "nan?"}, None),
    ],
)
def test_retry_after_is_read(headers: dict[str, str], seconds: float | None):
    assert retry_after(headers, datetime(2026, 3, 1, tzinfo=UTC)) == seconds


@given(st.text())
def test_any_retry_after_is_survived(value: str):
    seconds = retry_after({"Retry-After": value})
    assert seconds is None or seconds >= 0


def test_words_are_bounded_and_hold_no_key():
    assert "secret-value" not in clean("the key secret-value is wrong", "secret-value")
    assert "sk-abcdef123" not in clean("key sk-abcdef123 is wrong", "")
    assert len(clean("长" * 5000, "")) <= 301
    assert "\n" not in clean("a\nb", "")


@pytest.mark.parametrize(
    "words", ["Rate limit reached for requests", "model not found", "content policy", "服务器繁忙", "invalid max_tokens"]
)
def test_other_refusals_are_not_about_length(words: str):
    assert not is_too_long(words)
