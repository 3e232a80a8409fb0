"""Structured calls: a pydantic schema becomes a request, and an answer becomes an instance or one repair. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar, cast

import json_repair
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage
from pydantic import BaseModel, JsonValue, ValidationError

from db.models import Json, JsonObject
from llm.types import Params, Prompt, StructuredMode

T = TypeVar("T", bound=BaseModel)

TASK_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
MAX_ECHO = 4000
MAX_PROBLEMS = 8
MAX_MENDED = 200_000
"""Characters of an answer that mending is tried on."""
_UNSTORABLE = re.compile("[\0\ud800-\udfff]")
_FENCED = re.compile(r"```[\w-]*\s*\n?(.*?)```", re.DOTALL)
# Services that check schemas strictly know none of these; pydantic checks them afterwards.
_DROPPED = {"title", "default", "examples", "minLength", "maxLength", "uniqueItems", "discriminator", "deprecated"}


class Unfit(ValueError):
    """An answer does not fit its schema. The text says where, in Chinese, without quoting the answer."""


@dataclass(frozen=True, slots=True)
class StructuredCall:
    """One structured request: the task names the schema everywhere a service can see it. Make it with ``plan``."""

    task: str
    mode: StructuredMode
    schema: JsonObject
    strict: bool

    def params(self, base: Params) -> Params:
        """Say in the request's parameters that the schema must be filled."""
        if self.mode == "json_object":
            return _with(base, response_format={"type": "json_object"})
        if self.mode == "json_schema":
            form: JsonObject = {"name": self.task, "schema": self.schema, "strict": self.strict}
            return _with(base, response_format={"type": "json_schema", "json_schema": form})
        function: JsonObject = {"name": self.task, "description": "提交结果", "parameters": self.schema, "strict": self.strict}
        return Params(
            role=base.role,
            temperature=base.temperature,
            thinking=base.thinking,
            tools=({"type": "function", "function": function},),
            forced_tool=self.task,
            parallel_tool_calls=False,
        )

    def messages(self, prompt: Sequence[Prompt]) -> list[BaseMessage]:
        """Write the prompt as messages; how to answer goes behind the system text, so that the prefix is stable."""
        systems = [part.text for part in prompt if part.role == "system"]
        if self.mode == "json_object":
            systems.append(self._instruction())
        if self.mode == "tool":
            systems.append(f"用工具 {self.task} 提交结果，不要写别的。")
        users = [HumanMessage(part.text) for part in prompt if part.role == "user"]
        return [SystemMessage("\n\n".join(systems)), *users] if systems else [*users]

    def repair(self, answer: AIMessage, problem: str) -> list[BaseMessage]:
        """Show the model its own answer and what is wrong with it."""
        ask = f"上面的结果不合格：{problem}\n请只改正这些问题，重新给出完整结果。\n{self._instruction()}"
        return [AIMessage(_shown(answer) or "（空）"), HumanMessage(ask)]

    def _instruction(self) -> str:
        schema = json.dumps(self.schema, ensure_ascii=False, separators=(",", ":"))
        return f"任务 {self.task}：只输出一个 JSON 对象，不要解释，不要代码块。它必须符合这个 JSON Schema：\n{schema}"

    def read(self, answer: AIMessage, schema: type[T]) -> T:
        """Make an instance of the answer, from the tool call or the text. Raises Unfit."""
        given = next((call["args"] for call in answer.tool_calls if call["name"] == self.task), None)
        value = None if given is None else _storable(given)
        if value is None and answer.invalid_tool_calls:
            value = parse_object(answer.invalid_tool_calls[0]["args"] or "")
        if value is None:
            value = parse_object(answer.text)
        try:
            return schema.model_validate(value)
        except ValidationError as error:
            raise Unfit(_problems(error)) from error


def plan(task: str, schema: type[BaseModel], mode: StructuredMode) -> StructuredCall:
    """Prepare a structured call. Raises ValueError for a task name that services refuse as a schema's name."""
    if TASK_NAME.fullmatch(task) is None:
        raise ValueError(f"task name {task!r} must match {TASK_NAME.pattern}")
    raw: dict[str, JsonValue] = schema.model_json_schema()
    tightened, strict = _tighten(raw)
    return StructuredCall(task, mode, tightened if isinstance(tightened, Mapping) else {}, strict)


def _with(base: Params, *, response_format: JsonObject) -> Params:
    return Params(role=base.role, temperature=base.temperature, thinking=base.thinking, response_format=response_format)


def _tighten(node: JsonValue) -> tuple[Json, bool]:
    """Make every object closed with all of its properties required, as strict services ask.

    The second value is False when an object has free keys, which strict mode cannot express.
    """
    if isinstance(node, list):
        pairs = [_tighten(item) for item in node]
        return [item for item, _ in pairs], all(strict for _, strict in pairs)
    if not isinstance(node, dict):
        return node, True
    result: dict[str, Json] = {}
    strict = True
    for key, value in node.items():
        if key in {"properties", "$defs"} and isinstance(value, dict):
            # Names here are the caller's own: a property may be called title.
            named = {name: _tighten(inner) for name, inner in value.items()}
            result[key] = {name: inner for name, (inner, _) in named.items()}
            strict = strict and all(fits for _, fits in named.values())
        elif key not in _DROPPED:
            result[key], fits = _tighten(value)
            strict = strict and fits
    if node.get("type") == "object":
        properties = node.get("properties")
        if not isinstance(properties, dict) or node.get("additionalProperties"):
            return result, False
        result["additionalProperties"] = False
        result["required"] = list(properties)
    return result, strict


def parse_object(text: str) -> dict[str, JsonValue]:
    """Find the JSON object in a text, with or without a code fence or words around it. Raises Unfit.

    What is only written badly (quotes, commas, comments, Python's words) is mended; what was cut off is not, since its end
    would be lost without a word.
    """
    fenced = _FENCED.search(text)
    candidates = [text.strip(), *([fenced.group(1).strip()] if fenced else []), text[text.find("{") : text.rfind("}") + 1]]
    for read in (_strictly, _mending):
        for candidate in candidates:
            value = read(candidate)
            if isinstance(value, dict):
                return {key: _storable(inner) for key, inner in value.items()}
    raise Unfit("没有给出一个完整的 JSON 对象")


def _strictly(text: str) -> JsonValue:
    try:
        return json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return None


def _mending(text: str) -> JsonValue:
    whole = all(text.count(opening) == text.count(closing) for opening, closing in ("{}", "[]"))
    if not whole or not text.startswith("{") or len(text) > MAX_MENDED:
        return None
    try:
        return cast("JsonValue", json_repair.loads(text))
    except (ValueError, RecursionError):
        return None


def _storable(value: JsonValue) -> JsonValue:
    """Replace what no database takes: lone surrogates and NUL."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode().replace("\0", "�") if _UNSTORABLE.search(value) else value
    if isinstance(value, list):
        return [_storable(inner) for inner in value]
    return {key: _storable(inner) for key, inner in value.items()} if isinstance(value, dict) else value


def _problems(error: ValidationError) -> str:
    found = error.errors(include_url=False, include_input=False, include_context=False)
    lines = [f"{'.'.join(str(part) for part in item['loc']) or '整体'}：{item['msg']}" for item in found[:MAX_PROBLEMS]]
    more = f"；另有 {len(found) - MAX_PROBLEMS} 处" if len(found) > MAX_PROBLEMS else ""
    return "；".join(lines) + more


def _shown(answer: AIMessage) -> str:
    """The answer as text, bounded: a tool call reads as its arguments."""
    if answer.tool_calls:
        text = json.dumps(answer.tool_calls[0]["args"], ensure_ascii=False)
    elif answer.invalid_tool_calls:
        text = answer.invalid_tool_calls[0]["args"] or ""
    else:
        text = answer.text
    return text[:MAX_ECHO]
