"""Withdrawing under the ids of several accounts, whichever hears first."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

from db.conversations import KnownConversation, ensure
from db.ingest import store
from db.models import ConversationKey
from db.pool import Connection, Database
from db.sightings import NewMessage
from db.withdraw import withdraw

FIRST, SECOND = 5000000001, 5000000002
NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)


async def take(conn: Connection, *messages: NewMessage) -> None:
    async with conn.transaction():
        [where] = await ensure(conn, [KnownConversation(ConversationKey("group", 5700000001))])
        last = {where.id: where.last_pos}
        await store(conn, [replace(message, conversation_id=where.id) for message in messages], last)


def seen_by(account: int, message_id: int) -> NewMessage:
    return NewMessage(
        conversation_id=0,  # type: ignore[arg-type]
        account_id=account,
        message_id=message_id,
        real_seq=7,
        sender_id=5000000011,
        sender_name="小明",
        sent_at=NOW,
        text="说错了",
        body="说错了",
        call="mention",
        called_account=FIRST,
    )


async def test_a_notice_of_another_account_that_comes_before_its_message_withdraws_it(database: Database) -> None:
    async with database.connection() as conn:
        await take(conn, seen_by(FIRST, 101))
        assert await withdraw(conn, SECOND, 202, operator_id=5000000011, at=NOW) is None
        await take(conn, seen_by(SECOND, 202))
        rows = await (await conn.execute("SELECT withdrawn_at, withdrawn_by FROM messages")).fetchall()
        owed = await (await conn.execute("SELECT settled_why FROM owed")).fetchall()
    assert rows == [(NOW, 5000000011)]
    assert owed == [("withdrawn",)]


async def test_a_second_sight_leaves_what_nobody_withdrew(database: Database) -> None:
    async with database.connection() as conn:
        await take(conn, seen_by(FIRST, 101))
        await withdraw(conn, SECOND, 303, operator_id=None, at=NOW)
        await take(conn, seen_by(SECOND, 202))
        rows = await (await conn.execute("SELECT withdrawn_at FROM messages")).fetchall()
    assert rows == [(None,)]
