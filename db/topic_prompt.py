"""Topics that a snapshot touches, for the prompt of a turn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from psycopg.rows import class_row

from db.fitting_words import WEIGHT, WORDS, word_values
from db.learned_models import KnownTopic, TopicId
from db.models import ConversationId
from db.pool import Connection

MOST = 3
LOOKED = 150
"""Latest topics of a conversation that a text may recall."""
MOST_WORDS = 48
"""Words of the text that count."""


@dataclass(frozen=True, slots=True)
class _Row:
    id: TopicId
    title: str
    gist: str
    participants: list[int]
    open_loops: list[str]
    last_at: datetime


async def touched(
    conn: Connection, conversation_id: ConversationId, quoted: Sequence[int], text: str, *, limit: int = MOST
) -> list[KnownTopic]:
    """Find the topics of the messages that are replied to (positions), then those that a text recalls, then the latest.

    Each with the newest version of its summary that is in use; a topic without one is left out.
    """
    words = word_values(text, MOST_WORDS)
    async with conn.cursor(row_factory=class_row(_Row)) as cur:
        await cur.execute(
            f"""
            WITH {WORDS}, answered AS (
                SELECT x.topic_id AS id, max(m.pos) AS pos
                FROM messages m
                JOIN topic_messages x ON x.message = m.id
                WHERE m.conversation_id = %(conversation)s AND m.pos = ANY(%(quoted)s::bigint[])
                GROUP BY x.topic_id
            ), near AS (
                (SELECT t.id FROM topics t
                 WHERE t.conversation_id = %(conversation)s ORDER BY t.last_pos DESC LIMIT %(looked)s)
                UNION
                SELECT id FROM answered
            )
            SELECT t.id, s.title, s.gist, s.participants, s.open_loops, t.last_at
            FROM near n
            JOIN topics t ON t.id = n.id
            CROSS JOIN LATERAL (
                SELECT s.title, s.gist, s.participants, s.open_loops, s.search FROM topic_summaries s
                WHERE s.topic_id = t.id AND s.dropped_at IS NULL ORDER BY s.version DESC LIMIT 1
            ) AS s
            LEFT JOIN answered a ON a.id = t.id
            CROSS JOIN LATERAL (
                SELECT {WEIGHT}
                FROM words w
                WHERE strpos(s.search, w.needle) > 0
            ) AS r
            ORDER BY a.pos DESC NULLS LAST, r.weight DESC NULLS LAST, t.last_pos DESC, t.id DESC
            LIMIT %(limit)s
            """,
            {
                "conversation": conversation_id,
                "quoted": list(quoted),
                **words,
                "looked": LOOKED,
                "limit": limit,
            },
        )
        found = await cur.fetchall()
    return [KnownTopic(row.id, row.title, row.gist, tuple(row.participants), tuple(row.open_loops), row.last_at) for row in found]
