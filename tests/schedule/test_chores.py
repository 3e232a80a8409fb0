"""Chores: nothing is left half done, however much there is."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from db.pool import Database
from plugins.schedule import chores
from tests.schedule.test_upkeep import LIMIT, LONG_AGO, count, fill

NOW = datetime.now(UTC)


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chores, "PIECE", 1)
    monkeypatch.setattr(chores, "FILL_PIECE", 1)
    monkeypatch.setattr(chores, "REST_SECONDS", 0.0)


async def test_cleaning_goes_on_until_nothing_old_is_left(database: Database) -> None:
    await fill(database)
    async with database.connection() as conn:
        await conn.execute(
            """
            INSERT INTO messages (conversation_id, pos, sender_id, sender_name, body, sent_at, stored_at)
            SELECT id, 3 + n, 5000000011, '小明', '也是旧的', %(old)s, %(old)s FROM conversations, generate_series(1, 4) n
            """,
            {"old": LONG_AGO},
        )
    assert await chores.clean(database, LIMIT, NOW) == 5
    assert await count(database, "messages") == 2
    assert await count(database, "turns") == 1
    assert await count(database, "outbox") == 1


async def test_cleaning_takes_vectors_of_messages_that_say_nothing_any_more(database: Database) -> None:
    await fill(database)
    async with database.connection() as conn:
        await conn.execute("UPDATE messages SET text = body, sent_at = now(), stored_at = now()")
        await conn.execute("UPDATE messages SET withdrawn_at = now(), text = '' WHERE pos = 3")
        await conn.execute("INSERT INTO message_vectors (message, conversation_id) SELECT id, conversation_id FROM messages")
    assert await chores.clean(database, NOW - timedelta(days=90), NOW) == 0
    assert await count(database, "message_vectors") == 2


async def test_cleaning_takes_memories_that_were_archived_long_ago(database: Database) -> None:
    await fill(database)
    async with database.connection() as conn:
        await conn.execute(
            """
            INSERT INTO memories (conversation_id, subject_kind, kind, content, content_key, search, source, status,
                                  archived_why, archived_at)
            SELECT c.id, 'group', 'fact', t.content, t.content, t.content, 'agent', t.status, t.why, t.at
            FROM conversations c,
                 (VALUES ('早归档的', 'archived', 'superseded', %(old)s), ('刚归档的', 'archived', 'superseded', %(new)s),
                         ('在用的', 'active', NULL, NULL)) AS t(content, status, why, at)
            """,
            {"old": LONG_AGO, "new": NOW},
        )
    await chores.clean(database, LIMIT, NOW)
    async with database.connection() as conn:
        rows = await (await conn.execute("SELECT content FROM memories ORDER BY id")).fetchall()
    assert [row[0] for row in rows] == ["刚归档的", "在用的"]


async def test_old_messages_become_searchable_to_the_last(database: Database) -> None:
    await fill(database)
    assert await chores.make_searchable(database) == 3
    async with database.connection() as conn:
        rows = await (await conn.execute("SELECT search FROM messages ORDER BY pos")).fetchall()
    assert [row[0].split() for row in rows] == [["旧的"], ["欠着", "着的"], ["新的"]]
    assert await chores.make_searchable(database) == 0
