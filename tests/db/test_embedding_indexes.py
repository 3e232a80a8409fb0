"""Indexes over the vectors of big conversations: built, dropped, and one process at a time."""

from __future__ import annotations

import asyncio

import pytest
from psycopg import sql

from db.embedding_indexes import IndexBounds, Tended, tend_indexes
from db.embeddings import ensure_space
from db.models import ConversationId
from db.pool import STATEMENT_SECONDS, Connection, Database
from db.vectors import HNSW_DIM, hnsw_name
from tests.db.test_embeddings import group
from tests.llm.embedding_world import add_memories

BOUNDS = IndexBounds(build_above=40, drop_below=20)


@pytest.fixture
async def conversation(database: Database) -> ConversationId:
    """A group's row."""
    return await group(database, 5700000011)


async def fill(database: Database, conversation: ConversationId, count: int, space_id: int, dim: int = 4) -> None:
    """Store so many memories with vectors that differ."""
    await add_memories(database, conversation, [f"{space_id} 的第 {number} 件事" for number in range(count)])
    async with database.connection() as conn:
        await conn.execute(
            """
            UPDATE memories SET space_id = %(space)s,
                   embedding = (SELECT array_agg(sin(id * n)) FROM generate_series(1, %(dim)s) n)::real[]::vector::halfvec
            WHERE conversation_id = %(conversation)s AND space_id IS NULL
            """,
            {"space": space_id, "dim": dim, "conversation": conversation},
        )


async def space_of(database: Database, model: str = "toy", dim: int = 4) -> int:
    async with database.connection() as conn:
        return await ensure_space(conn, model, dim)


async def indexes(database: Database) -> dict[str, bool]:
    """The indexes over vectors, and whether they may be used."""
    async with database.connection() as conn:
        cur = await conn.execute(
            """
            SELECT c.relname, i.indisvalid FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
            WHERE c.relname LIKE '%%hnsw%%'
            """,
        )
        return {row[0]: row[1] for row in await cur.fetchall()}


async def settings_of(conn: Connection) -> tuple[str, ...]:
    cur = await conn.execute(
        """
        SELECT current_setting('statement_timeout'), current_setting('lock_timeout'),
               current_setting('maintenance_work_mem'), current_setting('max_parallel_maintenance_workers')
        """
    )
    return tuple((await cur.fetchall())[0])


async def test_a_big_conversation_gets_an_index_that_its_searches_use(database: Database, conversation: ConversationId):
    space = await space_of(database)
    small = await group(database, 5700000012)
    await fill(database, conversation, 41, space)
    await fill(database, small, 40, space)
    name = hnsw_name(conversation, space)
    assert await tend_indexes(database, space, BOUNDS) == Tended(built=(name,))
    assert await indexes(database) == {name: True}
    assert await tend_indexes(database, space, BOUNDS) == Tended()
    search = sql.SQL(
        "EXPLAIN SELECT id FROM memories WHERE conversation_id = {conversation} AND space_id = {space}"
        " ORDER BY (embedding::halfvec(4)) <=> '[1,0,0,0]' LIMIT 5"
    ).format(conversation=sql.Literal(conversation), space=sql.Literal(space))
    async with database.transaction() as conn:
        await conn.execute("SET LOCAL enable_seqscan = off")
        await conn.execute("SET LOCAL enable_sort = off")
        cur = await conn.execute(search)
        assert name in "\n".join(str(row[0]) for row in await cur.fetchall())


async def test_an_index_goes_when_its_conversation_is_small_again(database: Database, conversation: ConversationId):
    space = await space_of(database)
    await fill(database, conversation, 41, space)
    name = hnsw_name(conversation, space)
    await tend_indexes(database, space, BOUNDS)
    async with database.connection() as conn:
        await conn.execute("DELETE FROM memories WHERE id IN (SELECT id FROM memories LIMIT 21)")
        assert await tend_indexes(database, space, BOUNDS) == Tended()
        await conn.execute("DELETE FROM memories WHERE id IN (SELECT id FROM memories LIMIT 1)")
    assert await tend_indexes(database, space, BOUNDS) == Tended(dropped=(name,))
    assert await indexes(database) == {}


async def test_an_index_goes_when_its_space_is_no_longer_the_current_one(database: Database, conversation: ConversationId):
    old, new = await space_of(database), await space_of(database, "new")
    await fill(database, conversation, 41, old)
    await tend_indexes(database, old, BOUNDS)
    assert await tend_indexes(database, new, BOUNDS) == Tended(dropped=(hnsw_name(conversation, old),))


async def test_what_an_interrupted_build_left_is_cleared_away_and_built_again(database: Database, conversation: ConversationId):
    space = await space_of(database)
    await fill(database, conversation, 41, space)
    name = hnsw_name(conversation, space)
    await tend_indexes(database, space, BOUNDS)
    async with database.connection() as conn:
        await conn.execute("UPDATE pg_index SET indisvalid = false WHERE indexrelid = %(name)s::regclass", {"name": name})
    assert await tend_indexes(database, space, BOUNDS) == Tended(built=(name,), dropped=(name,))
    assert await indexes(database) == {name: True}


async def test_vectors_too_wide_for_an_index_get_none(database: Database, conversation: ConversationId):
    space = await space_of(database, "wide", HNSW_DIM + 1)
    await fill(database, conversation, 41, space, dim=HNSW_DIM + 1)
    assert await tend_indexes(database, space, BOUNDS) == Tended()


async def test_two_processes_do_not_build_at_once(database: Database, conversation: ConversationId):
    space = await space_of(database)
    await fill(database, conversation, 41, space)
    done = await asyncio.gather(*(tend_indexes(database, space, BOUNDS) for _ in range(4)))
    assert sum(len(tended.built) for tended in done) == 1
    assert await indexes(database) == {hnsw_name(conversation, space): True}


async def test_a_connection_is_given_back_as_it_was(database_url: str):
    database = Database(database_url, max_size=1)
    await database.open()
    try:
        conversation = await group(database, 5700000011)
        space = await space_of(database)
        await fill(database, conversation, 41, space)
        async with database.connection() as conn:
            before = await settings_of(conn)
        assert len((await tend_indexes(database, space, BOUNDS)).built) == 1
        async with database.connection() as conn:
            assert await settings_of(conn) == before
            assert before[0] == f"{STATEMENT_SECONDS}s"
            cur = await conn.execute("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'")
            assert await cur.fetchone() == (0,)
    finally:
        await database.close()


async def test_without_a_current_space_nothing_is_touched(database: Database, conversation: ConversationId):
    space = await space_of(database)
    await fill(database, conversation, 41, space)
    await tend_indexes(database, space, BOUNDS)
    assert await tend_indexes(database, None, BOUNDS) == Tended()
    assert len(await indexes(database)) == 1
