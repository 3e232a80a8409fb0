"""How traits end with their evidence: in the transaction that withdraws the messages, as sets."""

from __future__ import annotations

from collections.abc import Sequence

from psycopg.rows import scalar_row

from db.models import ConversationId
from db.pool import Connection


async def withdrawn(conn: Connection, messages: Sequence[int]) -> None:
    """Drop what has too little evidence left without these messages (row ids). Must run inside a transaction.

    An alias needs one message, everything else two. What a person locked stays.
    """
    async with conn.cursor(row_factory=scalar_row) as cur:
        await cur.execute(
            """
            SELECT t.id FROM traits t
            WHERE t.id IN (SELECT trait_id FROM trait_evidence WHERE message = ANY(%(messages)s))
            ORDER BY t.id
            FOR UPDATE
            """,
            {"messages": list(messages)},
        )
        touched = await cur.fetchall()
    if not touched:
        return
    await conn.execute("DELETE FROM trait_evidence WHERE message = ANY(%(messages)s)", {"messages": list(messages)})
    await conn.execute(
        """
        UPDATE traits t
        SET dropped_at = now(), dropped_why = 'withdrawn', version = t.version + 1, updated_at = now()
        WHERE t.id = ANY(%(touched)s) AND t.dropped_at IS NULL AND NOT t.locked
          AND (SELECT count(*) FROM trait_evidence e JOIN messages m ON m.id = e.message
               WHERE e.trait_id = t.id AND m.withdrawn_at IS NULL) < CASE t.kind WHEN 'alias' THEN 1 ELSE 2 END
        """,
        {"touched": touched},
    )


async def forgotten(conn: Connection, conversation_id: ConversationId, user_id: int) -> None:
    """Delete what was derived from a member's words or is about them. Must run inside a transaction.

    That is their own profile, locked or dropped too, and the traits of others that name them by their number.
    """
    async with conn.cursor(row_factory=scalar_row) as cur:
        await cur.execute(
            """
            DELETE FROM traits t
            WHERE t.conversation_id = %(conversation)s
              AND (t.user_id = %(user)s
                   OR EXISTS (SELECT FROM members p
                              WHERE p.conversation_id = t.conversation_id AND p.user_id = %(user)s
                                AND strpos(t.content, '[' || p.no || ']') > 0))
            RETURNING t.id
            """,
            {"conversation": conversation_id, "user": user_id},
        )
        gone = await cur.fetchall()
    await _forget_acts(conn, conversation_id, user_id, gone)


async def _forget_acts(conn: Connection, conversation_id: ConversationId, user_id: int, gone: Sequence[int]) -> None:
    """Take the words of traits out of the audit log, also of those deleted earlier: who did what stays."""
    await conn.execute(
        """
        UPDATE audit
        SET before = before - 'content', after = after - 'content'
        WHERE conversation_id = %(conversation)s AND target_kind = 'trait'
          AND (target_id = ANY(%(gone)s) OR (coalesce(before, after) ->> 'user_id')::bigint = %(user)s)
        """,
        {"conversation": conversation_id, "user": user_id, "gone": list(gone)},
    )
