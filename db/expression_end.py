"""How expressions end with their evidence: in the transaction that withdraws the messages, as sets."""

from __future__ import annotations

from collections.abc import Sequence

from psycopg.rows import scalar_row

from db.models import ConversationId
from db.pool import Connection


async def withdrawn(conn: Connection, messages: Sequence[int]) -> None:
    """End what lost its last evidence with these messages (row ids). Must run inside a transaction.

    A candidate without evidence goes. What a person approved leaves the prompt and stays for people to see; what a person
    wrote or rejected stays as it is.
    """
    touched = await _take_evidence(conn, messages)
    await conn.execute(
        """
        DELETE FROM expressions x
        WHERE x.id = ANY(%(touched)s) AND x.status = 'candidate' AND NOT x.locked
          AND NOT EXISTS (SELECT FROM expression_evidence e WHERE e.expression_id = x.id)
        """,
        {"touched": touched},
    )


async def forgotten(conn: Connection, conversation_id: ConversationId, user_id: int) -> None:
    """Delete what was derived from a member's words or is about them. Must run inside a transaction.

    As when their messages are withdrawn; what a person approved goes too where only their words supported it.
    """
    touched = await _take_evidence(conn, await _said_by(conn, conversation_id, user_id))
    async with conn.cursor(row_factory=scalar_row) as cur:
        await cur.execute(
            """
            DELETE FROM expressions x
            WHERE x.id = ANY(%(touched)s) AND x.status <> 'rejected' AND NOT x.locked
              AND NOT EXISTS (SELECT FROM expression_evidence e WHERE e.expression_id = x.id)
            RETURNING x.id
            """,
            {"touched": touched},
        )
        gone = await cur.fetchall()
    await _forget_acts(conn, conversation_id, gone)


async def _said_by(conn: Connection, conversation_id: ConversationId, user_id: int) -> list[int]:
    """Find the messages of a member that support anything."""
    async with conn.cursor(row_factory=scalar_row) as cur:
        await cur.execute(
            """
            SELECT DISTINCT m.id
            FROM expression_evidence e
            JOIN messages m ON m.id = e.message
            WHERE m.conversation_id = %(conversation)s AND m.sender_id = %(user)s AND NOT m.is_self
            """,
            {"conversation": conversation_id, "user": user_id},
        )
        return await cur.fetchall()


async def _take_evidence(conn: Connection, messages: Sequence[int]) -> list[int]:
    """Take messages from the evidence; gives the rows that they supported, held until the commit."""
    async with conn.cursor(row_factory=scalar_row) as cur:
        await cur.execute(
            """
            SELECT x.id FROM expressions x
            WHERE x.id IN (SELECT expression_id FROM expression_evidence WHERE message = ANY(%(messages)s))
            ORDER BY x.id
            FOR UPDATE
            """,
            {"messages": list(messages)},
        )
        touched = await cur.fetchall()
    await conn.execute("DELETE FROM expression_evidence WHERE message = ANY(%(messages)s)", {"messages": list(messages)})
    return touched


async def _forget_acts(conn: Connection, conversation_id: ConversationId, gone: Sequence[int]) -> None:
    """Take the words of rows that went out of the audit log: who did what stays."""
    await conn.execute(
        """
        UPDATE audit
        SET before = before - ARRAY['situation', 'phrase', 'note'], after = after - ARRAY['situation', 'phrase', 'note']
        WHERE conversation_id = %(conversation)s AND target_kind = 'expression' AND target_id = ANY(%(gone)s)
        """,
        {"conversation": conversation_id, "gone": list(gone)},
    )
