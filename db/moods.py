"""The bot's mood in each conversation: three numbers that return to rest by themselves."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from psycopg.rows import class_row

from db.models import ConversationId
from db.pool import Connection

HALF_LIFE = timedelta(hours=3)
"""After this long, half of a mood is left."""


@dataclass(frozen=True, slots=True)
class Mood:
    """Each from −1 to 1, 0 at rest: sad to glad, tired to lively, wanting to be alone to wanting company."""

    valence: float = 0.0
    energy: float = 0.0
    sociability: float = 0.0


REST = Mood()


def decayed(mood: Mood, elapsed: timedelta) -> Mood:
    """What is left of a mood after some time."""
    left = 0.5 ** (max(elapsed, timedelta()) / HALF_LIFE)
    return Mood(mood.valence * left, mood.energy * left, mood.sociability * left)


async def move(conn: Connection, conversation_id: ConversationId, step: Mood, now: datetime) -> Mood:
    """Add a step to what is left of the mood, within the bounds; returns the mood as it is then."""
    async with conn.cursor(row_factory=class_row(Mood)) as cur:
        await cur.execute(
            """
            INSERT INTO moods AS m (conversation_id, valence, energy, sociability, updated_at)
            VALUES (%(conversation)s, greatest(-1, least(1, %(valence)s::float8)), greatest(-1, least(1, %(energy)s::float8)),
                    greatest(-1, least(1, %(sociability)s::float8)), %(now)s)
            ON CONFLICT (conversation_id) DO UPDATE
            SET (valence, energy, sociability, updated_at) = (
                SELECT greatest(-1, least(1, m.valence * p.share + %(valence)s::float8)),
                       greatest(-1, least(1, m.energy * p.share + %(energy)s::float8)),
                       greatest(-1, least(1, m.sociability * p.share + %(sociability)s::float8)),
                       greatest(m.updated_at, excluded.updated_at)
                FROM (SELECT power(0.5::float8, greatest(0, extract(epoch FROM excluded.updated_at - m.updated_at)::float8)
                                                / %(half_life)s::float8) AS share) AS p
            )
            RETURNING valence, energy, sociability
            """,
            {
                "conversation": conversation_id,
                "valence": step.valence,
                "energy": step.energy,
                "sociability": step.sociability,
                "now": now,
                "half_life": HALF_LIFE.total_seconds(),
            },
        )
        mood = await cur.fetchone()
    if mood is None:
        raise LookupError(f"没有编号为 {conversation_id} 的会话")
    return mood
