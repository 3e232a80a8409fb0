"""The client against a real HTTP service that fails and lies in every known way."""

from __future__ import annotations

import socket
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

from db.models import JsonObject
from llm.client import RetryPolicy, ServiceClient
from llm.errors import ContextTooLong, ModelRefused, ModelUnavailable
from llm.types import Answer, Params
from tests.llm.fake_service import Answer as Scripted
from tests.llm.fake_service import FakeService, Raw, call, calls, completion, dig, failure, says

KEY = "sk-not-a-real-key-0001"
QUICK = RetryPolicy(first_wait=0.001, max_wait=0.002)
SPEAK: JsonObject = {
    "type": "function",
    "function": {"name": "speak", "description": "说一句话", "parameters": {"type": "object", "properties": {}}},
}
HELLO: Sequence[BaseMessage] = (SystemMessage("你是小满"), HumanMessage("#1 12:00 小明[1]: 你好"))


@asynccontextmanager
async def serving(*answers: Scripted, seconds: float = 5) -> AsyncGenerator[tuple[FakeService, ServiceClient], None]:
    async with FakeService(*answers) as service:
        client = ServiceClient(service.base_url, KEY, timeout=seconds, policy=QUICK)
        try:
            yield service, client
        finally:
            await client.aclose()


async def ask(client: ServiceClient, model: str = "fake-chat", params: Params | None = None, within: float = 10) -> Answer:
    return await client.ask(model, HELLO, params or Params(tools=(SPEAK,)), within=within)


async def test_a_request_holds_only_what_every_service_knows():
    async with serving(says("你好")) as (service, client):
        await ask(client)
    assert set(service.requests[0]) == {"model", "messages", "tools", "stream"}
    assert service.requests[0]["stream"] is False
    assert service.requests[0]["messages"] == [
        {"role": "system", "content": "你是小满"},
        {"role": "user", "content": "#1 12:00 小明[1]: 你好"},
    ]
    assert service.requests[0]["tools"] == [SPEAK]
    assert service.authorizations == [f"Bearer {KEY}"]


async def test_equal_input_makes_equal_bytes_and_a_longer_one_keeps_the_prefix():
    async with serving(says("你好")) as (service, client):
        await ask(client)
        await ask(client)
        await client.ask("fake-chat", [*HELLO, HumanMessage("#2 12:01 小明[1]: 在吗")], Params(tools=(SPEAK,)), within=5)
    assert service.raw[0] == service.raw[1]
    until = service.raw[0].index("你好".encode()) + len("你好".encode())
    assert service.raw[2][:until] == service.raw[0][:until]


async def test_a_full_url_of_the_endpoint_is_understood():
    async with FakeService(says("好")) as service:
        client = ServiceClient(service.base_url + "/chat/completions/", KEY, timeout=5, policy=QUICK)
        assert (await ask(client)).message.content == "好"
        await client.aclose()


async def test_server_errors_are_tried_again():
    async with serving(failure(500, "oops"), failure(503, "busy"), says("好了")) as (service, client):
        assert (await ask(client)).message.content == "好了"
    assert len(service.requests) == 3


async def test_attempts_are_bounded():
    async with serving(failure(500, "oops")) as (service, client):
        with pytest.raises(ModelUnavailable, match=r"HTTP 500.*oops"):
            await ask(client)
    assert len(service.requests) == 3


async def test_rate_limits_wait_as_long_as_the_service_asks():
    async with serving(failure(429, "slow down", headers={"Retry-After": "0"}), says("好")) as (service, client):
        assert (await ask(client)).message.content == "好"
    assert len(service.requests) == 2


async def test_a_pause_longer_than_the_time_left_is_not_waited_for():
    async with serving(failure(429, "slow down", headers={"Retry-After": "3600"})) as (service, client):
        with pytest.raises(ModelUnavailable, match="限流"):
            await ask(client)
    assert len(service.requests) == 1


async def test_an_empty_account_is_not_tried_again():
    words = "You exceeded your current quota, please check your plan and billing details"
    async with serving(failure(429, words)) as (service, client):
        with pytest.raises(ModelRefused, match="余额不足"):
            await ask(client)
    assert len(service.requests) == 1


async def test_a_slow_service_times_out():
    async with serving(Raw(completion(says("太晚了")), delay=3), seconds=0.2) as (_, client):
        with pytest.raises(ModelUnavailable, match="超时"):
            await ask(client)


async def test_the_total_time_is_bounded():
    async with serving(Raw(completion(says("太晚了")), delay=3), seconds=5) as (service, client):
        with pytest.raises(ModelUnavailable, match="超时"):
            await ask(client, within=0.1)
    assert len(service.requests) <= 1


async def test_nobody_listens():
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        client = ServiceClient(f"http://127.0.0.1:{unused.getsockname()[1]}/v1", KEY, timeout=5, policy=QUICK)
        with pytest.raises(ModelUnavailable, match="连不上模型服务"):
            await ask(client)
        await client.aclose()


BROKEN: dict[str, Raw] = {
    "a web page": Raw("<html><body>nginx</body></html>", content_type="text/html"),
    "a web page that claims to be JSON": Raw("<html><body>nginx</body></html>"),
    "nothing": Raw(""),
    "cut JSON": Raw('{"id": "chatcmpl-1", "choices": [{"mess'),
    "a list": Raw("[1, 2]"),
    "a text": Raw('"ok"'),
    "null": Raw("null"),
    "no choices": Raw({"id": "x", "object": "chat.completion"}),
    "null choices": Raw({"id": "x", "choices": None}),
    "empty choices": Raw({"id": "x", "choices": []}),
    "choices of another shape": Raw({"id": "x", "choices": "none"}),
    "a choice without a message": Raw({"id": "x", "choices": [{"index": 0}]}),
    "a null message": Raw({"id": "x", "choices": [{"index": 0, "message": None}]}),
    "an error with status 200": Raw({"error": {"message": "upstream busy", "code": 502}}),
    "a web page with status 502": Raw("<html>bad gateway</html>", 502, content_type="text/html"),
}


@pytest.mark.parametrize("lie", BROKEN.values(), ids=BROKEN)
async def test_a_broken_answer_is_a_failed_attempt(lie: Raw):
    async with serving(lie, says("好")) as (service, client):
        assert (await ask(client)).message.content == "好"
        assert len(service.requests) == 2
        service.script([lie])
        with pytest.raises(ModelUnavailable) as failed:
            await ask(client)
    assert "<" not in failed.value.reason
    assert "服务" in failed.value.reason


@pytest.mark.parametrize("message", [{"content": None}, {"content": ""}, {}, {"content": None, "tool_calls": []}])
async def test_an_answer_without_content_is_empty(message: JsonObject):
    async with serving(message) as (_, client):
        answer = await ask(client)
    assert answer.message.content == ""
    assert answer.message.tool_calls == []


async def test_content_in_parts_is_joined():
    parts: JsonObject = {"content": [{"type": "text", "text": "你"}, {"type": "image"}, {"type": "text", "text": "好"}]}
    async with serving(parts) as (_, client):
        assert (await ask(client)).message.content == "你好"


async def test_tool_calls_are_read():
    async with serving(calls(call("speak", content="在", mentions=[5000000011]))) as (_, client):
        message = (await ask(client)).message
    assert message.content == ""
    assert [(c["name"], c["args"]) for c in message.tool_calls] == [("speak", {"content": "在", "mentions": [5000000011]})]


BAD_ARGUMENTS: dict[str, str] = {"cut": '{"content": "在', "a list": "[1]", "a text": '"在"', "prose": "content=在"}


@pytest.mark.parametrize("arguments", BAD_ARGUMENTS.values(), ids=BAD_ARGUMENTS)
async def test_broken_arguments_stay_raw(arguments: str):
    broken: JsonObject = {"id": "c1", "type": "function", "function": {"name": "speak", "arguments": arguments}}
    async with serving(calls(broken, call("stayQuiet", reason="没事"))) as (_, client):
        message = (await ask(client)).message
    assert [(c["name"], c["args"], c["id"]) for c in message.invalid_tool_calls] == [("speak", arguments, "c1")]
    assert [c["name"] for c in message.tool_calls] == ["stayQuiet"]


THOUGHTS: dict[str, str] = {
    "in a text": '{"content": "<think>嗯</think>在"}',
    "in a wrapped text": '{"arguments": {"content": "<think>嗯</think>在"}}',
    "before the object": '<think>要不要 {"content": "不"}</think>{"content": "在"}',
}


@pytest.mark.parametrize("arguments", THOUGHTS.values(), ids=THOUGHTS)
async def test_reasoning_is_taken_out_of_arguments(arguments: str):
    odd: JsonObject = {"id": "c1", "type": "function", "function": {"name": "speak", "arguments": arguments}}
    async with serving(calls(odd)) as (_, client):
        message = (await ask(client)).message
    assert not message.invalid_tool_calls
    args = message.tool_calls[0]["args"]
    assert args.get("arguments", args) == {"content": "在"}


@pytest.mark.parametrize("arguments", ["", "null", None, {}])
async def test_no_arguments_are_an_empty_object(arguments: str | JsonObject | None):
    bare: JsonObject = {"id": "c1", "type": "function", "function": {"name": "getNewMessages", "arguments": arguments}}
    async with serving(calls(bare)) as (_, client):
        assert (await ask(client)).message.tool_calls[0]["args"] == {}


async def test_arguments_given_as_an_object_are_taken():
    odd: JsonObject = {"id": "c1", "type": "function", "function": {"name": "speak", "arguments": {"content": "在"}}}
    async with serving(calls(odd)) as (_, client):
        assert (await ask(client)).message.tool_calls[0]["args"] == {"content": "在"}


async def test_tool_calls_without_an_id_of_their_own_get_one():
    same: JsonObject = {"id": "", "type": "function", "function": {"name": "speak", "arguments": "{}"}}
    async with serving(calls(same, same)) as (_, client):
        ids = [c["id"] for c in (await ask(client)).message.tool_calls]
    assert all(ids)
    assert len(set(ids)) == 2


USAGES: dict[str, tuple[JsonObject, int]] = {
    "OpenAI": ({"prompt_tokens": 90, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 64}}, 64),
    "DeepSeek": (
        {"prompt_tokens": 90, "completion_tokens": 5, "prompt_cache_hit_tokens": 70, "prompt_cache_miss_tokens": 20},
        70,
    ),
    "Moonshot": ({"prompt_tokens": 90, "completion_tokens": 5, "cached_tokens": 80}, 80),
    "Anthropic gateway": ({"prompt_tokens": 90, "completion_tokens": 5, "cache_read_input_tokens": 85}, 85),
    "none": ({"prompt_tokens": 90, "completion_tokens": 5, "prompt_tokens_details": None}, 0),
    "nonsense": ({"prompt_tokens": 90, "completion_tokens": 5, "cached_tokens": 10**15}, 2**31 - 1),
}


@pytest.mark.parametrize(("counted", "cached"), USAGES.values(), ids=USAGES)
async def test_tokens_are_counted_in_every_spelling(counted: JsonObject, cached: int):
    async with serving(Raw(completion(says("好"), usage=counted))) as (_, client):
        usage = (await ask(client)).usage
    assert (usage.prompt_tokens, usage.completion_tokens, usage.cached_tokens) == (90, 5, cached)


@pytest.mark.parametrize("counted", [{}, {"prompt_tokens": "many"}, {"prompt_tokens": None}])
async def test_odd_usage_does_not_fail_the_call(counted: JsonObject):
    async with serving(Raw(completion(says("好"), usage=counted))) as (_, client):
        answer = await ask(client)
    assert answer.message.content == "好"
    assert answer.usage.prompt_tokens == 0


async def test_reasoning_is_dropped():
    thoughts: JsonObject = {"content": "<think>先想想</think>\n你好", "reasoning_content": "先想想"}
    async with serving(thoughts) as (_, client):
        message = (await ask(client)).message
    assert message.content == "你好"
    assert "先想想" not in message.model_dump_json()


async def test_reasoning_is_echoed_only_to_models_that_need_it():
    thoughts = {**calls(call("getNewMessages")), "reasoning_content": "先看看新消息"}
    async with serving(thoughts, says("好")) as (service, client):
        for model in ("deepseek-v4-pro", "fake-chat"):
            service.script([thoughts, says("好")])
            first = (await client.ask(model, HELLO, Params(tools=(SPEAK,)), within=5)).message
            result = ToolMessage("没有新消息", tool_call_id=first.tool_calls[0]["id"] or "")
            await client.ask(model, [*HELLO, first, result], Params(tools=(SPEAK,)), within=5)
    assert dig(service.requests[1], "messages", 2, "reasoning_content") == "先看看新消息"
    assert "先看看新消息" not in service.raw[3].decode()


async def test_a_message_without_kept_reasoning_still_has_the_field_where_it_must():
    async with serving(says("好")) as (service, client):
        await client.ask("deepseek-v4-pro", [*HELLO, AIMessage("好"), HumanMessage("接着说")], Params(), within=5)
    assert dig(service.requests[0], "messages", 2) == {"role": "assistant", "content": "好", "reasoning_content": " "}


TOO_LONG: dict[str, Raw] = {
    "OpenAI, DeepSeek": failure(400, "This model's maximum context length is 65536 tokens. However, you requested 70000 tokens"),
    "DashScope": failure(400, "<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 129024]"),
    "Moonshot": failure(400, "Invalid request: Your request exceeded model token limit: 8192"),
    "GLM": failure(400, "Prompt 超长"),
    "Ark": failure(400, "Total tokens of image and text exceed max message tokens. Total message token length exceed"),
    "Anthropic gateway": failure(400, "prompt is too long: 210000 tokens > 200000 maximum"),
    "Gemini": failure(400, "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576)."),
    "vLLM": failure(400, "The prompt (total length 40000) is too long to fit into the model (context length 32768)"),
    "llama.cpp": failure(500, "the request exceeds the available context size. try increasing the context size"),
    "a gateway": failure(413, "Request too large for model"),
    "inside 200": Raw({"error": {"message": "context_length_exceeded"}}),
}


@pytest.mark.parametrize("refusal", TOO_LONG.values(), ids=TOO_LONG)
async def test_a_prompt_that_is_too_long_is_recognised(refusal: Raw):
    async with serving(refusal) as (service, client):
        with pytest.raises(ContextTooLong, match="超出模型的上下文"):
            await ask(client)
    assert len(service.requests) == 1


async def test_a_rate_limit_about_tokens_is_not_a_long_prompt():
    words = "Rate limit reached on tokens per min (TPM): Limit 30000, Used 29000, Requested 3000"
    async with serving(failure(429, words), says("好")) as (_, client):
        assert (await ask(client)).message.content == "好"


async def test_a_wrong_key_is_refused_in_words_without_the_key():
    async with serving(failure(401, f"Incorrect API key provided: {KEY}. See sk-not-a*****0001")) as (service, client):
        with pytest.raises(ModelRefused, match="LLM_API_KEY") as refused:
            await ask(client)
    assert len(service.requests) == 1
    assert KEY not in refused.value.reason
    assert "sk-" not in refused.value.reason
    assert KEY not in repr(client)


async def test_an_unknown_model_names_the_setting():
    async with serving(failure(404, "The model `fake-chat` does not exist")) as (_, client):
        with pytest.raises(ModelRefused, match=r"LLM_MODEL.*does not exist"):
            await ask(client)


async def test_an_optional_parameter_that_is_refused_is_left_out_from_then_on():
    def brain(body: JsonObject) -> Scripted:
        if "temperature" in body:
            return failure(400, "Unsupported value: 'temperature' does not support 0.2 with this model.")
        return says("好")

    async with serving() as (service, client):
        service.brain = brain
        await ask(client, params=Params(temperature=0.2))
        await ask(client, params=Params(temperature=0.2))
    assert ["temperature" in body for body in service.requests] == [True, False, False]


async def test_text_that_cannot_be_encoded_is_refused_before_it_leaves():
    async with serving(says("好")) as (service, client):
        with pytest.raises(ModelRefused, match="无法编码"):
            await client.ask("fake-chat", [HumanMessage("坏\ud83d字")], Params(), within=5)
    assert service.requests == []


async def test_no_key_is_fine_for_a_local_server():
    async with FakeService(says("好")) as service:
        client = ServiceClient(service.base_url, "", timeout=5, policy=QUICK)
        assert (await ask(client)).message.content == "好"
        await client.aclose()


@pytest.mark.parametrize(
    ("answer", "ok"),
    [(Raw({"data": []}), True), (failure(404, "x"), True), (failure(401, "x"), False), (failure(500, "x"), False)],
)
async def test_reach_asks_without_a_model_call(answer: Raw, ok: bool):
    async with serving() as (service, client):
        service.models = answer
        probe = await client.reach()
    assert probe.ok is ok
    assert service.requests == []
