"""How much the bot likes each member of a conversation: a score that returns to the middle slowly, and its levels."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from psycopg.errors import UniqueViolation
from psycopg.rows import scalar_row

from db.models import ConversationId, TurnId
from db.pool import Connection

HALF_LIFE = timedelta(days=30)
"""After this long, half of a score is left."""
LIMIT = 100.0

Step = Literal[-2, -1, 1, 2]
POINTS: dict[Step, float] = {-2: -10.0, -1: -4.0, 1: 4.0, 2: 10.0}
"""What a step is worth."""

Level = Literal["反感", "冷淡", "普通", "熟悉", "亲近", "要好"]
MIDDLE: Level = "普通"
_LEVELS: tuple[tuple[float, Level], ...] = ((-40, "反感"), (-8, "冷淡"), (8, "普通"), (30, "熟悉"), (60, "亲近"))
"""Each level ends below its number; above the last one it is 要好."""


@dataclass(frozen=True, slots=True)
class Liking:
    """A member's score as it was stored."""

    user_id: int
    score: float
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class Change:
    """One step for one member in one turn; ``reason`` has at most 200 characters."""

    conversation_id: ConversationId
    user_id: int
    turn_id: TurnId
    step: Step
    reason: str


def decayed(score: float, elapsed: timedelta) -> float:
    """What is left of a score after some time."""
    return score * 0.5 ** (max(elapsed, timedelta()) / HALF_LIFE)


def level(score: float) -> Level:
    """Name a score."""
    for below, name in _LEVELS:
        if score < below:
            return name
    return "要好"


def score_now(liking: Liking, now: datetime) -> float:
    """A stored score as it is now."""
    return decayed(liking.score, now - liking.updated_at)


async def move(conn: Connection, change: Change, now: datetime) -> float | None:
    """Make a step and log it; returns the score after it. None: this turn already made one for this member."""
    try:
        async with conn.cursor(row_factory=scalar_row) as cur:
            await cur.execute(
                """
                WITH moved AS (
                    INSERT INTO intimacy AS i (conversation_id, user_id, score, updated_at)
                    SELECT %(conversation)s::bigint, %(user)s::bigint, %(points)s::float8, %(now)s::timestamptz
                    WHERE NOT EXISTS (SELECT FROM intimacy_log WHERE turn_id = %(turn)s AND user_id = %(user)s)
                    ON CONFLICT (conversation_id, user_id) DO UPDATE
                    SET score = greatest(-%(limit)s::float8, least(%(limit)s::float8, excluded.score + i.score * power(
                            0.5::float8,
                            greatest(0, extract(epoch FROM excluded.updated_at - i.updated_at)::float8) / %(half_life)s::float8
                        ))),
                        updated_at = greatest(i.updated_at, excluded.updated_at)
                    RETURNING score
                )
                INSERT INTO intimacy_log (conversation_id, user_id, turn_id, step, reason, score, at)
                SELECT %(conversation)s, %(user)s, %(turn)s, %(step)s, %(reason)s, moved.score, %(now)s
                FROM moved
                RETURNING score
                """,
                {
                    "conversation": change.conversation_id,
                    "user": change.user_id,
                    "turn": change.turn_id,
                    "step": change.step,
                    "points": POINTS[change.step],
                    "limit": LIMIT,
                    "reason": change.reason,
                    "half_life": HALF_LIFE.total_seconds(),
                    "now": now,
                },
            )
            return await cur.fetchone()
    except UniqueViolation:  # the same turn made it at the same moment
        return None
