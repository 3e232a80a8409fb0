"""What goes to an OpenAI-compatible service and what comes back, on top of LangChain's ChatOpenAI.

ChatOpenAI is kept to the chat-completions API without streaming, and its reading of the answer is replaced by one
that survives what compatible services really send.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any
from uuid import uuid4

import openai
from langchain_core.language_models import LanguageModelInput
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, InvalidToolCall, ToolCall
from langchain_core.messages.ai import InputTokenDetails, UsageMetadata
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_openai import ChatOpenAI
from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError, field_validator
from typing_extensions import override

from db.models import JsonObject
from llm.capabilities import Capabilities
from llm.reasoning import strip_reasoning
from llm.types import Params, Usage

REASONING = "reasoning_content"


class BadAnswer(ValueError):
    """The service answered something that is not a chat completion; the text is Chinese."""


class ServiceSaid(ValueError):
    """The service answered 200 with an error inside; the text is the service's own."""


class _Lenient(BaseModel):
    model_config = ConfigDict(extra="ignore")


class _Function(_Lenient):
    name: str = ""
    arguments: JsonValue = None

    @field_validator("name", mode="before")
    @classmethod
    def _name(cls, value: object) -> object:
        return "" if value is None else value


class _Call(_Lenient):
    id: JsonValue = None
    function: _Function = Field(default_factory=_Function)


class _Message(_Lenient):
    content: JsonValue = None
    tool_calls: list[_Call] | None = None
    reasoning_content: JsonValue = None
    reasoning: JsonValue = None


class _Choice(_Lenient):
    message: _Message


class _Details(_Lenient):
    cached_tokens: int | None = None


class _Tokens(_Lenient):
    """Token counts in the spellings of OpenAI, DeepSeek, Moonshot and Anthropic gateways."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: _Details | None = None
    prompt_cache_hit_tokens: int | None = None
    cached_tokens: int | None = None
    cache_read_input_tokens: int | None = None

    def usage(self) -> Usage:
        details = self.prompt_tokens_details.cached_tokens if self.prompt_tokens_details else None
        cached = details or self.prompt_cache_hit_tokens or self.cached_tokens or self.cache_read_input_tokens or 0
        return Usage(_count(self.prompt_tokens), _count(self.completion_tokens), _count(cached))


def _count(value: int | None) -> int:
    """A service may count nonsense; the column holds 32 bits."""
    return min(max(0, value or 0), 2**31 - 1)


class _Completion(_Lenient):
    choices: list[_Choice] | None = None
    usage: JsonValue = None
    error: JsonValue = None


class WireModel(ChatOpenAI):
    """ChatOpenAI that reads answers leniently and echoes reasoning where the model needs it."""

    echo_reasoning: bool = False

    @override
    def _get_request_payload(self, input_: LanguageModelInput, *, stop: list[str] | None = None, **kwargs: Any) -> dict[str, Any]:
        messages = self._convert_input(input_).to_messages()
        payload: dict[str, Any] = super()._get_request_payload(messages, stop=stop, **kwargs)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        if self.echo_reasoning:
            for message, sent in zip(messages, payload["messages"], strict=True):
                if isinstance(message, AIMessage):
                    # The field must not be missing, and some services refuse an empty one.
                    sent[REASONING] = message.additional_kwargs.get(REASONING) or " "
        # The SDK walks messages and tools through its type tables for milliseconds; what is in extra_body goes as it is.
        # Tools never change, so they come first: two requests then share the longest possible beginning.
        ready = {key: payload.pop(key) for key in ("tools", "messages") if key in payload}
        return {**payload, "messages": openai.omit, "extra_body": {**payload.get("extra_body", {}), **ready}}

    @override
    def _create_chat_result(
        self, response: dict[str, Any] | openai.BaseModel, generation_info: dict[str, Any] | None = None
    ) -> ChatResult:
        message = read_completion(_body(response), echo=self.echo_reasoning)
        return ChatResult(generations=[ChatGeneration(message=message)])


def _body(response: object) -> object:
    if isinstance(response, openai.BaseModel):
        return response.model_dump(warnings=False)
    return response


def read_completion(body: object, *, echo: bool = False) -> AIMessage:
    """Read a chat completion's JSON into a message without reasoning text (kept aside when ``echo``).

    Broken tool arguments become invalid tool calls with the raw text. Usage lies in ``usage_metadata``.
    Raises BadAnswer, or ServiceSaid when the body holds an error.
    """
    if isinstance(body, str):
        raise BadAnswer("服务返回的是网页，不是 JSON" if "<" in body[:200] else "服务返回的不是 JSON")
    try:
        completion = _Completion.model_validate(body)
    except ValidationError as error:
        raise BadAnswer(f"服务返回的结果缺少内容或格式不对（{error.error_count()} 处）") from error
    if completion.error and not completion.choices:
        raise ServiceSaid(words_of(completion.error))
    if not completion.choices:
        raise BadAnswer("服务返回的结果里没有 choices")
    message = completion.choices[0].message
    calls, broken = _tool_calls(message.tool_calls or [])
    thoughts = _text(message.reasoning_content) or _text(message.reasoning)
    return AIMessage(
        content=strip_reasoning(_text(message.content)),
        tool_calls=calls,
        invalid_tool_calls=broken,
        additional_kwargs={REASONING: thoughts} if echo and thoughts else {},
        usage_metadata=_counted(_usage(completion.usage)),
    )


def _usage(raw: JsonValue) -> Usage:
    """Read the token counts; odd ones count as zero rather than fail the call."""
    try:
        return _Tokens.model_validate(raw or {}).usage()
    except ValidationError:
        return Usage()


def _counted(usage: Usage) -> UsageMetadata:
    return UsageMetadata(
        input_tokens=usage.prompt_tokens,
        output_tokens=usage.completion_tokens,
        total_tokens=usage.prompt_tokens + usage.completion_tokens,
        input_token_details=InputTokenDetails(cache_read=usage.cached_tokens),
    )


def usage_of(message: AIMessage) -> Usage:
    """Read the tokens of a message that ``read_completion`` made."""
    counted = message.usage_metadata
    if counted is None:
        return Usage()
    cached = counted.get("input_token_details", {}).get("cache_read", 0)
    return Usage(counted["input_tokens"], counted["output_tokens"], cached)


def words_of(error: JsonValue) -> str:
    """Find the human text in a service's error, whichever way it is nested."""
    if isinstance(error, str):
        return error
    if isinstance(error, dict):
        for key in ("message", "error", "detail", "msg", "error_msg"):
            if error.get(key):
                return words_of(error[key])
    return json.dumps(error, ensure_ascii=False)


def _text(content: JsonValue) -> str:
    """Join content parts; a part that is not text has nothing to say here."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    parts = [part.get("text") for part in content if isinstance(part, dict) and part.get("type") in {None, "text"}]
    return "".join(part for part in parts if isinstance(part, str))


def _tool_calls(raw: list[_Call]) -> tuple[list[ToolCall], list[InvalidToolCall]]:
    """Split tool calls into those with an object as arguments and the broken ones, raw. Ids are made unique."""
    ids = Counter(str(call.id) for call in raw)
    good: list[ToolCall] = []
    broken: list[InvalidToolCall] = []
    for call in raw:
        call_id = str(call.id) if call.id and ids[str(call.id)] == 1 else f"call_{uuid4().hex}"
        name = call.function.name
        arguments = call.function.arguments
        parsed = _parsed(arguments) if isinstance(arguments, str) else arguments or {}
        if parsed is None and isinstance(arguments, str) and "<" in arguments:
            arguments = strip_reasoning(arguments)
            parsed = _parsed(arguments)
        if isinstance(parsed, dict):
            good.append(
                ToolCall(name=name, args={key: _unthought(value) for key, value in parsed.items()}, id=call_id, type="tool_call")
            )
        else:
            text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
            broken.append(InvalidToolCall(name=name, args=text, id=call_id, error="参数不是 JSON 对象", type="invalid_tool_call"))
    return good, broken


def _parsed(arguments: str) -> JsonValue:
    """Parse arguments; control characters inside strings are let through, no arguments mean an empty object."""
    if not arguments.strip():
        return {}
    try:
        value: JsonValue = json.loads(arguments, strict=False)
    except (ValueError, RecursionError):
        return None
    return {} if value is None else value


def _unthought(value: JsonValue, depth: int = 1) -> JsonValue:
    """Drop reasoning from a text, and from texts inside a wrapper."""
    if isinstance(value, str):
        return strip_reasoning(value) if "<" in value else value
    if isinstance(value, dict) and depth:
        return {key: _unthought(inner, depth - 1) for key, inner in value.items()}
    return value


def joined(messages: Sequence[BaseMessage]) -> list[BaseMessage]:
    """Join a user's messages that follow each other, for models that want roles to alternate. Text only."""
    result: list[BaseMessage] = []
    for message in messages:
        last = result[-1] if result else None
        if isinstance(message, HumanMessage) and isinstance(last, HumanMessage):
            result[-1] = HumanMessage(f"{last.text}\n\n{message.text}")
        else:
            result.append(message)
    return result


def request_fields(params: Params, capabilities: Capabilities) -> dict[str, Any]:
    """Spell parameters (already stripped) the way the model's service does, as keywords for ChatOpenAI."""
    fields: dict[str, Any] = {}
    if params.temperature is not None:
        fields["temperature"] = params.temperature
    if params.tools:
        fields["tools"] = [dict(tool) for tool in params.tools]
    if params.forced_tool:
        fields["tool_choice"] = {"type": "function", "function": {"name": params.forced_tool}}
    if params.parallel_tool_calls is not None:
        fields["parallel_tool_calls"] = params.parallel_tool_calls
    # Both go through extra_body: ChatOpenAI would hand a response_format to the SDK's parser, which raises on its own.
    extra: dict[str, Any] = {**_thinking(params, capabilities)}
    if params.response_format is not None:
        extra["response_format"] = params.response_format
    if extra:
        fields["extra_body"] = extra
    return fields


def _thinking(params: Params, capabilities: Capabilities) -> JsonObject:
    if params.thinking is None:
        return {}
    if capabilities.switch == "thinking":
        return {"thinking": {"type": "enabled" if params.thinking else "disabled"}}
    if capabilities.switch == "enable_thinking":
        return {"enable_thinking": params.thinking}
    if capabilities.switch == "reasoning_effort":
        return {"reasoning_effort": "medium" if params.thinking else "low"}
    return {}
