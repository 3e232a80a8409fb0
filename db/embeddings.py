"""Queries of embeddings: spaces, the rows that wait for a vector, writing vectors, and how far that is.

The rows themselves are the queue: one waits while its space is not the current one. ``BETWEEN x AND x`` keeps the
planner on the index by space: for ``=`` it would rather read the newest rows one by one, past all that are done.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from psycopg.rows import class_row

from db.memory_models import MemoryId
from db.pool import Connection

MESSAGE_VECTORS = 20_000
"""How many of a conversation's messages keep a vector: the newest."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """A row that waits for a vector of the current space: a memory's or a message's id, and its text."""

    id: int
    text: str


@dataclass(frozen=True, slots=True)
class Embedded:
    """A vector for a row. ``text`` is what was embedded, ``literal`` the vector as text (see ``db.vectors``)."""

    id: int
    text: str
    literal: str


@dataclass(frozen=True, slots=True)
class EmbeddingCounts:
    """How many rows there are, and how many of them have a vector of one space."""

    memories_total: int
    memories_done: int
    messages_total: int
    messages_done: int


async def ensure_space(conn: Connection, model: str, dim: int) -> int:
    """Find or make the space of a model and a dimension; returns its id."""
    cur = await conn.execute(
        """
        WITH known AS (
            SELECT id FROM embedding_spaces WHERE model = %(model)s AND dim = %(dim)s
        ), made AS (
            INSERT INTO embedding_spaces (model, dim)
            SELECT %(model)s, %(dim)s WHERE NOT EXISTS (SELECT FROM known)
            ON CONFLICT (model, dim) DO UPDATE SET model = excluded.model
            RETURNING id
        )
        SELECT id FROM known UNION ALL SELECT id FROM made
        """,
        {"model": model, "dim": dim},
    )
    row = await cur.fetchone()
    if row is None:
        raise LookupError("embedding_spaces gave no row back")
    return int(row[0])


async def waiting_memories(conn: Connection, space_id: int, *, limit: int, skip: Sequence[int] = ()) -> list[Waiting]:
    """Read the newest memories without a vector of a space, but for ``skip``."""
    async with conn.cursor(row_factory=class_row(Waiting)) as cur:
        await cur.execute(
            """
            SELECT id, text
            FROM (
                (SELECT id, content AS text FROM memories
                 WHERE space_id IS NULL AND id <> ALL(%(skip)s::bigint[])
                 ORDER BY space_id DESC, id DESC LIMIT %(limit)s)
                UNION ALL
                SELECT m.id, m.text
                FROM embedding_spaces s
                CROSS JOIN LATERAL (
                    SELECT id, content AS text FROM memories
                    WHERE space_id BETWEEN s.id AND s.id AND id <> ALL(%(skip)s::bigint[])
                    ORDER BY space_id DESC, id DESC LIMIT %(limit)s) m
                WHERE s.id <> %(space)s
            ) w
            ORDER BY id DESC
            LIMIT %(limit)s
            """,
            {"space": space_id, "limit": limit, "skip": list(skip)},
        )
        return await cur.fetchall()


async def lacking_memories(conn: Connection, space_id: int, ids: Sequence[MemoryId]) -> list[Waiting]:
    """Read which of some memories have no vector of a space; those that are gone lack nothing."""
    async with conn.cursor(row_factory=class_row(Waiting)) as cur:
        await cur.execute(
            """
            SELECT id, content AS text FROM memories
            WHERE id = ANY(%(ids)s::bigint[]) AND space_id IS DISTINCT FROM %(space)s
            ORDER BY id
            """,
            {"space": space_id, "ids": list(ids)},
        )
        return await cur.fetchall()


async def waiting_messages(conn: Connection, space_id: int, *, limit: int, skip: Sequence[int] = ()) -> list[Waiting]:
    """Read the newest messages that should have a vector of a space and have none, but for ``skip``."""
    async with conn.cursor(row_factory=class_row(Waiting)) as cur:
        await cur.execute(
            """
            SELECT id, text
            FROM (
                (SELECT v.message AS id, t.text FROM message_vectors v
                 JOIN messages t ON t.id = v.message AND t.withdrawn_at IS NULL AND t.text <> ''
                 WHERE v.space_id IS NULL AND v.message <> ALL(%(skip)s::bigint[])
                 ORDER BY v.space_id, v.message DESC LIMIT %(limit)s)
                UNION ALL
                SELECT o.id, o.text
                FROM embedding_spaces s
                CROSS JOIN LATERAL (
                    SELECT v.message AS id, t.text FROM message_vectors v
                    JOIN messages t ON t.id = v.message AND t.withdrawn_at IS NULL AND t.text <> ''
                    WHERE v.space_id BETWEEN s.id AND s.id AND v.message <> ALL(%(skip)s::bigint[])
                    ORDER BY v.space_id, v.message DESC LIMIT %(limit)s) o
                WHERE s.id <> %(space)s
            ) w
            ORDER BY id DESC
            LIMIT %(limit)s
            """,
            {"space": space_id, "limit": limit, "skip": list(skip)},
        )
        return await cur.fetchall()


async def write_memories(conn: Connection, space_id: int, rows: Sequence[Embedded]) -> int:
    """Write vectors of a space to memories whose text is still the same. Returns how many were written.

    A row that another process is writing to is left to it.
    """
    cur = await conn.execute(
        """
        WITH free AS (
            SELECT id FROM memories WHERE id = ANY(%(ids)s::bigint[]) ORDER BY id FOR NO KEY UPDATE SKIP LOCKED
        )
        UPDATE memories m
        SET space_id = %(space)s, embedding = d.literal::halfvec
        FROM unnest(%(ids)s::bigint[], %(texts)s::text[], %(literals)s::text[]) AS d (id, text, literal)
        WHERE m.id = d.id AND m.id IN (SELECT id FROM free)
          AND m.content = d.text AND m.space_id IS DISTINCT FROM %(space)s
        """,
        {"space": space_id, **_columns(rows)},
    )
    return cur.rowcount


async def write_messages(conn: Connection, space_id: int, rows: Sequence[Embedded]) -> int:
    """Write vectors of a space to messages that still say the same and still want one. Returns how many were written."""
    cur = await conn.execute(
        """
        WITH free AS (
            SELECT message FROM message_vectors WHERE message = ANY(%(ids)s::bigint[])
            ORDER BY message FOR NO KEY UPDATE SKIP LOCKED
        )
        UPDATE message_vectors v
        SET space_id = %(space)s, embedding = d.literal::halfvec
        FROM unnest(%(ids)s::bigint[], %(texts)s::text[], %(literals)s::text[]) AS d (id, text, literal)
        JOIN messages m ON m.id = d.id AND m.text = d.text AND m.withdrawn_at IS NULL
        WHERE v.message = d.id AND v.message IN (SELECT message FROM free) AND v.space_id IS DISTINCT FROM %(space)s
        """,
        {"space": space_id, **_columns(rows)},
    )
    return cur.rowcount


def _columns(rows: Sequence[Embedded]) -> dict[str, list[int] | list[str]]:
    return {"ids": [row.id for row in rows], "texts": [row.text for row in rows], "literals": [row.literal for row in rows]}


async def count_embedded(conn: Connection, space_id: int | None) -> EmbeddingCounts:
    """Count memories and messages that should have a vector, and those that have one of a space (None: none has)."""
    async with conn.cursor(row_factory=class_row(EmbeddingCounts)) as cur:
        await cur.execute(
            """
            SELECT memories_total, memories_done, messages_total, messages_done
            FROM (SELECT count(*) AS memories_total, count(*) FILTER (WHERE space_id = %(space)s::integer) AS memories_done
                  FROM memories) m,
                 (SELECT count(*) AS messages_total, count(*) FILTER (WHERE space_id = %(space)s::integer) AS messages_done
                  FROM message_vectors) v
            """,
            {"space": space_id},
        )
        row = await cur.fetchone()
    return row or EmbeddingCounts(0, 0, 0, 0)


async def trim_message_vectors(conn: Connection, *, limit: int, keep: int = MESSAGE_VECTORS) -> int:
    """Delete vectors of messages older than a conversation's newest ``keep``, and of those that say nothing any more.

    At most ``limit`` of each. Returns how many.
    """
    cur = await conn.execute(
        """
        DELETE FROM message_vectors
        WHERE message IN (
            (SELECT o.message
             FROM conversations c
             CROSS JOIN LATERAL (
                 SELECT message FROM message_vectors
                 WHERE conversation_id = c.id
                 ORDER BY message DESC OFFSET %(keep)s LIMIT %(limit)s) o
             LIMIT %(limit)s)
            UNION ALL
            (SELECT v.message
             FROM message_vectors v
             JOIN messages m ON m.id = v.message
             WHERE m.withdrawn_at IS NOT NULL OR m.text = ''
             LIMIT %(limit)s))
        """,
        {"keep": keep, "limit": limit},
    )
    return cur.rowcount
