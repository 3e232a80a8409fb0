"""Looking up the group's slang beyond what the prompt shows."""

from __future__ import annotations

from pydantic import Field

from agent.tools.declaration import Tool, ToolArgs, ToolContext, ToolResult
from db.slang_prompt import LookedUp, look_up
from llm.hygiene import cut, one_line

TERM_CHARS = 40
MEANING_CHARS = 120
SPELLINGS = 5


class TermArgs(ToolArgs):
    """Which term."""

    term: str = Field(min_length=1)


async def _look_up(ctx: ToolContext, args: TermArgs) -> ToolResult:
    async with ctx.database.connection() as conn:
        found = await look_up(conn, ctx.snapshot.request.conversation.id, args.term[:TERM_CHARS])
    return ToolResult("\n".join(_told(known) for known in found) if found else "没有记过这个黑话。")


def _told(known: LookedUp) -> str:
    """Tell a term on one line: ``yyds（也写 永远的神）：夸人最厉害``."""
    spellings = "、".join(one_line(variant) for variant in known.variants[:SPELLINGS])
    also = f"（也写 {spellings}）" if spellings else ""
    plain = one_line(known.meaning_plain)
    literally = f"；字面上：{cut(plain, MEANING_CHARS)}" if plain else ""
    return f"{one_line(known.term)}{also}：{cut(one_line(known.meaning), MEANING_CHARS)}{literally}"


LOOK_UP_SLANG = Tool("lookupSlang", "查黑话", TermArgs, "read", _look_up)
