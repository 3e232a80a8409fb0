"""Topics that a snapshot touches, for the prompt of a turn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from psycopg.rows import class_row

from db.learned_models import KnownTopic, TopicId
from db.models import ConversationId
from db.pool import Connection
from db.text_query import read_query

MOST = 3
LOOKED = 150
"""Latest topics of a conversation that a text may recall."""
WORDS = 48
"""Words of the text that count."""
ENOUGH_WORDS = 2
"""Words that a topic must share with the text to be recalled by it; one is enough where it is rare."""
RARE = 50
"""A word is rare that stands in fewer than one of so many texts."""


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
    query = read_query(0, text)
    words = [term for term in query.terms if term.word][:WORDS] if query else []
    async with conn.cursor(row_factory=class_row(_Row)) as cur:
        await cur.execute(
            """
            WITH stats AS (
                SELECT coalesce(max(documents), 1)::float8 AS documents FROM search_stats
            ), words AS (
                SELECT w.needle, ln(1 + s.documents / (1 + coalesce(t.df, 0))) AS weight,
                       coalesce(t.df, 0) * %(rare)s < s.documents AS rare
                FROM unnest(%(words)s::text[], %(needles)s::text[]) AS w (word, needle)
                CROSS JOIN stats s
                LEFT JOIN search_terms t ON t.term = w.word
            ), answered AS (
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
                SELECT CASE WHEN count(*) >= %(enough)s OR bool_or(w.rare) THEN sum(w.weight) END AS weight
                FROM words w
                WHERE strpos(s.search, w.needle) > 0
            ) AS r
            ORDER BY a.pos DESC NULLS LAST, r.weight DESC NULLS LAST, t.last_pos DESC, t.id DESC
            LIMIT %(limit)s
            """,
            {
                "conversation": conversation_id,
                "quoted": list(quoted),
                "words": [term.text for term in words],
                "needles": [term.needle for term in words],
                "looked": LOOKED,
                "rare": RARE,
                "enough": ENOUGH_WORDS,
                "limit": limit,
            },
        )
        found = await cur.fetchall()
    return [KnownTopic(row.id, row.title, row.gist, tuple(row.participants), tuple(row.open_loops), row.last_at) for row in found]
