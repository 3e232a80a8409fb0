"""Queries of owed calls: mentions, replies and name calls that no finished turn has shown yet."""

from __future__ import annotations

from datetime import datetime

from psycopg.rows import class_row

from db.models import CallKind, ConversationId, MessageRow, OwedCall
from db.pool import Connection


async def due(conn: Connection, conversation_id: ConversationId, now: datetime) -> list[OwedCall]:
    """List the open calls of a conversation if any of them is due; oldest first.

    A call that failed waits for its ``retry_at``; a new one makes all of them due, since one turn shows them all.
    """
    async with conn.cursor(row_factory=class_row(OwedCall)) as cur:
        await cur.execute(
            """
            SELECT message, conversation_id, account_id, pos, kind, owed_at, tries
            FROM owed
            WHERE conversation_id = %(id)s AND settled_at IS NULL
              AND EXISTS (SELECT FROM owed d
                          WHERE d.conversation_id = %(id)s AND d.settled_at IS NULL AND d.retry_at <= %(now)s)
            ORDER BY pos
            """,
            {"id": conversation_id, "now": now},
        )
        return await cur.fetchall()


async def settle_shown(conn: Connection, conversation_id: ConversationId, *, turn_id: int, shown_pos: int) -> int:
    """Settle every call that a finished turn showed to its model; returns how many."""
    cur = await conn.execute(
        """
        UPDATE owed
        SET settled_at = now(), settled_by = %(turn)s, settled_why = 'shown'
        WHERE conversation_id = %(id)s AND settled_at IS NULL AND pos <= %(shown)s
        """,
        {"id": conversation_id, "turn": turn_id, "shown": shown_pos},
    )
    return cur.rowcount


async def settle_all(conn: Connection, conversation_id: ConversationId, *, why: str) -> int:
    """Settle every open call of a conversation, because a person said so; returns how many."""
    cur = await conn.execute(
        "UPDATE owed SET settled_at = now(), settled_why = %(why)s WHERE conversation_id = %(id)s AND settled_at IS NULL",
        {"id": conversation_id, "why": why},
    )
    return cur.rowcount


async def postpone(conn: Connection, conversation_id: ConversationId, *, now: datetime, base: float, cap: float) -> None:
    """After a failed turn let the open calls wait: ``base`` seconds, doubled for each try, at most ``cap``."""
    await conn.execute(
        """
        UPDATE owed
        SET tries = tries + 1,
            retry_at = %(now)s + least(%(cap)s, %(base)s * power(2, least(tries, 20))) * interval '1 second'
        WHERE conversation_id = %(id)s AND settled_at IS NULL
        """,
        {"id": conversation_id, "now": now, "base": base, "cap": cap},
    )


async def add(conn: Connection, message: MessageRow, *, account_id: int, kind: CallKind) -> bool:
    """Write down a call that was understood late (the quoted message had to be fetched); False if it owes already."""
    cur = await conn.execute(
        """
        INSERT INTO owed (message, conversation_id, account_id, pos, kind)
        SELECT m.id, m.conversation_id, %(account)s, m.pos, %(kind)s
        FROM messages m
        WHERE m.id = %(message)s AND m.withdrawn_at IS NULL AND NOT m.is_self
        ON CONFLICT (message) DO NOTHING
        """,
        {"message": message, "account": account_id, "kind": kind},
    )
    return cur.rowcount > 0
