"""Queries of owed calls: mentions, replies and name calls that no finished turn has shown yet."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from psycopg.rows import class_row

from db.models import CallKind, ConversationId, MessageRow, OwedCall, TurnId
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


async def settle_removed(conn: Connection, conversation_id: ConversationId, account_id: int) -> int:
    """Settle the mentions of and replies to an account that is no longer in the group; returns how many.

    A name call stays open: another own account in the group may answer it.
    """
    cur = await conn.execute(
        """
        UPDATE owed SET settled_at = now(), settled_why = 'removed'
        WHERE conversation_id = %(id)s AND account_id = %(account)s AND kind <> 'name' AND settled_at IS NULL
        """,
        {"id": conversation_id, "account": account_id},
    )
    return cur.rowcount


async def settle_answered(conn: Connection, turns: Sequence[TurnId]) -> int:
    """Settle the calls that interrupted turns had seen and said something to; returns how many.

    A message that left may have arrived and is never said again by itself, so its turn must not run again either.
    What was owed when a turn started is what its snapshot showed.
    """
    cur = await conn.execute(
        """
        UPDATE owed o
        SET settled_at = now(), settled_by = t.id, settled_why = 'answered'
        FROM turns t
        WHERE t.id = ANY(%(turns)s) AND o.conversation_id = t.conversation_id
          AND o.settled_at IS NULL AND o.owed_at <= t.started_at
          AND EXISTS (SELECT FROM outbox x WHERE x.turn_id = t.id AND x.status IN ('sending', 'sent', 'unknown'))
        """,
        {"turns": list(turns)},
    )
    return cur.rowcount


async def postpone(conn: Connection, calls: Sequence[MessageRow], *, now: datetime, base: float, cap: float) -> int:
    """Let the open ones of these calls wait: ``base`` seconds, doubled for each try, at most ``cap``. Returns how many."""
    cur = await conn.execute(
        """
        UPDATE owed
        SET tries = tries + 1,
            retry_at = %(now)s + least(%(cap)s, %(base)s * power(2, least(tries, 20))) * interval '1 second'
        WHERE message = ANY(%(calls)s) AND settled_at IS NULL
        """,
        {"calls": list(calls), "now": now, "base": base, "cap": cap},
    )
    return cur.rowcount


async def expire(conn: Connection, before: datetime) -> int:
    """Settle calls from before a moment: nobody waits for an answer any more. Returns how many."""
    cur = await conn.execute(
        "UPDATE owed SET settled_at = now(), settled_why = 'expired' WHERE settled_at IS NULL AND owed_at < %(before)s",
        {"before": before},
    )
    return cur.rowcount


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
