"""Withdrawing: a message leaves every later prompt, with what quotes it and what it alone supports, in one transaction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from psycopg.rows import scalar_row

from db import learned_end, learned_lock, memory_end
from db.models import ConversationId, MessageRow
from db.pool import Connection


async def withdraw(
    conn: Connection, account_id: int, message_id: int, *, operator_id: int | None, at: datetime, early: bool = True
) -> MessageRow | None:
    """Mark a message as withdrawn, take it out of quotes and search, settle what it owed, end the claims it alone supports.

    Returns its row; None when it is not known yet: then the notice waits for the message, unless not ``early``.
    """
    await learned_lock.hold_of(conn, [(account_id, message_id)])
    async with conn.cursor(row_factory=scalar_row) as cur:
        await cur.execute(
            """
            UPDATE messages m
            SET withdrawn_at = coalesce(m.withdrawn_at, %(at)s), withdrawn_by = coalesce(m.withdrawn_by, %(operator)s)
            FROM message_keys k
            WHERE k.account_id = %(account)s AND k.message_id = %(key)s AND m.id = k.message
            RETURNING m.id
            """,
            {"account": account_id, "key": message_id, "operator": operator_id, "at": at},
        )
        row = await cur.fetchone()
    await _unquote_fetched(conn, account_id, message_id, at)
    if row is None:
        if early:
            await _remember(conn, account_id, message_id, operator_id, at)
        return None
    await _unquote(conn, [row])
    await _settle(conn, [row])
    await memory_end.withdrawn(conn, [row])
    await learned_end.withdrawn(conn, [row])
    return MessageRow(row)


async def catch_up(conn: Connection, keys: Sequence[tuple[int, int]]) -> None:
    """Withdraw stored messages whose notice came under an id, (account, message id), that was not known then."""
    if not keys:
        return
    await learned_lock.hold_of_withdrawn(conn, keys)
    async with conn.cursor(row_factory=scalar_row) as cur:
        await cur.execute(
            """
            UPDATE messages m
            SET withdrawn_at = w.withdrawn_at, withdrawn_by = w.operator_id
            FROM unnest(%(accounts)s::bigint[], %(keys)s::bigint[]) AS a(account_id, message_id)
            JOIN early_withdrawals w USING (account_id, message_id)
            JOIN message_keys k USING (account_id, message_id)
            WHERE m.id = k.message AND m.withdrawn_at IS NULL
            RETURNING m.id
            """,
            {"accounts": [key[0] for key in keys], "keys": [key[1] for key in keys]},
        )
        rows = await cur.fetchall()
    if rows:
        await _unquote(conn, rows)
        await _settle(conn, rows)
        await memory_end.withdrawn(conn, rows)
        await learned_end.withdrawn(conn, rows)


async def _remember(conn: Connection, account_id: int, message_id: int, operator_id: int | None, at: datetime) -> None:
    await conn.execute(
        """
        INSERT INTO early_withdrawals (account_id, message_id, operator_id, withdrawn_at)
        VALUES (%(account)s, %(key)s, %(operator)s, %(at)s)
        ON CONFLICT DO NOTHING
        """,
        {"account": account_id, "key": message_id, "operator": operator_id, "at": at},
    )


async def _unquote(conn: Connection, rows: Sequence[int]) -> None:
    await conn.execute(
        "UPDATE messages SET quote_text = NULL WHERE quoted_id = ANY(%(rows)s) AND quote_text IS NOT NULL", {"rows": list(rows)}
    )


async def _unquote_fetched(conn: Connection, account_id: int, message_id: int, at: datetime) -> None:
    """Empty the quotes that were fetched from QQ while the message itself was not stored."""
    await conn.execute(
        """
        UPDATE messages q
        SET quote_text = NULL
        WHERE q.quoted_key = %(key)s AND q.quoted_id IS NULL AND q.quote_text IS NOT NULL
          AND q.sent_at > %(at)s - interval '1 day'
          AND EXISTS (SELECT FROM message_keys k WHERE k.message = q.id AND k.account_id = %(account)s)
        """,
        {"account": account_id, "key": message_id, "at": at},
    )


async def _settle(conn: Connection, rows: Sequence[int]) -> None:
    await conn.execute(
        """
        UPDATE owed SET settled_at = now(), settled_why = 'withdrawn'
        WHERE message = ANY(%(rows)s) AND settled_at IS NULL
        """,
        {"rows": list(rows)},
    )


async def forget_early(conn: Connection, before: datetime) -> int:
    """Drop withdraw notices whose message never came; returns how many."""
    cur = await conn.execute("DELETE FROM early_withdrawals WHERE withdrawn_at < %(before)s", {"before": before})
    return cur.rowcount


async def react(conn: Connection, account_id: int, message_id: int, *, user_id: int, emoji: str, added: bool) -> None:
    """Put a reaction on a stored message, or take it off; unknown messages are left alone."""
    if added:
        await conn.execute(
            """
            INSERT INTO reactions (message, user_id, emoji)
            SELECT k.message, %(user)s, %(emoji)s
            FROM message_keys k
            WHERE k.account_id = %(account)s AND k.message_id = %(key)s
            ON CONFLICT DO NOTHING
            """,
            {"account": account_id, "key": message_id, "user": user_id, "emoji": emoji},
        )
        return
    await conn.execute(
        """
        DELETE FROM reactions r
        USING message_keys k
        WHERE k.account_id = %(account)s AND k.message_id = %(key)s
          AND r.message = k.message AND r.user_id = %(user)s AND r.emoji = %(emoji)s
        """,
        {"account": account_id, "key": message_id, "user": user_id, "emoji": emoji},
    )


@dataclass(frozen=True, slots=True)
class Happening:
    """A join, a leave, a mute and the like."""

    conversation_id: ConversationId
    kind: str
    at: datetime
    user_id: int | None = None
    operator_id: int | None = None
    detail: str = ""


async def happened(conn: Connection, item: Happening) -> bool:
    """Write it down; False when the same was told within a minute."""
    cur = await conn.execute(
        """
        INSERT INTO happenings (conversation_id, kind, user_id, operator_id, detail, happened_at)
        SELECT %(conversation)s, %(kind)s, %(user)s, %(operator)s, %(detail)s, %(at)s
        WHERE NOT EXISTS (SELECT FROM happenings h
                          WHERE h.conversation_id = %(conversation)s AND h.kind = %(kind)s
                            AND h.user_id IS NOT DISTINCT FROM %(user)s::bigint AND h.detail = %(detail)s
                            AND h.happened_at BETWEEN %(at)s::timestamptz - interval '1 minute'
                                                  AND %(at)s::timestamptz + interval '1 minute')
        """,
        {
            "conversation": item.conversation_id,
            "kind": item.kind,
            "user": item.user_id,
            "operator": item.operator_id,
            "detail": item.detail,
            "at": item.at,
        },
    )
    return cur.rowcount > 0
