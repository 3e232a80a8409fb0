"""Recall in one conversation of 100,000 memories: both legs use their index, and find what filters leave."""

from __future__ import annotations

import asyncio
import math
import random
from collections import Counter
from collections.abc import AsyncIterator, Mapping

import pytest
from psycopg import AsyncConnection, sql
from psycopg.rows import scalar_row

from db.memory_models import Ask, Scope, Subject, Vector, Wish
from db.models import ConversationId
from db.pool import Connection, Database
from db.recall import recall
from db.recall_scope import scope_values
from db.recall_text import TEXT_LEG, text_places, text_values
from db.recall_vector import vector_leg
from db.search_terms import count_terms
from db.text_query import read_query
from db.vectors import hnsw_name, vector_literal
from tests.support import DatabaseFactory

ROWS = 100_000
DIM = 16
BIG, SMALL = ConversationId(1), ConversationId(2)
RARE = Subject("member", 5000000099)


def some_vector(seed: int) -> Vector:
    rng = random.Random(seed)
    values = [rng.gauss(0, 1) for _ in range(DIM)]
    length = math.hypot(*values)
    return Vector(1, tuple(value / length for value in values))


# One in 50 rows is about RARE, one in 500 is a goal, one in 1,000 is archived; SMALL has one row for 50 of BIG.
_FILL = """
    INSERT INTO memories (conversation_id, subject_kind, subject_id, kind, content, content_key, search, space_id, embedding,
                          status, archived_at, source)
    SELECT CASE WHEN n %% 51 = 0 THEN %(small)s ELSE %(big)s END, 'member',
           CASE WHEN n %% 50 = 7 THEN %(rare)s ELSE 5000000000 + n %% 40 END,
           CASE WHEN n %% 500 = 3 THEN 'goal' ELSE 'fact' END, 'x', n::text,
           ' ' || (SELECT string_agg(chr(19968 + (n * p * p + n / 7 * p) %% 900) || chr(19968 + (n * p + n / 11) %% 900), ' ')
                   FROM generate_series(1, 12) AS p)
               || CASE WHEN n %% 300 = 0 THEN ' 火锅' ELSE '' END || CASE WHEN n %% 3 = 0 THEN ' 今天' ELSE '' END || ' ',
           1, (SELECT array_agg(random() - 0.5 + 0 * (n + p)) FROM generate_series(1, %(dim)s) AS p)::real[]::halfvec,
           CASE WHEN n %% 1000 = 5 THEN 'archived' ELSE 'active' END, CASE WHEN n %% 1000 = 5 THEN now() END, 'import'
    FROM generate_series(1, %(rows)s) AS n
"""


@pytest.fixture(scope="module")
async def full(databases: DatabaseFactory, template_url: str) -> AsyncIterator[Database]:
    """A database with 100,000 rows, counted, vacuumed, with the vector index of the big conversation."""
    url = await databases.clone(template_url)
    database = Database(url)
    await database.open()
    async with database.connection() as conn:
        await conn.execute("SET statement_timeout = 0")
        await conn.execute("SET maintenance_work_mem = '256MB'")
        await conn.execute("INSERT INTO embedding_spaces (model, dim) VALUES ('one', %(dim)s)", {"dim": DIM})
        await conn.execute("INSERT INTO conversations (kind, target_id) VALUES ('group', 5700000001), ('group', 5700000002)")
        await _without_index(conn)
        await conn.execute(
            sql.SQL(
                """
                CREATE INDEX {name} ON memories USING hnsw ((embedding::halfvec({dim})) halfvec_cosine_ops)
                WITH (m = 8, ef_construction = 32) WHERE conversation_id = {big} AND space_id = 1
                """
            ).format(name=sql.Identifier(hnsw_name(BIG, 1)), dim=sql.Literal(DIM), big=sql.Literal(BIG))
        )
        await conn.execute("VACUUM ANALYZE memories")
        await count_terms(conn)
        await conn.execute("RESET ALL")
    yield database
    await database.close()
    await databases.drop(url)


async def _without_index(conn: Connection) -> None:
    """Fill the table with its text index out of the way, which is quicker, and make the index again."""
    async with conn.cursor(row_factory=scalar_row) as cur:
        await cur.execute("SELECT pg_get_indexdef('memories_text'::regclass)")
        definition = str(await cur.fetchone())
    await conn.execute("DROP INDEX memories_text")
    await conn.execute("SELECT setseed(0.5)")
    await conn.execute(_FILL, {"rows": ROWS + ROWS // 50, "dim": DIM, "big": BIG, "small": SMALL, "rare": RARE.user_id})
    await conn.execute(definition.encode())


async def plan(conn: Connection, query: bytes, values: Mapping[str, object], *, generic: bool = False) -> str:
    """Explain a statement as its leg would run it, all in one line."""
    async with conn.transaction(), conn.cursor(row_factory=scalar_row) as cur:
        if generic:
            await cur.execute("SET LOCAL plan_cache_mode = force_generic_plan")
        await cur.execute(b"EXPLAIN (COSTS off) " + query, values)
        return " ".join(" ".join(map(str, await cur.fetchall())).split())


async def scans(conn: Connection) -> Counter[str]:
    """How often each index of memories was searched, and (under an empty name) the table read whole."""
    await conn.execute("SELECT pg_stat_force_next_flush()")
    rows = await (
        await conn.execute(
            """
            SELECT indexrelname::text, idx_scan FROM pg_stat_user_indexes WHERE relname = 'memories'
            UNION ALL
            SELECT '', seq_scan FROM pg_stat_user_tables WHERE relname = 'memories'
            """
        )
    ).fetchall()
    return Counter(dict(rows))


async def others(conn: Connection) -> int:
    """How many connections this database has."""
    row = await (
        await conn.execute(
            """
            SELECT count(*) FROM pg_stat_activity
            WHERE datname = current_database() AND backend_type = 'client backend'
            """
        )
    ).fetchone()
    return int(row[0]) if row is not None else 0


async def used(url: str, asks: list[Ask], scope: Scope) -> Counter[str]:
    """Recall once through connections of its own, and tell what was searched."""
    async with await AsyncConnection.connect(url, autocommit=True) as conn:
        before, alone = await scans(conn), await others(conn)
        database = Database(url)
        await database.open()
        await recall(database, asks, scope, Wish(10))
        await database.close()
        # Backends hand in their counts when they end, a little after their client.
        for _ in range(400):
            if await others(conn) <= alone:
                break
            await asyncio.sleep(0.05)
        return await scans(conn) - before


async def test_the_text_leg_uses_the_trigram_index(full: Database) -> None:
    query = read_query(0, "今天有没有人去吃火锅")
    assert query is not None
    async with full.connection() as conn:
        told = await plan(conn, TEXT_LEG.encode(), text_values([query], Scope((BIG,)), 30), generic=True)
    words = "Bitmap Index Scan on memories_text Index Cond: ((ARRAY[conversation_id] && '{1}'::bigint[]) AND (search ~~"
    alike = "Bitmap Index Scan on memories_text Index Cond: ((ARRAY[conversation_id] && '{1}'::bigint[]) AND (search %>"
    assert words in told.replace("-> ", "")
    assert alike in told.replace("-> ", "")


async def test_the_vector_leg_uses_the_index_of_its_conversation(full: Database) -> None:
    values = {
        **scope_values(Scope((BIG,))),
        "asks": [0],
        "vectors": [vector_literal(some_vector(1).values)],
        "space": 1,
        "limit": 30,
    }
    async with full.connection() as conn:
        told = await plan(conn, vector_leg(DIM), values)
    assert f"Index Scan using {hnsw_name(BIG, 1)}" in told


async def test_a_recall_reads_both_indexes_and_never_the_whole_table(full: Database) -> None:
    asks = [Ask("今天有没有人去吃火锅", some_vector(1))]
    seen = await used(full._url, asks, Scope((BIG,)))  # pyright: ignore[reportPrivateUsage]
    assert seen["memories_text"] > 0
    assert seen[hnsw_name(BIG, 1)] == 1
    assert seen[""] == 0
    seen = await used(full._url, asks, Scope((SMALL,)))  # pyright: ignore[reportPrivateUsage]
    assert seen["memories_text"] > 0
    assert seen[hnsw_name(BIG, 1)] == seen[""] == 0


FILTERS = [
    Scope((BIG,)),
    Scope((SMALL,)),
    Scope((BIG, SMALL)),
    Scope((BIG,), subjects=(RARE,)),
    Scope((BIG,), kinds=("goal",)),
    Scope((BIG,), statuses=("archived",)),
    Scope((BIG,), subjects=(RARE,), statuses=("active", "archived")),
    Scope((BIG,), subjects=(Subject("member", 5000000003),), kinds=("goal",)),
]


@pytest.mark.parametrize("scope", FILTERS)
async def test_ten_of_ten_rows_come_under_every_filter(full: Database, scope: Scope) -> None:
    for seed in range(3):
        found = await recall(full, [Ask("", some_vector(seed))], scope, Wish(10))
        assert len(found) == 10
        assert all(one.vector_rank is not None for one in found)
    # Every third row holds 今天.
    found = await recall(full, [Ask("今天")], scope, Wish(10))
    assert len(found) == 10


async def test_a_search_that_the_index_cuts_short_is_done_again_in_full(full: Database) -> None:
    scope = Scope((BIG,), kinds=("goal",), statuses=("archived",))
    async with full.connection() as conn:
        await conn.execute(
            """
            UPDATE memories SET status = 'archived', archived_at = now()
            WHERE id IN (SELECT id FROM memories WHERE conversation_id = %(big)s AND kind = 'goal' ORDER BY id LIMIT 7)
            """,
            {"big": BIG},
        )
    found = await recall(full, [Ask("", some_vector(5))], scope, Wish(10))
    assert len(found) == 7


async def test_the_index_finds_nearly_what_comparing_every_vector_finds(full: Database) -> None:
    hits = 0
    for seed in range(10, 20):
        by_index = await recall(full, [Ask("", some_vector(seed))], Scope((BIG,)), Wish(10, prior=False))
        exact = await recall(full, [Ask("", some_vector(seed))], Scope((BIG, ConversationId(3))), Wish(10, prior=False))
        hits += len({one.memory.id for one in by_index} & {one.memory.id for one in exact})
    assert hits >= 80


@pytest.mark.parametrize("query", ["今天", "火锅", "一", "今天火锅" * 2000, "火" * 100], ids=len)
async def test_common_words_rare_words_and_long_questions_end_in_time(full: Database, query: str) -> None:
    async with full.connection() as conn:
        [read] = [asked for asked in [read_query(0, query)] if asked is not None]
        found = await text_places(conn, [read], Scope((BIG,)), 30)
    assert len(found) <= 30
