"""Small acts on messages: reacting, and taking an own one back."""

from __future__ import annotations

from datetime import timedelta

from pydantic import Field

from agent.tools.declaration import GROUP_ONLY, Label, Tool, ToolArgs, ToolContext, ToolResult
from db.history import own_message_at
from llm.lines import label

WITHDRAW_WITHIN = timedelta(minutes=2)

REACTIONS = {
    "赞": "76",
    "好的": "124",
    "爱心": "66",
    "比心": "319",
    "鼓掌": "99",
    "笑哭": "182",
    "呲牙": "13",
    "捂脸": "264",
    "吃瓜": "271",
    "狗头": "179",
    "疑问": "32",
    "流泪": "5",
    "拥抱": "49",
    "拜谢": "297",
    "牛啊": "299",
    "崇拜": "318",
    "庆祝": "320",
    "加油": "315",
    "玫瑰": "63",
    "再见": "39",
}
"""Reactions by name, with QQ's emoji ids."""
_SYNONYMS = {
    "点赞": "赞",
    "👍": "赞",
    "ok": "好的",
    "doge": "狗头",
    "❤": "爱心",
    "❤️": "爱心",
    "?": "疑问",
    "？": "疑问",
    "👏": "鼓掌",
}


class ReactArgs(ToolArgs):
    """Which reaction on which message."""

    label: Label = Field(description="消息编号")
    reaction: str = Field(description="/".join(REACTIONS))


class WithdrawArgs(ToolArgs):
    """Which own message to take back."""

    label: Label


async def _react(ctx: ToolContext, args: ReactArgs) -> ToolResult:
    name = args.reaction.strip().strip("[]/").lower()
    emoji = REACTIONS.get(_SYNONYMS.get(name, name))
    if emoji is None:
        return ToolResult(f"没有这个表情，可用：{'、'.join(REACTIONS)}。", ok=False)
    if args.label not in ctx.ledger.shown:
        return ToolResult(f"没有看到过编号 {label(args.label)}。", ok=False)
    await ctx.snapshot.request.platform.react(args.label, emoji)
    return ToolResult("贴好了。")


async def _withdraw(ctx: ToolContext, args: WithdrawArgs) -> ToolResult:
    async with ctx.database.connection() as conn:
        sent_at = await own_message_at(conn, ctx.snapshot.request.conversation.id, args.label)
    if sent_at is None:
        return ToolResult(f"{label(args.label)} 不是你发的消息，或者已经撤回。", ok=False)
    if ctx.clock() - sent_at > WITHDRAW_WITHIN:
        return ToolResult("发出超过两分钟，撤不回了。", ok=False)
    await ctx.snapshot.request.platform.withdraw(args.label)
    return ToolResult("已撤回。")


REACT = Tool("reactToMessage", "给消息贴表情", ReactArgs, "outward", _react, GROUP_ONLY)
WITHDRAW = Tool("withdrawMessage", "撤回自己两分钟内的消息", WithdrawArgs, "outward", _withdraw)
