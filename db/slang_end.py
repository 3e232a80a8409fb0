"""How slang end with their evidence: in the transaction that withdraws the messages, as sets."""

from __future__ import annotations

from collections.abc import Sequence

from psycopg.rows import scalar_row

from db import slang_counts
from db.models import ConversationId
from db.pool import Connection

_OURS = "NOT s.locked AND (s.status = 'candidate' OR s.status = 'rejected' OR s.decided_by = 'auto')"
"""Rows whose text no person vouches for."""


async def withdrawn(conn: Connection, messages: Sequence[int]) -> None:
    """End what lost its last evidence with these messages (row ids). Must run inside a transaction.

    A candidate without evidence goes; a meaning that was inferred from these messages goes too, and is inferred anew where
    other evidence stands. What a person approved keeps its text, and leaves the prompt when no evidence stands; what a person
    wrote or rejected stays.
    """
    touched = await _touched(conn, messages)
    if not touched:
        return
    await _hold(conn, touched)
    supported = await _take_evidence(conn, messages)
    await _take_meanings(conn, touched, messages)
    await _delete_bare(conn, supported)
    await slang_counts.recount(conn, touched)


async def forgotten(conn: Connection, conversation_id: ConversationId, user_id: int) -> None:
    """Delete what was derived from a member's words or is about them. Must run inside a transaction.

    As when their messages are withdrawn; what a person approved goes too where only their words supported it.
    """
    messages = await _said_by(conn, conversation_id, user_id)
    touched = await _touched(conn, messages)
    if not touched:
        return
    await _hold(conn, touched)
    supported = await _take_evidence(conn, messages)
    await _take_meanings(conn, touched, messages)
    gone = await _delete_unsupported(conn, supported)
    await _forget_acts(conn, conversation_id, gone)
    await slang_counts.recount(conn, touched, without=user_id)


async def _said_by(conn: Connection, conversation_id: ConversationId, user_id: int) -> list[int]:
    """Find the messages of a member that support anything."""
    async with conn.cursor(row_factory=scalar_row) as cur:
        await cur.execute(
            """
            SELECT m.id
            FROM messages m
            WHERE m.conversation_id = %(conversation)s AND m.sender_id = %(user)s AND NOT m.is_self
              AND (EXISTS (SELECT FROM slang_evidence e WHERE e.message = m.id)
                   OR EXISTS (SELECT FROM slang_meanings n WHERE n.sources @> ARRAY[m.id]))
            """,
            {"conversation": conversation_id, "user": user_id},
        )
        return await cur.fetchall()


async def _touched(conn: Connection, messages: Sequence[int]) -> list[int]:
    """Find the rows that these messages support, or whose meaning came from them."""
    async with conn.cursor(row_factory=scalar_row) as cur:
        await cur.execute(
            """
            SELECT slang_id FROM slang_evidence WHERE message = ANY(%(messages)s)
            UNION
            SELECT slang_id FROM slang_meanings WHERE sources && %(messages)s::bigint[]
            """,
            {"messages": list(messages)},
        )
        return await cur.fetchall()


async def _hold(conn: Connection, ids: Sequence[int]) -> None:
    await conn.execute("SELECT FROM slang WHERE id = ANY(%(ids)s) ORDER BY id FOR UPDATE", {"ids": list(ids)})


async def _take_evidence(conn: Connection, messages: Sequence[int]) -> list[int]:
    """Take messages from the evidence; gives the rows that they supported."""
    async with conn.cursor(row_factory=scalar_row) as cur:
        await cur.execute(
            "DELETE FROM slang_evidence WHERE message = ANY(%(messages)s) RETURNING slang_id", {"messages": list(messages)}
        )
        return sorted(set(await cur.fetchall()))


async def _take_meanings(conn: Connection, touched: Sequence[int], messages: Sequence[int]) -> None:
    """Delete the meanings that came from these messages, and empty the rows whose present text is one of them."""
    await conn.execute(
        f"""
        WITH latest AS (
            SELECT DISTINCT ON (slang_id) slang_id, sources
            FROM slang_meanings
            WHERE slang_id = ANY(%(touched)s)
            ORDER BY slang_id, id DESC
        ), gone AS (
            DELETE FROM slang_meanings
            WHERE slang_id = ANY(%(touched)s) AND sources && %(messages)s::bigint[]
        )
        UPDATE slang s
        SET meaning = '', meaning_plain = '', inferred_at = 0,
            status = CASE WHEN s.status = 'approved' THEN 'candidate' ELSE s.status END,
            decided_by = CASE WHEN s.decided_by = 'auto' THEN NULL ELSE s.decided_by END,
            version = s.version + 1, updated_at = now()
        FROM latest l
        WHERE s.id = l.slang_id AND l.sources && %(messages)s::bigint[] AND {_OURS}
        """,
        {"touched": list(touched), "messages": list(messages)},
    )


async def _delete_bare(conn: Connection, ids: Sequence[int]) -> None:
    """Delete candidates that nobody decided on and that have no evidence left."""
    await conn.execute(
        """
        DELETE FROM slang s
        WHERE s.id = ANY(%(ids)s) AND NOT s.locked AND s.status <> 'rejected' AND coalesce(s.decided_by, 'auto') = 'auto'
          AND NOT EXISTS (SELECT FROM slang_evidence e JOIN messages m ON m.id = e.message
                          WHERE e.slang_id = s.id AND m.withdrawn_at IS NULL)
        """,
        {"ids": list(ids)},
    )


async def _delete_unsupported(conn: Connection, ids: Sequence[int]) -> list[int]:
    """Delete what has no evidence left, whoever approved it, but not what a person wrote or rejected; gives the rows."""
    async with conn.cursor(row_factory=scalar_row) as cur:
        await cur.execute(
            """
            DELETE FROM slang s
            WHERE s.id = ANY(%(ids)s) AND NOT s.locked AND s.status <> 'rejected'
              AND NOT EXISTS (SELECT FROM slang_evidence e JOIN messages m ON m.id = e.message
                              WHERE e.slang_id = s.id AND m.withdrawn_at IS NULL)
            RETURNING s.id
            """,
            {"ids": list(ids)},
        )
        return await cur.fetchall()


async def _forget_acts(conn: Connection, conversation_id: ConversationId, gone: Sequence[int]) -> None:
    """Take the words of rows that went out of the audit log: who did what stays."""
    await conn.execute(
        """
        UPDATE audit
        SET before = before - ARRAY['term', 'meaning', 'meaning_without_context', 'note'],
            after = after - ARRAY['term', 'meaning', 'meaning_without_context', 'note']
        WHERE conversation_id = %(conversation)s AND target_kind = 'slang' AND target_id = ANY(%(gone)s)
        """,
        {"conversation": conversation_id, "gone": list(gone)},
    )
