"""What recall found, read as memories: freshness and use weighed in, present members first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from psycopg.rows import class_row

from db.fusion import Fused
from db.memory_models import Ask, Memory, Recalled, Scope, Wish
from db.pool import Connection
from db.searchtext import search_text
from db.vectors import vector_literal

FRESH_DAYS = 30.0
"""After so many days a memory's freshness has halved."""
FRESH_WEIGHT = 0.03
USE_WEIGHT = 0.02
"""What freshness and use add at most, as parts of the score: places side by side differ by 1.6 %, so this may change
neighbours; what a second leg found too scores double and stays ahead."""
USES = 100.0
"""So many uses count in full, fewer by their logarithm."""


@dataclass(frozen=True, slots=True)
class Near:
    """A memory that may say the same as a claim. ``cosine`` is None where a vector is missing.

    ``similarity`` is the word similarity in the direction in which the two are more alike.
    """

    memory: Memory
    cosine: float | None
    similarity: float


@dataclass(frozen=True, slots=True)
class _RecalledRow(Memory):
    score: float
    vector_rank: int | None
    text_rank: int | None


@dataclass(frozen=True, slots=True)
class _NearRow(Memory):
    cosine: float | None
    similarity: float


async def fetch_recalled(conn: Connection, found: Sequence[Fused], scope: Scope, wish: Wish) -> list[Recalled]:
    """Read what was found, in the order of the wish. Rows that left the scope meanwhile are missing."""
    async with conn.cursor(row_factory=class_row(_RecalledRow)) as cur:
        await cur.execute(
            """
            SELECT r.*
            FROM (
                SELECT m.id, m.conversation_id, m.subject_kind, m.subject_id, m.kind, m.content, m.status, m.archived_why,
                       m.archived_at, m.locked, m.source, m.turn_id, m.version, m.uses, m.used_at, m.created_at, m.updated_at,
                       f.score * (1 + CASE WHEN %(prior)s THEN
                           %(fresh_weight)s * power(0.5::float8, least(100, greatest(0,
                               extract(epoch FROM now() - m.updated_at)::float8 / 86400 / %(fresh_days)s)))
                           + %(use_weight)s * least(1, ln(1 + m.uses::float8) / ln(1 + %(uses)s::float8))
                       ELSE 0 END) AS score, f.vector_rank, f.text_rank
                FROM unnest(%(ids)s::bigint[], %(scores)s::float8[], %(vector_ranks)s::integer[], %(text_ranks)s::integer[])
                     AS f (id, score, vector_rank, text_rank)
                JOIN memories m ON m.id = f.id
                WHERE m.conversation_id = ANY(%(conversations)s::bigint[]) AND m.status = ANY(%(statuses)s::text[])
                  AND (%(withdrawn)s OR m.archived_why IS DISTINCT FROM 'withdrawn')
            ) AS r
            ORDER BY (r.subject_kind = 'member' AND r.subject_id = ANY(%(each)s::bigint[])
                      AND row_number() OVER (PARTITION BY r.subject_kind, r.subject_id ORDER BY r.score DESC, r.id DESC) = 1)
                     DESC,
                     r.score DESC, r.id DESC
            LIMIT %(limit)s OFFSET %(offset)s
            """,
            {
                "ids": [fused.row for fused in found],
                "scores": [fused.score for fused in found],
                "vector_ranks": [fused.vector_rank for fused in found],
                "text_ranks": [fused.text_rank for fused in found],
                "conversations": list(scope.conversation_ids),
                "statuses": list(scope.statuses),
                "withdrawn": scope.withdrawn,
                "prior": wish.prior,
                "fresh_days": FRESH_DAYS,
                "fresh_weight": FRESH_WEIGHT,
                "use_weight": USE_WEIGHT,
                "uses": USES,
                "each": list(wish.each_first),
                "limit": wish.limit,
                "offset": wish.offset,
            },
        )
        rows = await cur.fetchall()
    return [Recalled(row, row.score, row.vector_rank, row.text_rank) for row in rows]


async def fetch_near(conn: Connection, rows: Sequence[int], ask: Ask) -> list[Near]:
    """Read memories in the order given, with how much they are like a claim."""
    async with conn.cursor(row_factory=class_row(_NearRow)) as cur:
        await cur.execute(
            """
            SELECT m.id, m.conversation_id, m.subject_kind, m.subject_id, m.kind, m.content, m.status, m.archived_why,
                   m.archived_at, m.locked, m.source, m.turn_id, m.version, m.uses, m.used_at, m.created_at, m.updated_at,
                   CASE WHEN m.space_id = %(space)s THEN 1 - (m.embedding <=> %(vector)s::halfvec) END AS cosine,
                   greatest(word_similarity(%(search)s, m.search), word_similarity(m.search, %(search)s)) AS similarity
            FROM unnest(%(ids)s::bigint[]) WITH ORDINALITY AS f (id, place)
            JOIN memories m ON m.id = f.id
            ORDER BY f.place
            """,
            {
                "ids": list(rows),
                "search": search_text(ask.text),
                "space": None if ask.vector is None else ask.vector.space_id,
                "vector": None if ask.vector is None else vector_literal(ask.vector.values),
            },
            prepare=False,
        )
        found = await cur.fetchall()
    return [Near(row, row.cosine, row.similarity) for row in found]
