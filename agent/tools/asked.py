"""Who asks for something now: rights are those of the member whose message the model names."""

from __future__ import annotations

from agent.tools.declaration import Refused, ToolContext
from db.history import Said, said_at
from llm.lines import label


async def asker(ctx: ToolContext, pos: int) -> Said:
    """Read the message that asks. Raises Refused unless a person said it, it is news of this turn, and it still stands."""
    snapshot = ctx.snapshot
    unread = {line.pos for line in snapshot.unread}
    if pos not in ctx.ledger.shown or not (pos in unread or pos > snapshot.last_pos):
        raise Refused(f"{label(pos)} 不是这一轮的新消息，不能作数。")
    async with ctx.database.connection() as conn:
        said = await said_at(conn, snapshot.request.conversation.id, pos)
    if said is None or not said.human:
        raise Refused(f"{label(pos)} 已经撤回，或者不是人说的话，不能作数。")
    return said
