"""How expressions end with their evidence: in the transaction that withdraws the messages, as sets."""

from __future__ import annotations

from collections.abc import Sequence

from psycopg.rows import scalar_row

from db.models import ConversationId
from db.pool import Connection


async def withdrawn(conn: Connection, messages: Sequence[int]) -> None:
    """End what lost its last evidence with these messages (row ids). Must run inside a transaction.

    It goes with its words, also where a person approved it: nobody says it any more. What a person wrote stays; of what a
    person rejected only the hash stays that keeps it from coming back.
    """
    touched = await _take_evidence(conn, messages)
    await _end(conn, touched, merged=False)


async def forgotten(conn: Connection, conversation_id: ConversationId, user_id: int) -> None:
    """Delete what was derived from a member's words or is about them. Must run inside a transaction.

    As when their messages are withdrawn; also the words of what was merged into a row that they supported.
    """
    touched = await _take_evidence(conn, await _said_by(conn, conversation_id, user_id))
    await _end(conn, touched, merged=True)


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
    """Take messages from the evidence; gives the rows that they supported and what was merged into them, held."""
    async with conn.cursor(row_factory=scalar_row) as cur:
        await cur.execute(
            """
            WITH supported AS (
                SELECT DISTINCT expression_id AS id FROM expression_evidence WHERE message = ANY(%(messages)s)
            )
            SELECT x.id FROM expressions x
            WHERE x.id IN (SELECT id FROM supported) OR x.merged_into IN (SELECT id FROM supported)
            ORDER BY x.id
            FOR UPDATE OF x
            """,
            {"messages": list(messages)},
        )
        touched = await cur.fetchall()
    await conn.execute("DELETE FROM expression_evidence WHERE message = ANY(%(messages)s)", {"messages": list(messages)})
    return touched


async def _end(conn: Connection, touched: Sequence[int], *, merged: bool) -> None:
    """End the touched rows that nothing supports any more; ``merged``: those that were merged, whatever supports the other."""
    async with conn.cursor(row_factory=scalar_row) as cur:
        await cur.execute(
            """
            SELECT x.id FROM expressions x
            WHERE x.id = ANY(%(touched)s) AND x.source = 'model'
              AND NOT EXISTS (SELECT FROM expression_evidence e
                              WHERE e.expression_id = x.id OR (e.expression_id = x.merged_into AND NOT %(merged)s))
            """,
            {"touched": list(touched), "merged": merged},
        )
        bare = await cur.fetchall()
    if bare:
        await _empty(conn, bare)
        await conn.execute(
            "DELETE FROM expressions WHERE id = ANY(%(bare)s) AND status <> 'rejected' AND NOT locked", {"bare": bare}
        )
        await _forget_acts(conn, bare)


async def _empty(conn: Connection, bare: Sequence[int]) -> None:
    """Take the words out of what a person rejected: only a hash of them says what is not to come back."""
    await conn.execute(
        """
        UPDATE expressions
        SET situation = '已忘记', phrase = '已忘记', note = '', pair_key = 'md5:' || md5(pair_key), phrase_key = '', search = '',
            phrase_search = '', space_id = NULL, embedding = NULL, version = version + 1, updated_at = now()
        WHERE id = ANY(%(bare)s) AND status = 'rejected' AND NOT locked AND phrase_key <> ''
        """,
        {"bare": list(bare)},
    )


async def _forget_acts(conn: Connection, bare: Sequence[int]) -> None:
    """Take the words of rows out of the audit log: who did what stays."""
    await conn.execute(
        """
        UPDATE audit
        SET before = before - ARRAY['situation', 'phrase', 'note'], after = after - ARRAY['situation', 'phrase', 'note']
        WHERE target_kind = 'expression' AND target_id = ANY(%(bare)s)
        """,
        {"bare": list(bare)},
    )
