"""What the learner writes about expressions: new candidates, and evidence for what is near to them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from psycopg.rows import class_row, scalar_row

from db.expressions import Pair
from db.learned_models import ExpressionId, ReviewStatus
from db.memory_models import Vector
from db.models import ConversationId, MessageRow
from db.pool import Connection
from db.vectors import vector_literal

NEAR_SITUATION = 0.4
NEAR_PHRASE = 0.4
"""Word similarities from which two situations, two phrases may be one."""
EVIDENCE = 50
"""Newest messages that are kept as evidence of one expression."""


@dataclass(frozen=True, slots=True)
class Found:
    """An expression that a model found, with evidence that stands. ``vector`` is that of the situation."""

    pair: Pair
    confidence: float
    vector: Vector | None
    evidence: tuple[MessageRow, ...]


@dataclass(frozen=True, slots=True)
class Near:
    """A row that says the same, or nearly so, and its state."""

    id: ExpressionId
    status: ReviewStatus


async def near(
    conn: Connection, conversation_id: ConversationId, pair: Pair, vector: Vector | None, cosine: float | None
) -> Near | None:
    """Find the row of a pair: the same letter for letter, else the nearest whose phrase and situation are both close.

    Situations are close by their words, or by their vectors where both live in one space (``cosine``: from which on).
    A row that was merged stands for the one that it was merged into.
    """
    async with conn.cursor(row_factory=class_row(Near)) as cur:
        await cur.execute(
            """
            WITH close AS (
                SELECT coalesce(x.merged_into, x.id) AS id,
                       x.pair_key IN (%(key)s, 'md5:' || md5(%(key)s)) AS same,
                       greatest(w.phrase, CASE WHEN x.phrase_key = %(phrase_key)s THEN 1 ELSE 0 END) + w.situation AS likeness
                FROM expressions x
                CROSS JOIN LATERAL (
                    SELECT similarity(x.phrase_search, %(phrase)s) AS phrase, similarity(x.search, %(situation)s) AS situation,
                           CASE WHEN x.space_id = %(space)s::integer THEN 1 - (x.embedding <=> %(vector)s::halfvec) END AS cosine
                ) AS w
                WHERE x.conversation_id = %(conversation)s
                  AND (x.pair_key IN (%(key)s, 'md5:' || md5(%(key)s))
                       OR ((x.phrase_key = %(phrase_key)s OR w.phrase >= %(near_phrase)s)
                           AND (w.situation >= %(near_situation)s OR w.cosine >= %(cosine)s::float8)))
                ORDER BY same DESC, likeness DESC, x.id
                LIMIT 1
            )
            SELECT x.id, x.status
            FROM close c
            JOIN expressions x ON x.id = c.id
            """,
            {
                "conversation": conversation_id,
                "key": pair.key,
                "phrase_key": pair.phrase_key,
                "phrase": pair.phrase_search,
                "situation": pair.search,
                "space": None if vector is None else vector.space_id,
                "vector": None if vector is None else vector_literal(vector.values),
                "cosine": cosine,
                "near_phrase": NEAR_PHRASE,
                "near_situation": NEAR_SITUATION,
            },
        )
        return await cur.fetchone()


async def hold(conn: Connection, ids: Sequence[ExpressionId]) -> dict[ExpressionId, Near]:
    """Read rows, all at once in the order of everybody, and keep others from changing them until the commit."""
    async with conn.cursor(row_factory=class_row(Near)) as cur:
        await cur.execute(
            "SELECT id, status FROM expressions WHERE id = ANY(%(ids)s::bigint[]) ORDER BY id FOR NO KEY UPDATE",
            {"ids": list(ids)},
        )
        return {row.id: row for row in await cur.fetchall()}


async def insert(conn: Connection, conversation_id: ConversationId, found: Found) -> ExpressionId | None:
    """Write a new candidate without its evidence; None: the pair was written meanwhile."""
    async with conn.cursor(row_factory=scalar_row) as cur:
        await cur.execute(
            """
            INSERT INTO expressions (conversation_id, situation, phrase, pair_key, phrase_key, search, phrase_search, space_id,
                                     embedding, source, confidence)
            VALUES (%(conversation)s, %(situation)s, %(phrase)s, %(key)s, %(phrase_key)s, %(search)s, %(phrase_search)s,
                    %(space)s, %(vector)s::halfvec, 'model', %(confidence)s)
            ON CONFLICT (conversation_id, pair_key) DO NOTHING
            RETURNING id
            """,
            {
                "conversation": conversation_id,
                "situation": found.pair.situation,
                "phrase": found.pair.phrase,
                "key": found.pair.key,
                "phrase_key": found.pair.phrase_key,
                "search": found.pair.search,
                "phrase_search": found.pair.phrase_search,
                "space": None if found.vector is None else found.vector.space_id,
                "vector": None if found.vector is None else vector_literal(found.vector.values),
                "confidence": found.confidence,
            },
        )
        return await cur.fetchone()


async def support(conn: Connection, expression_id: ExpressionId, found: Found) -> None:
    """Add evidence to a row, keep the newest EVIDENCE messages; how sure a model is moves only where no person decided."""
    await _add(conn, expression_id, found.evidence)
    await conn.execute(
        """
        DELETE FROM expression_evidence
        WHERE expression_id = %(id)s
          AND message NOT IN (SELECT message FROM expression_evidence WHERE expression_id = %(id)s
                              ORDER BY message DESC LIMIT %(most)s)
        """,
        {"id": expression_id, "most": EVIDENCE},
    )
    await conn.execute(
        """
        UPDATE expressions x
        SET first_seen = least(x.first_seen, s.first), last_seen = greatest(x.last_seen, s.last),
            confidence = CASE WHEN x.status = 'candidate' AND NOT x.locked
                              THEN (coalesce(x.confidence, %(confidence)s) + %(confidence)s) / 2 ELSE x.confidence END,
            updated_at = now()
        FROM (SELECT min(sent_at) AS first, max(sent_at) AS last FROM messages WHERE id = ANY(%(messages)s)) AS s
        WHERE x.id = %(id)s
        """,
        {"id": expression_id, "confidence": found.confidence, "messages": list(found.evidence)},
    )


async def _add(conn: Connection, expression_id: ExpressionId, messages: Sequence[MessageRow]) -> None:
    await conn.execute(
        """
        INSERT INTO expression_evidence (expression_id, message)
        SELECT %(id)s, message FROM unnest(%(messages)s::bigint[]) AS message
        ON CONFLICT DO NOTHING
        """,
        {"id": expression_id, "messages": list(messages)},
    )


async def names_in(conn: Connection, conversation_id: ConversationId, text: str) -> list[str]:
    """List the names of members and own accounts, now or earlier, of two characters or more, that stand in a text."""
    cur = await conn.execute(
        """
        SELECT DISTINCT n.name
        FROM (SELECT name FROM member_names WHERE conversation_id = %(conversation)s
              UNION ALL
              SELECT unnest(ARRAY[card, nickname]) FROM members WHERE conversation_id = %(conversation)s
              UNION ALL
              SELECT nickname FROM accounts) AS n (name)
        WHERE char_length(n.name) >= 2 AND strpos(lower(%(text)s), lower(n.name)) > 0
        """,
        {"conversation": conversation_id, "text": text},
    )
    return [row[0] for row in await cur.fetchall()]
