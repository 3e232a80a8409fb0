"""The indexes over vectors: big conversations have one each, built and dropped beside the running bot."""

from __future__ import annotations

import logging
import re
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

import psycopg
from psycopg import sql
from psycopg.rows import class_row

from db.models import ConversationId
from db.pool import LOCK_SECONDS, STATEMENT_SECONDS, Connection, Database
from db.vectors import HNSW_DIM, HNSW_DROP_ROWS, HNSW_EF_CONSTRUCTION, HNSW_M, HNSW_ROWS, hnsw_name

logger = logging.getLogger(__name__)

_NAME = re.compile(r"^memories_hnsw_(\d+)_(\d+)$")
_LOCK = 5_246_021_137
"""The advisory lock of the one process that tends indexes."""
_BUILD_MEMORY = "256MB"


@dataclass(frozen=True, slots=True)
class IndexBounds:
    """From how many vectors a conversation gets an index, and below how many it loses it."""

    build_above: int = HNSW_ROWS
    drop_below: int = HNSW_DROP_ROWS


@dataclass(frozen=True, slots=True)
class Tended:
    """Which indexes were built and dropped, by name."""

    built: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Index:
    name: str
    valid: bool


@dataclass(frozen=True, slots=True)
class _Size:
    conversation_id: ConversationId
    vectors: int


DEFAULT_BOUNDS = IndexBounds()


async def tend_indexes(database: Database, space_id: int | None, bounds: IndexBounds = DEFAULT_BOUNDS) -> Tended:
    """Build the indexes that big conversations lack in the current space, and drop those that nobody needs.

    Takes minutes for big groups, while everything else goes on. None: the current space is not known, nothing is done.
    Does nothing while another process is at it. Raises DatabaseUnavailable.
    """
    if space_id is None:
        return Tended()
    async with database.connection() as conn, _alone(conn) as alone:
        return await _tend(conn, space_id, bounds) if alone else Tended()


@asynccontextmanager
async def _alone(conn: Connection) -> AsyncGenerator[bool]:
    """Hold the lock and lift the limits that are made for short statements; the connection is given back as it was."""
    cur = await conn.execute("SELECT pg_try_advisory_lock(%(lock)s)", {"lock": _LOCK})
    if await cur.fetchone() != (True,):
        yield False
        return
    try:
        await _lift(conn)
        yield True
    finally:
        if not conn.closed:
            await _restore(conn)
            await conn.execute("SELECT pg_advisory_unlock(%(lock)s)", {"lock": _LOCK})


async def _lift(conn: Connection) -> None:
    await conn.execute(
        """
        SELECT set_config('statement_timeout', '0', false), set_config('lock_timeout', '0', false),
               set_config('maintenance_work_mem', %(memory)s, false),
               set_config('max_parallel_maintenance_workers', '0', false)
        """,
        {"memory": _BUILD_MEMORY},
    )


async def _restore(conn: Connection) -> None:
    await conn.execute(
        """
        SELECT set_config('statement_timeout', %(statement)s, false), set_config('lock_timeout', %(lock)s, false),
               set_config('maintenance_work_mem', NULL, false), set_config('max_parallel_maintenance_workers', NULL, false)
        """,
        {"statement": f"{STATEMENT_SECONDS}s", "lock": f"{LOCK_SECONDS}s"},
    )


async def _tend(conn: Connection, space_id: int, bounds: IndexBounds) -> Tended:
    dim = await _dim(conn, space_id)
    sizes = {size.conversation_id: size.vectors for size in await _sizes(conn, space_id, bounds.drop_below)}
    there: set[str] = set()
    dropped: list[str] = []
    for index in await _indexes(conn):
        if index.valid and _wanted(index.name, space_id, sizes):
            there.add(index.name)
        else:
            # An invalid one is what a build left that did not end: only one process builds.
            await _drop(conn, index.name)
            dropped.append(index.name)
    built: list[str] = []
    for conversation_id, vectors in sizes.items():
        name = hnsw_name(conversation_id, space_id)
        if vectors > bounds.build_above and name not in there and dim is not None and dim <= HNSW_DIM:
            logger.info("会话 %d 有 %d 条记忆的向量，正在为它建索引", conversation_id, vectors)
            if await _build(conn, conversation_id, space_id, dim):
                built.append(name)
    if built or dropped:
        logger.info("向量索引：建了 %d 个，删了 %d 个", len(built), len(dropped))
    return Tended(tuple(built), tuple(dropped))


def _wanted(name: str, space_id: int, sizes: dict[ConversationId, int]) -> bool:
    match = _NAME.match(name)
    if match is None:
        return False
    conversation_id, space = (int(part) for part in match.groups())
    return space == space_id and ConversationId(conversation_id) in sizes


async def _dim(conn: Connection, space_id: int) -> int | None:
    cur = await conn.execute("SELECT dim FROM embedding_spaces WHERE id = %(space)s", {"space": space_id})
    row = await cur.fetchone()
    return None if row is None else int(row[0])


async def _sizes(conn: Connection, space_id: int, at_least: int) -> Sequence[_Size]:
    """Count the vectors of conversations that have many; conversations with few memories are not looked at closely."""
    async with conn.cursor(row_factory=class_row(_Size)) as cur:
        await cur.execute(
            """
            WITH big AS MATERIALIZED (
                SELECT conversation_id FROM memories GROUP BY conversation_id HAVING count(*) >= %(least)s
            )
            SELECT m.conversation_id, count(*) AS vectors
            FROM memories m
            JOIN big USING (conversation_id)
            WHERE m.space_id = %(space)s
            GROUP BY m.conversation_id
            HAVING count(*) >= %(least)s
            ORDER BY m.conversation_id
            """,
            {"space": space_id, "least": at_least},
        )
        return await cur.fetchall()


async def _indexes(conn: Connection) -> list[_Index]:
    async with conn.cursor(row_factory=class_row(_Index)) as cur:
        await cur.execute(
            """
            SELECT c.relname AS name, i.indisvalid AS valid
            FROM pg_index i
            JOIN pg_class c ON c.oid = i.indexrelid
            WHERE i.indrelid = 'memories'::regclass AND c.relname LIKE 'memories\\_hnsw\\_%%'
            ORDER BY c.relname
            """,
        )
        return await cur.fetchall()


async def _build(conn: Connection, conversation_id: ConversationId, space_id: int, dim: int) -> bool:
    statement = sql.SQL(
        """
        CREATE INDEX CONCURRENTLY {name} ON memories
        USING hnsw ((embedding::halfvec({dim})) halfvec_cosine_ops)
        WITH (m = {m}, ef_construction = {ef})
        WHERE conversation_id = {conversation} AND space_id = {space}
        """
    ).format(
        name=sql.Identifier(hnsw_name(conversation_id, space_id)),
        dim=sql.Literal(dim),
        m=sql.Literal(HNSW_M),
        ef=sql.Literal(HNSW_EF_CONSTRUCTION),
        conversation=sql.Literal(conversation_id),
        space=sql.Literal(space_id),
    )
    try:
        await conn.execute(statement)
    except psycopg.Error as error:
        if conn.closed:
            raise
        logger.warning("会话 %d 的向量索引没有建成，下次再试：%s", conversation_id, str(error).strip())
        await _drop(conn, hnsw_name(conversation_id, space_id))
        return False
    return True


async def _drop(conn: Connection, name: str) -> None:
    await conn.execute(sql.SQL("DROP INDEX CONCURRENTLY IF EXISTS {name}").format(name=sql.Identifier(name)))
