"""Reports and moderation straight on the database, where HTTP does not reach."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from db import moderation, reports, turn_reports
from db.models import ConversationId, ConversationKey
from db.moderation import ConversationSettings
from db.pool import Database
from db.reports import Page

GROUP = ConversationKey("group", 7000000301)
DAY = datetime(2026, 11, 29, 16, 0, tzinfo=UTC)


async def _group(database: Database) -> ConversationId:
    async with database.connection() as conn:
        cursor = await conn.execute(
            "INSERT INTO conversations (kind, target_id, name) VALUES ('group', 7000000301, '读书会') RETURNING id"
        )
        row = await cursor.fetchone()
    assert row is not None
    return ConversationId(row[0])


async def test_backfilled_messages_are_read_where_they_were_sent(database: Database) -> None:
    group = await _group(database)
    async with database.connection() as conn:
        await conn.execute(
            """
            INSERT INTO messages (conversation_id, pos, real_seq, sender_id, sender_name, text, body, sent_at, backfilled)
            SELECT %(group)s, m.pos, m.seq, 5000000031, '阿绿', m.text, m.text, %(at)s, m.pos > 3
            FROM (VALUES (1, 10::bigint, '甲'), (2, 14, '戊'), (3, NULL, '己'), (4, 11, '乙'), (5, 12, '丙'), (6, 13, '丁'))
                 AS m(pos, seq, text)
            """,
            {"group": group, "at": DAY},
        )
        items = await reports.messages(conn, Page(limit=10, key=GROUP))
        newest = await reports.messages(conn, Page(limit=2, key=GROUP))
    assert "".join(item.text for item in items) == "甲乙丙丁戊己"
    assert [item.pos for item in newest] == [5, 6]


async def test_only_todays_answered_calls_count(database: Database) -> None:
    group = await _group(database)
    async with database.connection() as conn:
        await conn.execute(
            """
            INSERT INTO model_calls (called_at, conversation_id, task, role, model, ok)
            SELECT c.at, %(group)s, 'turn', 'chat', 'm-1', c.ok
            FROM (VALUES (%(day)s::timestamptz, true), (%(day)s::timestamptz - interval '1 second', true),
                         (%(day)s::timestamptz + interval '1 hour', false)) AS c(at, ok)
            """,
            {"group": group, "day": DAY},
        )
        [row] = await reports.conversations(conn, day_start=DAY, only=group)
        assert await reports.conversations(conn, day_start=DAY, only=group + 1) == []
    assert row.calls_today == 1
    assert (row.last_message_at, row.owed) == (None, 0)


async def test_no_turn_no_rows(database: Database) -> None:
    async with database.connection() as conn:
        assert await turn_reports.turn(conn, 1) is None
        assert await turn_reports.blocks(conn, 1) == []
        assert await turn_reports.steps(conn, 1) == []
        assert await turn_reports.calls(conn, 1) == []
        assert await reports.conversations(conn, day_start=DAY) == []


async def test_a_change_and_its_audit_row_stand_or_fall_together(database: Database) -> None:
    group = await _group(database)

    async def change_and_break() -> None:
        async with database.transaction() as conn:
            assert await moderation.change_settings(conn, group, ConversationSettings(enabled=True), actor="5000000031")
            raise RuntimeError("after the change")

    with pytest.raises(RuntimeError, match="after the change"):
        await change_and_break()
    async with database.connection() as conn:
        [row] = await reports.conversations(conn, day_start=DAY, only=group)
        assert row.enabled is None
        assert await reports.audit(conn, Page(limit=10)) == []


async def test_the_audit_log_outlives_its_conversation(database: Database) -> None:
    group = await _group(database)
    async with database.transaction() as conn:
        await moderation.change_settings(conn, group, ConversationSettings(talk_frequency=0.0), actor="5000000031")
    async with database.connection() as conn:
        await conn.execute("DELETE FROM conversations")
        [entry] = await reports.audit(conn, Page(limit=10))
        assert await reports.audit(conn, Page(limit=10, key=GROUP)) == []
        assert await reports.audit(conn, Page(limit=10, before=entry.id)) == []
    assert (entry.actor, entry.before, entry.after) == ("5000000031", {"talk_frequency": None}, {"talk_frequency": 0.0})
    assert (entry.conversation_id, entry.target_id) == (None, None)
