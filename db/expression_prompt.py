"""Approved expressions that fit a text, for the prompt of a turn."""

from __future__ import annotations

from psycopg.rows import class_row

from db.learned_models import KnownExpression
from db.models import ConversationId
from db.pool import Connection
from db.text_query import read_query

MOST = 5
WORDS = 64
"""Words of the text that count."""
ENOUGH_WORDS = 2
"""Words that a situation must share with the text; one is enough where it is rare."""
RARE = 50
"""A word is rare that stands in fewer than one of so many texts."""


async def fitting(conn: Connection, conversation_id: ConversationId, text: str, *, limit: int = MOST) -> list[KnownExpression]:
    """Find the approved expressions whose situation fits a text, most fitting first; none where nothing fits.

    Only those whose evidence stands, or that a person vouches for. Words decide: a cosine that means "fits" differs from
    model to model.
    """
    query = read_query(0, text)
    words = [term for term in query.terms if term.word][:WORDS] if query else []
    if not words:
        return []
    async with conn.cursor(row_factory=class_row(KnownExpression)) as cur:
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
            )
            SELECT x.id, x.situation, x.phrase
            FROM expressions x
            CROSS JOIN LATERAL (
                SELECT CASE WHEN count(*) >= %(enough)s OR bool_or(w.rare) THEN sum(w.weight) END AS weight
                FROM words w
                WHERE strpos(x.search, w.needle) > 0
            ) AS r
            WHERE x.conversation_id = %(conversation)s AND x.status = 'approved'
              AND (x.locked OR EXISTS (SELECT FROM expression_evidence e JOIN messages m ON m.id = e.message
                                       WHERE e.expression_id = x.id AND m.withdrawn_at IS NULL))
              AND r.weight IS NOT NULL
            ORDER BY r.weight DESC, x.last_seen DESC NULLS LAST, x.id
            LIMIT %(limit)s
            """,
            {
                "conversation": conversation_id,
                "words": [term.text for term in words],
                "needles": [term.needle for term in words],
                "rare": RARE,
                "enough": ENOUGH_WORDS,
                "limit": limit,
            },
        )
        return await cur.fetchall()
