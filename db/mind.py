"""What the bot brings to a turn beside the messages: whether it remembers anything, its note, its mood, whom it likes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from psycopg.rows import class_row

from db import moods
from db.intimacy import Liking, score_now
from db.models import ConversationId
from db.moods import REST, Mood
from db.pool import Connection


@dataclass(frozen=True, slots=True)
class Mind:
    """``remembers``: the conversation has an active memory. ``liking`` holds scores by QQ number."""

    remembers: bool = False
    note: str = ""
    mood: Mood = REST
    liking: Mapping[int, float] = field(default_factory=dict[int, float])


@dataclass(frozen=True, slots=True)
class _Row:
    remembers: bool
    note: str
    valence: float
    energy: float
    sociability: float
    felt_at: datetime


async def read_mind(conn: Connection, conversation_id: ConversationId, users: Sequence[int], now: datetime) -> Mind:
    """Read it in one round trip; ``users`` are those whose liking matters."""
    async with (
        conn.pipeline(),
        conn.cursor(row_factory=class_row(_Row)) as mind,
        conn.cursor(row_factory=class_row(Liking)) as liking,
    ):
        await mind.execute(
            """
            SELECT EXISTS (SELECT FROM memories m
                           WHERE m.conversation_id = %(conversation)s AND m.status = 'active') AS remembers,
                   coalesce((SELECT n.content FROM notes n WHERE n.conversation_id = %(conversation)s), '') AS note,
                   coalesce(d.valence, 0) AS valence, coalesce(d.energy, 0) AS energy,
                   coalesce(d.sociability, 0) AS sociability, coalesce(d.updated_at, %(now)s) AS felt_at
            FROM (SELECT 1) AS one
            LEFT JOIN moods d ON d.conversation_id = %(conversation)s
            """,
            {"conversation": conversation_id, "now": now},
        )
        await liking.execute(
            """
            SELECT user_id, score, updated_at
            FROM intimacy
            WHERE conversation_id = %(conversation)s AND user_id = ANY(%(users)s::bigint[])
            """,
            {"conversation": conversation_id, "users": list(users)},
        )
        row = await mind.fetchone()
        scores = {item.user_id: score_now(item, now) for item in await liking.fetchall()}
    if row is None:
        return Mind(liking=scores)
    felt = moods.decayed(Mood(row.valence, row.energy, row.sociability), now - row.felt_at)
    return Mind(row.remembers, row.note, felt, scores)
