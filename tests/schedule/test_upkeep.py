"""Old rows go, what is owed stays."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from db import upkeep
from db.pool import Database

NOW = datetime.now(UTC)
LONG_AGO = NOW - timedelta(days=100)
LIMIT = NOW - timedelta(days=90)


async def fill(database: Database) -> None:
    """Two old messages, one of them owed, and a new one; an old and a new turn, send, happening and model call."""
    async with database.connection() as conn:
        await conn.execute("INSERT INTO conversations (kind, target_id) VALUES ('group', 5700000001)")
        await conn.execute(
            """
            INSERT INTO messages (conversation_id, pos, sender_id, sender_name, body, sent_at, stored_at)
            SELECT c.id, t.pos, 5000000011, '小明', t.body, t.at, t.at
            FROM conversations c, (VALUES (1, '旧的', %(old)s), (2, '欠着的', %(old)s), (3, '新的', %(new)s)) AS t(pos, body, at)
            """,
            {"old": LONG_AGO, "new": NOW},
        )
        await conn.execute(
            """
            INSERT INTO owed (message, conversation_id, account_id, pos, kind)
            SELECT id, conversation_id, 5000000001, pos, 'mention' FROM messages WHERE body = '欠着的'
            """
        )
        for moment in (LONG_AGO, NOW):
            await conn.execute(
                """
                WITH ended AS (INSERT INTO turns (conversation_id, account_id, trigger, status, ended_at)
                               SELECT id, 5000000001, 'mention', 'done', %(at)s FROM conversations
                               RETURNING id, conversation_id),
                     step AS (INSERT INTO turn_steps (turn_id, no, kind, name, ok, started_at, ms)
                              SELECT id, 1, 'model', 'fake', true, %(at)s, 1 FROM ended),
                     send AS (INSERT INTO outbox (conversation_id, account_id, segments, text, status, created_at)
                              SELECT conversation_id, 5000000001, '[]', '好', 'sent', %(at)s FROM ended),
                     news AS (INSERT INTO happenings (conversation_id, kind, happened_at)
                              SELECT conversation_id, 'joined', %(at)s FROM ended)
                INSERT INTO model_calls (called_at, task, role, model, ok) VALUES (%(at)s, 'turn', 'chat', 'fake', true)
                """,
                {"at": moment},
            )


async def count(database: Database, table: str) -> int:
    """Count a table's rows."""
    async with database.connection() as conn:
        row = await (await conn.execute(f"SELECT count(*) FROM {table}".encode())).fetchone()
    assert row is not None
    return int(row[0])


async def test_old_messages_go_unless_they_are_owed(database: Database) -> None:
    await fill(database)
    async with database.connection() as conn:
        assert await upkeep.old_messages(conn, LIMIT, limit=10) == 1
        rows = await (await conn.execute("SELECT body FROM messages ORDER BY pos")).fetchall()
    assert [row[0] for row in rows] == ["欠着的", "新的"]


async def test_old_turns_go_with_their_steps(database: Database) -> None:
    await fill(database)
    async with database.connection() as conn:
        assert await upkeep.old_turns(conn, LIMIT, limit=10) == 1
    assert await count(database, "turns") == 1
    assert await count(database, "turn_steps") == 1


async def test_old_records_go(database: Database) -> None:
    await fill(database)
    async with database.connection() as conn:
        assert await upkeep.old_records(conn, LIMIT) == 3
    assert [await count(database, table) for table in ("outbox", "happenings", "model_calls")] == [1, 1, 1]
