"""Queries of embeddings, on real PostgreSQL."""

from __future__ import annotations

import asyncio

import pytest

from db.embeddings import (
    Embedded,
    EmbeddingCounts,
    Waiting,
    count_embedded,
    ensure_space,
    lacking_memories,
    trim_message_vectors,
    waiting_memories,
    waiting_messages,
    write_memories,
    write_messages,
)
from db.memory_models import MemoryId
from db.models import ConversationId
from db.pool import Connection, Database
from tests.llm.embedding_world import add_memories, add_messages, spaces_of, texts_of


@pytest.fixture
async def conversation(database: Database) -> ConversationId:
    """A group's row."""
    return await group(database, 5700000011)


async def group(database: Database, target_id: int) -> ConversationId:
    async with database.connection() as conn:
        cur = await conn.execute(
            "INSERT INTO conversations (kind, target_id) VALUES ('group', %(target)s) RETURNING id", {"target": target_id}
        )
        row = await cur.fetchone()
    assert row is not None
    return ConversationId(row[0])


async def rows_read(conn: Connection) -> dict[str, int]:
    """How many rows of each table this transaction has read; what came shortly before it may be in there."""
    cur = await conn.execute(
        """
        SELECT relname, seq_tup_read + coalesce(idx_tup_fetch, 0) FROM pg_stat_xact_user_tables
        WHERE relname IN ('memories', 'message_vectors', 'messages')
        """
    )
    return {row[0]: row[1] for row in await cur.fetchall()}


async def test_a_space_is_one_row_whoever_makes_it(database: Database):
    async def make() -> int:
        async with database.connection() as conn:
            return await ensure_space(conn, "toy", 16)

    ids = await asyncio.gather(*(make() for _ in range(6)))
    assert len(set(ids)) == 1
    async with database.connection() as conn:
        assert await ensure_space(conn, "toy", 8) != ids[0]
        assert await ensure_space(conn, "other", 16) != ids[0]


async def test_what_waits_is_without_a_vector_or_in_another_space_newest_first(database: Database, conversation: ConversationId):
    ids = await add_memories(database, conversation, ["一", "二", "三", "四", "五"])
    async with database.connection() as conn:
        old, older, now = [await ensure_space(conn, "toy", dim) for dim in (2, 3, 4)]
        await write_memories(conn, old, [Embedded(ids[0], "一", "[1,0]")])
        await write_memories(conn, older, [Embedded(ids[3], "四", "[1,0,0]")])
        await write_memories(conn, now, [Embedded(ids[2], "三", "[1,0,0,0]")])
        assert texts_of(await waiting_memories(conn, now, limit=9)) == ["五", "四", "二", "一"]
        assert texts_of(await waiting_memories(conn, now, limit=2)) == ["五", "四"]
        assert texts_of(await waiting_memories(conn, now, limit=2, skip=[ids[4], ids[0]])) == ["四", "二"]
        assert await lacking_memories(conn, now, [ids[0], ids[2], MemoryId(10**12)]) == [Waiting(ids[0], "一")]


async def test_messages_that_were_withdrawn_or_say_nothing_do_not_wait(database: Database, conversation: ConversationId):
    ids = await add_messages(database, conversation, ["一", "二", "", "四"])
    async with database.connection() as conn:
        now = await ensure_space(conn, "toy", 2)
        await conn.execute("UPDATE messages SET withdrawn_at = now() WHERE text = '二'")
        assert texts_of(await waiting_messages(conn, now, limit=9)) == ["四", "一"]
        assert texts_of(await waiting_messages(conn, now, limit=9, skip=[ids[3]])) == ["一"]
        await write_messages(conn, await ensure_space(conn, "old", 2), [Embedded(ids[0], "一", "[1,0]")])
        assert texts_of(await waiting_messages(conn, now, limit=9)) == ["四", "一"]


async def test_a_vector_is_written_only_for_the_text_that_was_embedded(database: Database, conversation: ConversationId):
    (memory,) = await add_memories(database, conversation, ["小明喜欢猫"])
    (message,) = await add_messages(database, conversation, ["我喜欢猫"])
    async with database.connection() as conn:
        space = await ensure_space(conn, "toy", 2)
        assert await write_memories(conn, space, [Embedded(memory, "小明喜欢狗", "[1,0]")]) == 0
        assert await write_messages(conn, space, [Embedded(message, "我喜欢狗", "[1,0]")]) == 0
        assert await write_memories(conn, space, [Embedded(memory, "小明喜欢猫", "[1,0]")]) == 1
        await conn.execute("UPDATE messages SET withdrawn_at = now()")
        assert await write_messages(conn, space, [Embedded(message, "我喜欢猫", "[1,0]")]) == 0
    assert await spaces_of(database) == {memory: ("toy", 2)}
    assert await spaces_of(database, "message_vectors") == {message: None}


async def test_counting(database: Database, conversation: ConversationId):
    ids = await add_memories(database, conversation, ["一", "二", "三"])
    messages = await add_messages(database, conversation, ["一", "二"])
    async with database.connection() as conn:
        space, other = await ensure_space(conn, "toy", 2), await ensure_space(conn, "old", 2)
        await write_memories(conn, space, [Embedded(ids[0], "一", "[1,0]"), Embedded(ids[1], "二", "[1,0]")])
        await write_memories(conn, other, [Embedded(ids[2], "三", "[1,0]")])
        await write_messages(conn, space, [Embedded(messages[1], "二", "[1,0]")])
        assert await count_embedded(conn, space) == EmbeddingCounts(3, 2, 2, 1)
        assert await count_embedded(conn, None) == EmbeddingCounts(3, 0, 2, 0)


async def test_only_the_newest_messages_of_each_conversation_keep_a_vector(database: Database, conversation: ConversationId):
    ids = await add_messages(database, conversation, [f"第{number}句" for number in range(8)])
    other = await add_messages(database, await group(database, 5700000012), ["一", "二"])
    async with database.connection() as conn:
        assert await trim_message_vectors(conn, limit=3, keep=4) == 3
        assert await trim_message_vectors(conn, limit=3, keep=4) == 1
        assert await trim_message_vectors(conn, limit=3, keep=4) == 0
    assert set(await spaces_of(database, "message_vectors")) == {*ids[4:], *other}


async def test_messages_that_say_nothing_lose_their_vector(database: Database, conversation: ConversationId):
    ids = await add_messages(database, conversation, ["一", "二", "三"])
    async with database.connection() as conn:
        await conn.execute("UPDATE messages SET withdrawn_at = now() WHERE text = '一'")
        await conn.execute("UPDATE messages SET text = '' WHERE text = '二'")
        assert await trim_message_vectors(conn, limit=100) == 2
    assert set(await spaces_of(database, "message_vectors")) == {ids[2]}


async def test_finding_what_waits_reads_few_rows_however_many_are_done(database: Database, conversation: ConversationId):
    await add_memories(database, conversation, [f"第{number}件事" for number in range(5000)])
    await add_messages(database, conversation, [f"第{number}句话" for number in range(5000)])
    async with database.connection() as conn:
        old, now = await ensure_space(conn, "old", 2), await ensure_space(conn, "toy", 2)
        await conn.execute("UPDATE memories SET space_id = %(space)s, embedding = '[1,0]'", {"space": now})
        await conn.execute("UPDATE message_vectors SET space_id = %(space)s, embedding = '[1,0]'", {"space": now})
        await conn.execute("UPDATE memories SET space_id = %(old)s WHERE content LIKE '第7%%'", {"old": old})
        for table in ("memories", "message_vectors", "messages"):
            await conn.execute(f"VACUUM ANALYZE {table}".encode())
    async with database.transaction() as conn:
        before = await rows_read(conn)
        assert len(await waiting_memories(conn, now, limit=16)) == 16
        assert await waiting_messages(conn, now, limit=16) == []
        after = await rows_read(conn)
    assert set(after) == {"memories", "message_vectors", "messages"}
    assert {table: count for table, count in after.items() if count - before[table] > 100} == {}
