"""Runs the tool calls of one reply: in order, one at a time, repeats skipped, every failure a result to read."""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from langchain_core.messages import AIMessage, ToolCall, ToolMessage

from agent.ports import PlatformError
from agent.recorder import Step, TurnRecorder
from agent.tools.coerce import ArgumentsBroken, encodable, parse_arguments, scrubbed
from agent.tools.declaration import MAX_ACTS, AnyTool, CannotSpeak, Outcome, Prepared, Refused, ToolContext, ToolResult
from agent.tools.registry import Toolbox
from db.models import Json

logger = logging.getLogger(__name__)

MAX_CALLS = 8
"""Calls of one reply that are run; more are answered with a refusal."""
RESULT_CHARS = 1800
# Services refuse a request whose history calls tools by other names.
_NAME = re.compile(r"[^\w-]", re.ASCII)


@dataclass(frozen=True, slots=True)
class Call:
    """One call as the model made it. ``broken`` says why its arguments could not be read."""

    id: str
    name: str
    raw: Json
    broken: str | None = None


@dataclass(frozen=True, slots=True)
class Acted:
    """The results of a reply's calls, and how they end the turn, if they do."""

    messages: tuple[ToolMessage, ...]
    ends: Outcome | None


def read_calls(message: AIMessage, used: int) -> tuple[AIMessage, list[Call]]:
    """Take the calls out of a reply, broken ones mended where that is safe.

    The returned message is fit to be sent back: every call has its own id and arguments that are an object.
    ``used`` counts the calls of earlier replies, for ids.
    """
    found: list[tuple[str | None, str, Json]] = [
        (call["id"], call["name"], cast(Json, call["args"])) for call in message.tool_calls
    ]
    found += [(bad["id"], bad["name"] or "", bad["args"] or "") for bad in message.invalid_tool_calls]
    calls: list[Call] = []
    taken: set[str] = set()
    for given, name, raw in found:
        identity = given if given and given not in taken else f"call_{used + len(calls) + 1}"
        taken.add(identity)
        calls.append(_readable(identity, encodable(name), raw))
    echoed = [
        ToolCall(
            name=_NAME.sub("_", call.name)[:64] or "unknown",
            args=dict(call.raw) if isinstance(call.raw, dict) else {},
            id=call.id,
        )
        for call in calls
    ]
    # Services refuse an assistant's message that neither says nor calls anything.
    said = encodable(message.text) or ("" if calls else "（空）")
    return message.model_copy(update={"content": said, "tool_calls": echoed, "invalid_tool_calls": []}), calls


def _readable(identity: str, name: str, raw: Json) -> Call:
    if not isinstance(raw, str):
        return Call(identity, name, scrubbed(raw))
    try:
        return Call(identity, name, scrubbed(parse_arguments(raw)))
    except ArgumentsBroken as error:
        return Call(identity, name, raw, broken=str(error))


async def run_calls(ctx: ToolContext, toolbox: Toolbox, recorder: TurnRecorder, calls: Sequence[Call]) -> Acted:
    """Run calls in order. An ending call lets the rest of its reply run, unless it ends at once. Raises CannotSpeak."""
    messages: list[ToolMessage] = []
    ends: Outcome | None = None
    for number, call in enumerate(calls):
        with recorder.step("tool", call.name or "unknown") as step:
            if number >= MAX_CALLS:
                result = ToolResult(f"一次最多 {MAX_CALLS} 个调用，这个没有执行。", ok=False)
            else:
                result = await _run_call(ctx, toolbox, call, step)
            step.result, step.ok = result.text, result.ok
        messages.append(ToolMessage(content=result.text[:RESULT_CHARS], tool_call_id=call.id, name=call.name or "unknown"))
        ends = result.ends if result.ends == "spoke" else ends or result.ends
        if result.at_once:
            break
    return Acted(tuple(messages), ends)


async def _run_call(ctx: ToolContext, toolbox: Toolbox, call: Call, step: Step) -> ToolResult:
    step.arguments = call.raw if isinstance(call.raw, dict) else {"raw": call.raw}
    tool = toolbox.find(call.name)
    if tool is None:
        return ToolResult(f"没有名为“{call.name[:40]}”的工具。可用：{'、'.join(toolbox.names)}。", ok=False)
    step.name = tool.name
    if call.broken is not None:
        return ToolResult(call.broken, ok=False)
    try:
        prepared = tool.prepare(call.raw)
    except ArgumentsBroken as error:
        return ToolResult(str(error), ok=False)
    step.arguments = prepared.arguments
    key = (tool.name, prepared.identity)
    if key in ctx.ledger.done and not tool.repeatable:
        return ToolResult("同样的调用这一轮已经成功过，跳过。", ends=prepared.ending)
    small_act = tool.effect == "outward" and tool.name != "speak"
    if small_act and ctx.ledger.acts >= MAX_ACTS:
        return ToolResult("这一轮的动作够多了，没有执行。", ok=False)
    result = await _guarded(ctx, tool, prepared)
    if result.ok:
        ctx.ledger.done.add(key)
        ctx.ledger.acts += small_act
    return result


async def _guarded(ctx: ToolContext, tool: AnyTool, prepared: Prepared) -> ToolResult:
    """Run at the tool boundary: what goes wrong inside becomes a result."""
    try:
        return await prepared.run(ctx)
    except CannotSpeak:
        raise
    except Refused as refusal:
        return ToolResult(str(refusal), ok=False)
    except PlatformError as error:
        return ToolResult(f"没有成功：{str(error)[:200]}", ok=False)
    except Exception:
        turn = ctx.snapshot.request.turn_id
        logger.exception("第 %s 轮执行工具 %s 时出错", turn, tool.name)
        if tool.effect == "outward":
            return ToolResult("出错了，可能已经生效，不要重试。", ok=False, ends="quiet", at_once=True)
        return ToolResult("工具出错了，没有结果。", ok=False)
