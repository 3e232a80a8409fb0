"""Approved expressions that fit a text, for the prompt of a turn."""

from __future__ import annotations

from psycopg.rows import class_row

from db.fitting_words import WEIGHT, WORDS, word_values
from db.learned_models import KnownExpression
from db.models import ConversationId
from db.pool import Connection

MOST = 5
MOST_WORDS = 64
"""Words of the text that count."""


async def fitting(conn: Connection, conversation_id: ConversationId, text: str, *, limit: int = MOST) -> list[KnownExpression]:
    """Find the approved expressions whose situation fits a text, most fitting first; none where nothing fits.

    Only those whose evidence stands, or that a person vouches for. Words decide: a cosine that means "fits" differs from
    model to model.
    """
    words = word_values(text, MOST_WORDS)
    if not words["words"]:
        return []
    async with conn.cursor(row_factory=class_row(KnownExpression)) as cur:
        await cur.execute(
            f"""
            WITH {WORDS}
            SELECT x.id, x.situation, x.phrase
            FROM expressions x
            CROSS JOIN LATERAL (
                SELECT {WEIGHT}
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
                **words,
                "limit": limit,
            },
        )
        return await cur.fetchall()
