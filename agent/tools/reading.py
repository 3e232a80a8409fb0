"""Reading more of the conversation than the prompt shows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from pydantic import AfterValidator, Field

from agent.prompt.volatile import OWED_MARKER
from agent.tools.declaration import NoArgs, OptionalLabel, Tool, ToolArgs, ToolContext, ToolResult
from db.history import Line, lines_after, lines_before, owed_between
from llm.lines import day_clock, label, render_line

RESULT_CHARS = 1500
LINE_CHARS = 200
MOST_LINES = 30


def _within_bounds(count: int) -> int:
    return min(max(count, 1), MOST_LINES)


class RecentArgs(ToolArgs):
    """Which older messages to read."""

    count: Annotated[int, AfterValidator(_within_bounds)] = Field(10, description="条数，最多30")
    before: OptionalLabel = Field(None, description="从这个编号往前，默认从看到的最早一条")


def _fitting(ctx: ToolContext, lines: Sequence[Line]) -> list[tuple[Line, str]]:
    """Render lines while they fit into one result, in the order given; at least one."""
    kept: list[tuple[Line, str]] = []
    spent = 0
    for line in lines:
        text = render_line(line, day_clock(line.sent_at, ctx.snapshot.zone), limit=LINE_CHARS)
        spent += len(text) + 1
        if kept and spent > RESULT_CHARS:
            break
        kept.append((line, text))
    return kept


async def _recent(ctx: ToolContext, args: RecentArgs) -> ToolResult:
    conversation = ctx.snapshot.request.conversation.id
    before = args.before or ctx.ledger.oldest
    async with ctx.database.connection() as conn:
        lines = await lines_before(conn, conversation, before=min(before, ctx.snapshot.last_pos + 1), limit=args.count)
    kept = _fitting(ctx, list(reversed(lines)))
    if not kept:
        return ToolResult(f"{label(before)} 之前没有消息了。")
    ctx.ledger.shown.update(line.pos for line, _ in kept)
    return ToolResult("\n".join(text for _, text in reversed(kept)))


async def _new(ctx: ToolContext, args: NoArgs) -> ToolResult:
    ledger = ctx.ledger
    conversation = ctx.snapshot.request.conversation.id
    async with ctx.database.connection() as conn:
        lines = await lines_after(conn, conversation, after=ledger.shown_pos, limit=MOST_LINES)
        kept = _fitting(ctx, lines)
        if not kept:
            return ToolResult("没有新消息。")
        last = kept[-1][0].pos
        owed = await owed_between(conn, conversation, after=ledger.shown_pos, until=last)
    ledger.shown_pos = last
    ledger.shown.update(line.pos for line, _ in kept)
    told = [text for _, text in kept]
    if len(kept) < len(lines):
        told.append("（还有更多，可再次调用）")
    if owed:
        told.append(OWED_MARKER + " ".join(label(call.pos) for call in owed))
    return ToolResult("\n".join(told))


RECENT = Tool("getRecentMessages", "看更早的消息", RecentArgs, "read", _recent)
NEW = Tool("getNewMessages", "看这轮开始后的新消息", NoArgs, "read", _new, repeatable=True)
