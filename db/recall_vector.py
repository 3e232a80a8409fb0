"""The vector leg of recall: memories by what they mean.

Up to HNSW_ROWS vectors every one is compared. A larger conversation has an index over its own vectors; a filtered search
in it may come back with too few rows, and is then done once more by comparing every vector.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import LiteralString

from psycopg import sql
from psycopg.rows import class_row, scalar_row

from db.fusion import Place
from db.memory_models import Scope, Vector
from db.pool import Connection
from db.recall_scope import IN_SCOPE, scope_values
from db.vectors import HNSW_DIM, hnsw_name, vector_literal

_NEAREST: LiteralString = f"""
    WITH asked AS MATERIALIZED (
        SELECT a.ask, a.vector::{{type}} AS vector FROM unnest(%(asks)s::integer[], %(vectors)s::text[]) AS a (ask, vector)
    ), near AS MATERIALIZED (
        SELECT a.ask, r.id, r.distance
        FROM asked a
        CROSS JOIN LATERAL (
            SELECT m.id, {{embedding}} <=> a.vector AS distance
            FROM memories m
            WHERE {{where}} AND m.space_id = %(space)s AND {IN_SCOPE}
            ORDER BY {{embedding}} <=> a.vector
            LIMIT %(limit)s
        ) AS r
    )
    SELECT n.ask, n.id AS row, row_number() OVER (PARTITION BY n.ask ORDER BY n.distance, n.id DESC)::integer AS rank,
           1 - n.distance AS strength
    FROM near n
    ORDER BY n.ask, rank
"""

# The nearest memory of each member who must have one, where the ranking above may hold none of theirs.
_NEAREST_OF_EACH: LiteralString = f"""
    WITH asked AS MATERIALIZED (
        SELECT a.ask, a.vector::halfvec AS vector FROM unnest(%(asks)s::integer[], %(vectors)s::text[]) AS a (ask, vector)
    )
    SELECT a.ask, r.id AS row, %(limit)s::integer + 1 AS rank, NULL::float8 AS strength
    FROM asked a
    CROSS JOIN unnest(%(each)s::bigint[]) AS e (user_id)
    CROSS JOIN LATERAL (
        SELECT m.id
        FROM memories m
        WHERE m.conversation_id = ANY(%(conversations)s::bigint[]) AND m.space_id = %(space)s
          AND m.subject_kind = 'member' AND m.subject_id = e.user_id AND {IN_SCOPE}
        ORDER BY m.embedding <=> a.vector, m.id DESC
        LIMIT 1
    ) AS r
"""


@dataclass(frozen=True, slots=True)
class VectorAsk:
    """The vectors of some questions, by the question's number."""

    vectors: Mapping[int, Vector]
    scope: Scope
    each: Sequence[int]
    limit: int


async def vector_places(conn: Connection, ask: VectorAsk) -> list[Place]:
    """Rank memories by their vectors, ``limit`` for each question, and the nearest of each member of ``each`` behind.

    One round trip, or two when the index gave fewer rows than exist.
    """
    places: list[Place] = []
    for space in {vector.space_id for vector in ask.vectors.values()}:
        of_space = {no: vector for no, vector in ask.vectors.items() if vector.space_id == space}
        places += await _in_space(conn, ask, of_space, space)
    return places


async def _in_space(conn: Connection, ask: VectorAsk, vectors: Mapping[int, Vector], space: int) -> list[Place]:
    dim = len(next(iter(vectors.values())).values)
    indexed = len(ask.scope.conversation_ids) == 1 and dim <= HNSW_DIM
    rows, of_each, by_index = await _look(conn, ask, vectors, indexed=indexed)
    if by_index:
        found = Counter(row.ask for row in rows)
        short = {no: vector for no, vector in vectors.items() if found[no] < ask.limit}
        if short:
            again, _, _ = await _look(conn, replace(ask, each=()), short, indexed=False)
            rows = [row for row in rows if row.ask not in short] + again
    ranked = {(row.ask, row.row) for row in rows}
    rows += [row for row in of_each if (row.ask, row.row) not in ranked]
    return rows


async def _look(
    conn: Connection, ask: VectorAsk, vectors: Mapping[int, Vector], *, indexed: bool
) -> tuple[list[Place], list[Place], bool]:
    """Run the statements in one round trip; tells last whether there is an index that may have been used."""
    first = next(iter(vectors.values()))
    values = {
        **scope_values(ask.scope),
        "asks": list(vectors),
        "vectors": [vector_literal(vector.values) for vector in vectors.values()],
        "space": first.space_id,
        "limit": ask.limit,
        "each": list(ask.each),
        "index": hnsw_name(ask.scope.conversation_ids[0], first.space_id),
    }
    rows, each = conn.cursor(row_factory=class_row(Place)), conn.cursor(row_factory=class_row(Place))
    known = conn.cursor(row_factory=scalar_row)
    async with rows, each, known:
        async with conn.pipeline():
            if indexed:
                await known.execute("SELECT to_regclass(%(index)s) IS NOT NULL", values, prepare=True)
            await rows.execute(vector_leg(len(first.values) if indexed else None), values, prepare=False)
            if ask.each:
                await each.execute(_NEAREST_OF_EACH, values, prepare=False)
        by_index = indexed and bool(await known.fetchone())
        return await rows.fetchall(), await each.fetchall() if ask.each else [], by_index


@cache
def vector_leg(dim: int | None) -> bytes:
    """Write the search so that an index over one conversation with this dimension fits it; None: no index fits."""
    if dim is None:
        written = sql.SQL(_NEAREST).format(
            embedding=sql.SQL("m.embedding"),
            type=sql.SQL("halfvec"),
            where=sql.SQL("m.conversation_id = ANY(%(conversations)s::bigint[])"),
        )
        return written.as_bytes()
    # The predicate of a partial index needs the one conversation by itself.
    written = sql.SQL(_NEAREST).format(
        embedding=sql.SQL("m.embedding::halfvec({dim})").format(dim=sql.Literal(dim)),
        type=sql.SQL("halfvec({dim})").format(dim=sql.Literal(dim)),
        where=sql.SQL("m.conversation_id = (%(conversations)s::bigint[])[1]"),
    )
    return written.as_bytes()
