"""The working note."""

from __future__ import annotations

from pydantic import Field

from agent.tools.declaration import Tool, ToolArgs, ToolContext, ToolResult
from db import notes
from db.notes import NOTE_CHARS
from llm.hygiene import one_line


class NoteArgs(ToolArgs):
    """What to keep in mind."""

    content: str = Field("", description=f"最多{NOTE_CHARS}字，空则清除")


async def _save_note(ctx: ToolContext, args: NoteArgs) -> ToolResult:
    text = one_line(args.content)
    if len(text) > NOTE_CHARS:
        return ToolResult(f"便签有 {len(text)} 字，最多 {NOTE_CHARS} 字，没有存。", ok=False)
    where = ctx.snapshot.request.conversation.id
    async with ctx.database.connection() as conn:
        if not text:
            return ToolResult("便签清空了。" if await notes.clear(conn, where) else "便签本来就是空的。")
        await notes.write(conn, where, text, ctx.clock())
    return ToolResult("便签写好了，原来的被换掉。")


NOTE = Tool("saveNote", "重写便签", NoteArgs, "write", _save_note)
