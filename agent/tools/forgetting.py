"""Forgetting the member who asks for it, and learning nothing more of them."""

from __future__ import annotations

import logging

from pydantic import Field

from agent.tools.asked import asker
from agent.tools.declaration import Label, Refused, Tool, ToolArgs, ToolContext, ToolResult
from agent.tools.wishes import Wish, asks_for
from db import forget, unlearned
from db.history import Said
from llm.lines import label

logger = logging.getLogger(__name__)


class ForgetArgs(ToolArgs):
    """Whose wish, by the message that says it."""

    label: Label = Field(description="本人的那条消息")
    mode: Wish


async def _forget_member(ctx: ToolContext, args: ForgetArgs) -> ToolResult:
    said = await asker(ctx, args.label)
    own_names = {line.sender_name for line in ctx.snapshot.lines if line.is_self}
    if not asks_for(said.text, args.mode, own_names.union(ctx.snapshot.names)):
        raise Refused(f"{label(args.label)} 没有明说“{args.mode}我”。请本人直接说，或者发 /群友 {args.mode}我。")
    result = await _carry_out(ctx, said, args.mode)
    logger.info("第 %s 轮应 %d 自己的要求：%s", ctx.snapshot.request.turn_id, said.sender_id, args.mode)
    return ToolResult(result)


async def _carry_out(ctx: ToolContext, said: Said, wish: Wish) -> str:
    where = ctx.snapshot.request.conversation.id
    async with ctx.database.transaction() as conn:
        match wish:
            case "忘记":
                gone = await forget.member(conn, where, said.sender_id)
                return f"忘了：清空 {gone.messages} 条消息，删除 {gone.memories} 条记忆。别再提对方以前的话。"
            case "别记":
                await unlearned.set(conn, where, said.sender_id)
                return "好，以后不记对方的事；以前记下的还在，要删就说忘记我。"
            case "可以记":
                await unlearned.clear(conn, where, said.sender_id)
                return "好，以后又可以记对方的事了。"


FORGET = Tool("forgetMember", "本人要求时忘记、别记或恢复", ForgetArgs, "write", _forget_member)
