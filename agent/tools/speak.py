"""The two acts that end a turn: speaking and staying quiet."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from agent.ports import Delivery, Draft
from agent.tools.cleaning import clean_reply, repeats
from agent.tools.declaration import (
    GROUP_ONLY,
    MAX_SPOKEN,
    PRIVATE_ONLY,
    CannotSpeak,
    OptionalLabel,
    Outcome,
    Tool,
    ToolArgs,
    ToolContext,
    ToolResult,
)
from agent.tools.members import resolve
from db.pool import DatabaseUnavailable
from llm.lines import label, speaker


def _folded(value: object) -> object:
    return (value.strip().lower() or "end") if isinstance(value, str) else value


Then = Annotated[Literal["end", "continue"], BeforeValidator(_folded)]


class PrivateSpeakArgs(ToolArgs):
    """What to say to a friend."""

    content: str = Field(description="要发的话")
    reply_to: OptionalLabel = Field(None, description="要引用的消息编号")
    then: Then = Field("end", description="end 说完结束，continue 还要继续")

    def identity(self) -> str:
        """The same words again are the same call, whatever should come after them."""
        return self.model_dump_json(exclude={"then"})

    def ending(self) -> Outcome | None:
        """Saying something ends the turn unless it goes on."""
        return "spoke" if self.then == "end" else None


class SpeakArgs(PrivateSpeakArgs):
    """What to say in a group."""

    mentions: list[str] = Field(default_factory=list[str], description="要 @ 的成员号")


class StayQuietArgs(ToolArgs):
    """Why nothing is said."""

    reason: str = ""


async def _speak(ctx: ToolContext, args: PrivateSpeakArgs) -> ToolResult:
    ledger = ctx.ledger
    if ledger.spoken >= MAX_SPOKEN:
        return ToolResult(f"这一轮已经发了 {MAX_SPOKEN} 条，不能再发。", ok=False, ends="spoke", at_once=True)
    text = clean_reply(args.content, (speaker(line) for line in ctx.snapshot.people().values()))
    if not text:
        return ToolResult("内容是空的，没有发出。", ok=False)
    if repeats(text, [*(own.text for own in ctx.snapshot.rows.own), *ledger.said]):
        return ToolResult("这句话和你刚说过的几乎一样，没有发出。换个说法，或者 stayQuiet。", ok=False)
    notes: list[str] = []
    reply_to = args.reply_to
    if reply_to is not None and reply_to not in ledger.shown:
        notes.append(f"没有看到过编号 {label(reply_to)}，没有引用")
        reply_to = None
    mentions: tuple[int, ...] = ()
    if isinstance(args, SpeakArgs) and args.mentions:
        resolved = await resolve(ctx, args.mentions)
        mentions = resolved.user_ids
        notes += resolved.notes
    try:
        delivery = await ctx.snapshot.request.platform.send(Draft(text=text, reply_to=reply_to, mentions=mentions))
    except DatabaseUnavailable as error:  # before it left: the call stays owed
        raise CannotSpeak("数据库暂时不可用") from error
    return _delivered(ctx, delivery, text, args.then == "end", notes)


def _delivered(ctx: ToolContext, delivery: Delivery, text: str, end: bool, notes: list[str]) -> ToolResult:
    ledger = ctx.ledger
    if delivery.status == "refused" and delivery.reason in ("removed", "muted", "offline"):
        raise CannotSpeak(_why(delivery))
    if delivery.status == "refused":
        return ToolResult(f"QQ 拒绝了这条消息：{_why(delivery)}。可以换个说法再试，或者 stayQuiet。", ok=False)
    if delivery.status == "cancelled":
        return ToolResult("发送被取消了，没有发出。", ok=False, ends="quiet", at_once=True)
    ledger.spoken += 1
    ledger.said.append(text)
    if delivery.status == "unknown":
        return ToolResult("没有收到确认，可能已经发出，不要重发。", ok=False, ends="spoke", at_once=True)
    if delivery.pos is not None:
        ledger.shown.add(delivery.pos)
    if delivery.dropped_mentions:
        notes.append(f"QQ 不认识 {'、'.join(map(str, delivery.dropped_mentions))}，没有 @")
    told = "已发送" if delivery.pos is None else f"已发送 {label(delivery.pos)}"
    full = ledger.spoken >= MAX_SPOKEN
    return ToolResult("；".join([told, *notes]), ends="spoke" if end or full else None)


_REASONS = {
    "removed": "已经不在这个群里",
    "muted": "正在被禁言",
    "offline": "QQ 账号离线",
    "rich_media": "富媒体上传失败",
    "unknown_user": "找不到这个人",
    "unconfirmed": "没有确认",
    "other": "",
}


def _why(delivery: Delivery) -> str:
    known = "" if delivery.reason is None else _REASONS[delivery.reason]
    return known or delivery.detail[:100] or "没有说明"


async def _stay_quiet(ctx: ToolContext, args: StayQuietArgs) -> ToolResult:
    return ToolResult("好，这轮不说话。", ends="quiet", at_once=True)


SPEAK = Tool("speak", "发一条消息", SpeakArgs, "outward", _speak, GROUP_ONLY)
PRIVATE_SPEAK = Tool("speak", "发一条消息", PrivateSpeakArgs, "outward", _speak, PRIVATE_ONLY)
STAY_QUIET = Tool("stayQuiet", "这轮不说话，立刻结束", StayQuietArgs, "read", _stay_quiet)
