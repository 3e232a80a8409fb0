"""Looking for what was said, beyond what the prompt shows."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated

from pydantic import AfterValidator, Field

from agent.tools.declaration import Refused, Tool, ToolArgs, ToolContext, ToolResult
from agent.tools.subjects import read_subject
from db.history import Line
from db.message_search import HITS, MessageHit, MessageQuery
from db.timewords import TimeRange, read_when
from llm.hygiene import one_line
from llm.lines import clock, render_line

PAGE = 5
MOST_PAGES = 20
RESULT_CHARS = 1600
LINE_CHARS = 160
NEIGHBOUR_CHARS = 60
QUERY_CHARS = 200


def _page(page: int) -> int:
    return min(max(page, 1), MOST_PAGES)


class MessagesArgs(ToolArgs):
    """What was said, by whom, when."""

    query: str = ""
    sender: str = Field("", description="成员号")
    when: str = Field("", description="如 昨天/上周三/三月")
    page: Annotated[int, AfterValidator(_page)] = 1


async def _search(ctx: ToolContext, args: MessagesArgs) -> ToolResult:
    query = one_line(args.query)[:QUERY_CHARS]
    when = _when(ctx, args.when)
    senders = (await _sender(ctx, args.sender),) if args.sender.strip() else ()
    if not query and when is None and not senders:
        return ToolResult("query、sender、when 至少写一个。", ok=False)
    found = await ctx.search.search(
        MessageQuery(
            conversation_ids=(ctx.snapshot.request.conversation.id,),
            text=query,
            sender_ids=senders,
            when=when,
            limit=HITS,
            offset=(args.page - 1) * PAGE,
            before_pos=ctx.ledger.shown_pos + 1,
        )
    )
    # Who asks for something says its words: the question is no answer while there are others.
    owed = set(ctx.snapshot.owed)
    hits = [hit for hit in found if hit.line.pos not in owed] or found
    if not hits:
        return ToolResult("没有找到。" if args.page == 1 else "没有更多了。")
    told = _told(ctx, hits[:PAGE])
    return ToolResult(f"{told}\n（还有，page={args.page + 1}）" if len(hits) > PAGE else told)


def _when(ctx: ToolContext, text: str) -> TimeRange | None:
    """Read ``when``; a time in the query's own words is the search's affair. Raises Refused."""
    if not text.strip():
        return None
    when = read_when(text[:QUERY_CHARS], ctx.clock(), ctx.snapshot.zone)
    if when is None:
        raise Refused(f"看不懂时间“{one_line(text)[:20]}”，可以写 昨天、上周三、三月、2026-03-05。")
    return when


async def _sender(ctx: ToolContext, token: str) -> int:
    subject = await read_subject(ctx, token)
    if subject.kind == "group":
        raise Refused("sender 是说话的人，写成员号。")
    return ctx.snapshot.request.account_id if subject.kind == "bot" else subject.user_id


def _told(ctx: ToolContext, hits: Sequence[MessageHit]) -> str:
    """Tell each hit, and what stands around it, indented, while there is room. What is told counts as shown."""
    lines = [_hit(ctx, hit.line) for hit in hits]
    room = RESULT_CHARS - sum(len(line) + 1 for line in lines)
    told: list[str] = []
    shown = {hit.line.pos for hit in hits}
    for hit, line in zip(hits, lines, strict=True):
        before = [_neighbour(ctx, item) for item in hit.before]
        after = [_neighbour(ctx, item) for item in hit.after]
        length = sum(len(text) + 1 for text in (*before, *after))
        if length > room:
            told.append(line)
            continue
        room -= length
        told += [*before, line, *after]
        shown.update(item.pos for item in (*hit.before, *hit.after))
    ctx.ledger.shown |= shown
    return "\n".join(told)


def _hit(ctx: ToolContext, line: Line) -> str:
    return render_line(line, _day_clock(ctx, line.sent_at), limit=LINE_CHARS)


def _neighbour(ctx: ToolContext, line: Line) -> str:
    return "  " + render_line(line, clock(line.sent_at, ctx.snapshot.zone), limit=NEIGHBOUR_CHARS)


def _day_clock(ctx: ToolContext, moment: datetime) -> str:
    return f"{moment.astimezone(ctx.snapshot.zone):%Y-%m-%d %H:%M}"


SEARCH_MESSAGES = Tool("searchMessages", "搜以前的聊天", MessagesArgs, "read", _search)
