"""Moving the bot's mood, and how it likes a member: small steps, once a turn."""

from __future__ import annotations

import logging
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from agent.prompt.feelings import mood_words
from agent.tools.declaration import Refused, Tool, ToolArgs, ToolContext, ToolResult
from agent.tools.subjects import one_member
from db import intimacy, moods, unlearned
from db.history import spoke_among
from db.intimacy import Change, level
from db.moods import Mood

logger = logging.getLogger(__name__)

LARGEST = 0.3
REASON_CHARS = 200

_STEPS: dict[str, intimacy.Step] = {"大升": 2, "升": 1, "降": -1, "大降": -2}
_SPELLINGS = {"2": "大升", "+2": "大升", "1": "升", "+1": "升", "-1": "降", "-2": "大降", "−1": "降", "−2": "大降"}


def _bounded(step: float) -> float:
    return min(max(step, -LARGEST), LARGEST)


def _spelled(value: object) -> object:
    """Read 2, ``+1`` or ``-2.0`` as the step's word."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, str | int) or isinstance(value, bool):
        return value
    word = str(value).strip()
    return _SPELLINGS.get(word, word)


Part = Annotated[float, AfterValidator(_bounded)]
StepWord = Annotated[Literal["大升", "升", "降", "大降"], BeforeValidator(_spelled)]


class MoodArgs(ToolArgs):
    """By how much each part of the mood moves."""

    valence: Part = Field(0.0, description="愉快", allow_inf_nan=False)
    energy: Part = Field(0.0, description="精神", allow_inf_nan=False)
    sociability: Part = Field(0.0, description="想聊", allow_inf_nan=False)
    reason: str = ""


class IntimacyArgs(ToolArgs):
    """Whom the bot likes more or less, and why."""

    member: str = Field(min_length=1)
    step: StepWord
    reason: str = Field(min_length=1)


async def _update_mood(ctx: ToolContext, args: MoodArgs) -> ToolResult:
    if ctx.ledger.felt:
        return ToolResult("这一轮已经调过心情。", ok=False)
    step = Mood(args.valence, args.energy, args.sociability)
    if step == Mood():
        return ToolResult("三项都是 0，没有变化。", ok=False)
    request = ctx.snapshot.request
    async with ctx.database.connection() as conn:
        felt = await moods.move(conn, request.conversation.id, step, ctx.clock())
    ctx.ledger.felt = True
    logger.info("第 %s 轮调整心情：%s", request.turn_id, args.reason[:REASON_CHARS] or "没有说原因")
    return ToolResult(f"现在：{mood_words(felt) or '平静'}。")


async def _update_intimacy(ctx: ToolContext, args: IntimacyArgs) -> ToolResult:
    request = ctx.snapshot.request
    user_id = await one_member(ctx, args.member)
    change = Change(request.conversation.id, user_id, request.turn_id, _STEPS[args.step], args.reason.strip()[:REASON_CHARS])
    async with ctx.database.connection() as conn:
        if not await spoke_among(conn, request.conversation.id, user_id, sorted(ctx.ledger.shown)):
            raise Refused("只能调整在眼前说过话的人。")
        if await unlearned.among(conn, request.conversation.id, [user_id]):
            raise Refused("这个人说过别记，好感也不动。")
        score = await intimacy.move(conn, change, ctx.clock())
    if score is None:
        raise Refused("这一轮已经调整过对这个人的好感。")
    return ToolResult(f"好感现在是“{level(score)}”。")


MOOD = Tool("updateMood", f"调心情，每项-{LARGEST}到{LARGEST}，每轮一次", MoodArgs, "write", _update_mood)
INTIMACY = Tool("updateIntimacy", "调对某人的好感", IntimacyArgs, "write", _update_intimacy)
