"""How slang end with their evidence: in the transaction that withdraws the messages, as sets."""

from __future__ import annotations

from collections.abc import Sequence

from psycopg.rows import scalar_row

from db import slang_counts
from db.models import ConversationId
from db.pool import Connection

_OURS = "NOT s.locked AND (s.status = 'candidate' OR s.status = 'rejected' OR s.decided_by = 'auto')"
"""Rows whose text no person vouches for."""
_TEXTS = ("meaning", "meaning_without_context")
_WORDS = ("term", *_TEXTS, "note")


async def withdrawn(conn: Connection, messages: Sequence[int]) -> None:
    """End what lost its last evidence with these messages (row ids). Must run inside a transaction.

    A candidate without evidence goes; a meaning that was inferred from these messages goes too, and is inferred anew where
    other evidence stands. What a person approved keeps its text while evidence stands; without any it is an empty row. What a
    person wrote or rejected stays. What ends here leaves the audit log as well: no undo brings it back.
    """
    touched = await _touched(conn, messages)
    if not touched:
        return
    await _hold(conn, touched)
    supported = await _take_evidence(conn, messages)
    await _forget_meanings(conn, touched, messages)
    await _take_meanings(conn, touched, messages)
    await _forget_acts(conn, await _delete_bare(conn, supported), _WORDS)
    await _forget_acts(conn, await _empty_bare(conn, supported), _TEXTS)
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
    await _forget_meanings(conn, touched, messages)
    await _take_meanings(conn, touched, messages)
    await _forget_acts(conn, await _delete_unsupported(conn, supported), _WORDS)
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
    """Keep rows from changing until the commit, and before them their acts, as an undo does."""
    await conn.execute(
        "SELECT FROM audit WHERE target_kind = 'slang' AND target_id = ANY(%(ids)s) ORDER BY id FOR UPDATE", {"ids": list(ids)}
    )
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


async def _forget_meanings(conn: Connection, touched: Sequence[int], messages: Sequence[int]) -> None:
    """Take the meanings that came from these messages out of the audit log, whatever the rows mean now."""
    await conn.execute(
        """
        WITH gone AS (
            SELECT n.slang_id, array_agg(t.text) AS texts
            FROM slang_meanings n
            CROSS JOIN LATERAL (VALUES (n.meaning), (n.meaning_plain)) AS t (text)
            WHERE n.slang_id = ANY(%(touched)s) AND n.sources && %(messages)s::bigint[] AND t.text <> ''
            GROUP BY n.slang_id
        )
        UPDATE audit a
        SET before = CASE WHEN g.texts && ARRAY[a.before ->> 'meaning', a.before ->> 'meaning_without_context']
                          THEN a.before - %(fields)s::text[] ELSE a.before END,
            after = CASE WHEN g.texts && ARRAY[a.after ->> 'meaning', a.after ->> 'meaning_without_context']
                         THEN a.after - %(fields)s::text[] ELSE a.after END
        FROM gone g
        WHERE a.target_kind = 'slang' AND a.target_id = g.slang_id
        """,
        {"touched": list(touched), "messages": list(messages), "fields": list(_TEXTS)},
    )


async def _delete_bare(conn: Connection, ids: Sequence[int]) -> list[int]:
    """Delete candidates that nobody decided on and that have no evidence left; gives the rows."""
    async with conn.cursor(row_factory=scalar_row) as cur:
        await cur.execute(
            """
            DELETE FROM slang s
            WHERE s.id = ANY(%(ids)s) AND NOT s.locked AND s.status <> 'rejected' AND coalesce(s.decided_by, 'auto') = 'auto'
              AND NOT EXISTS (SELECT FROM slang_evidence e JOIN messages m ON m.id = e.message
                              WHERE e.slang_id = s.id AND m.withdrawn_at IS NULL)
            RETURNING s.id
            """,
            {"ids": list(ids)},
        )
        return await cur.fetchall()


async def _empty_bare(conn: Connection, ids: Sequence[int]) -> list[int]:
    """Empty what a person approved, but did not write, and what has no evidence left; gives the rows.

    It is in no prompt any more, and later nothing would tell whose words its meaning came from.
    """
    async with conn.cursor(row_factory=scalar_row) as cur:
        await cur.execute(
            """
            UPDATE slang s
            SET meaning = '', meaning_plain = '', inferred_at = 0, version = s.version + 1, updated_at = now()
            WHERE s.id = ANY(%(ids)s) AND NOT s.locked AND s.status = 'approved'
              AND NOT EXISTS (SELECT FROM slang_evidence e JOIN messages m ON m.id = e.message
                              WHERE e.slang_id = s.id AND m.withdrawn_at IS NULL)
            RETURNING s.id
            """,
            {"ids": list(ids)},
        )
        return await cur.fetchall()


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


async def _forget_acts(conn: Connection, ids: Sequence[int], fields: Sequence[str]) -> None:
    """Take words of rows out of the audit log: who did what stays."""
    await conn.execute(
        """
        UPDATE audit
        SET before = before - %(fields)s::text[], after = after - %(fields)s::text[]
        WHERE target_kind = 'slang' AND target_id = ANY(%(ids)s)
        """,
        {"ids": list(ids), "fields": list(fields)},
    )
