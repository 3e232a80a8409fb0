"""How claims end with their evidence: in the transaction that withdraws the messages, as sets."""

from __future__ import annotations

from collections.abc import Sequence

from psycopg.rows import scalar_row

from db.models import ConversationId
from db.pool import Connection


async def withdrawn(conn: Connection, messages: Sequence[int]) -> int:
    """Archive the claims that lost their last evidence with these messages, and those whose text was built from such a claim.

    What such a claim had taken the place of counts again, where evidence of its own still stands. Locked claims stay: a
    person vouches for them. The messages leave the search too. Returns how many claims were archived.
    Must run inside a transaction, after the messages were marked.
    """
    await _leave_search(conn, messages)
    async with conn.cursor(row_factory=scalar_row) as cur:
        await cur.execute(
            """
            WITH RECURSIVE touched AS (
                SELECT DISTINCT e.memory_id AS id FROM memory_evidence e WHERE e.message = ANY(%(messages)s)
            ), bare AS (
                SELECT m.id
                FROM memories m
                JOIN touched t ON t.id = m.id
                WHERE NOT m.locked
                  AND NOT EXISTS (SELECT FROM memory_evidence e JOIN messages s ON s.id = e.message
                                  WHERE e.memory_id = m.id AND s.withdrawn_at IS NULL)
            ), gone AS (
                SELECT id FROM bare
                UNION
                SELECT l.new_id
                FROM gone g
                JOIN memory_links l ON l.old_id = g.id AND l.relation = 'refines'
                JOIN memories n ON n.id = l.new_id AND NOT n.locked
            )
            UPDATE memories m
            SET status = 'archived', archived_why = 'withdrawn', archived_at = coalesce(m.archived_at, now()),
                updated_at = now(), version = m.version + 1
            FROM gone g
            WHERE m.id = g.id AND m.archived_why IS DISTINCT FROM 'withdrawn'
            RETURNING m.id
            """,
            {"messages": list(messages)},
        )
        gone = await cur.fetchall()
    if gone:
        await conn.execute("DELETE FROM memory_uses WHERE memory_id = ANY(%(gone)s)", {"gone": gone})
        await _stand_again(conn, gone)
    return len(gone)


async def _leave_search(conn: Connection, messages: Sequence[int]) -> None:
    await conn.execute(
        """
        WITH vectors AS (DELETE FROM message_vectors WHERE message = ANY(%(messages)s))
        UPDATE messages SET search = '' WHERE id = ANY(%(messages)s) AND search IS DISTINCT FROM ''
        """,
        {"messages": list(messages)},
    )


async def _stand_again(conn: Connection, gone: Sequence[int]) -> None:
    """Make active again what archived claims had taken the place of, as far as it has evidence and no equal is active."""
    await conn.execute(
        """
        UPDATE memories m
        SET status = 'active', archived_why = NULL, archived_at = NULL, updated_at = now(), version = m.version + 1
        WHERE m.id IN (SELECT DISTINCT ON (o.conversation_id, o.subject_kind, o.subject_id, o.kind, o.content_key) o.id
                       FROM memories o
                       JOIN memory_links l ON l.old_id = o.id
                       WHERE l.new_id = ANY(%(gone)s) AND l.relation IN ('refines', 'supersedes')
                         AND o.id <> ALL(%(gone)s) AND o.status = 'archived' AND o.archived_why IN ('refined', 'superseded')
                         AND (o.locked OR EXISTS (SELECT FROM memory_evidence e JOIN messages s ON s.id = e.message
                                                  WHERE e.memory_id = o.id AND s.withdrawn_at IS NULL))
                         AND NOT EXISTS (SELECT FROM memory_links k JOIN memories n ON n.id = k.new_id
                                         WHERE k.old_id = o.id AND k.relation IN ('refines', 'supersedes')
                                           AND n.status = 'active' AND n.id <> ALL(%(gone)s))
                         AND NOT EXISTS (SELECT FROM memories a
                                         WHERE a.conversation_id = o.conversation_id AND a.subject_kind = o.subject_kind
                                           AND a.subject_id = o.subject_id AND a.kind = o.kind
                                           AND a.content_key = o.content_key AND a.status = 'active'
                                           AND a.id <> ALL(%(gone)s))
                       ORDER BY o.conversation_id, o.subject_kind, o.subject_id, o.kind, o.content_key, o.id DESC)
        """,
        {"gone": list(gone)},
    )


async def forgotten(conn: Connection, conversation_id: ConversationId, user_id: int) -> int:
    """Delete what is known of a member and what only their words support, with all that was built from it.

    Locked and archived claims too. Their words leave the evidence of the rest. Returns how many claims went.
    Must run inside a transaction, while the member's messages still name them as the sender.
    """
    async with conn.cursor(row_factory=scalar_row) as cur:
        await cur.execute(
            """
            WITH RECURSIVE own AS (
                SELECT e.memory_id AS id
                FROM memory_evidence e
                JOIN messages s ON s.id = e.message
                WHERE s.conversation_id = %(conversation)s AND s.sender_id = %(user)s AND NOT s.is_self
            ), lost AS (
                SELECT m.id
                FROM memories m
                WHERE m.conversation_id = %(conversation)s
                  AND ((m.subject_kind = 'member' AND m.subject_id = %(user)s)
                       OR (m.id IN (SELECT id FROM own)
                           AND NOT EXISTS (SELECT FROM memory_evidence e JOIN messages s ON s.id = e.message
                                           WHERE e.memory_id = m.id AND s.withdrawn_at IS NULL
                                             AND (s.is_self OR s.sender_id <> %(user)s))))
            ), gone AS (
                SELECT id FROM lost
                UNION
                SELECT l.new_id FROM gone g JOIN memory_links l ON l.old_id = g.id AND l.relation = 'refines'
            )
            SELECT id FROM gone
            """,
            {"conversation": conversation_id, "user": user_id},
        )
        gone = await cur.fetchall()
    await conn.execute(
        """
        UPDATE memories SET status = 'archived', archived_why = 'withdrawn', archived_at = now()
        WHERE id = ANY(%(gone)s) AND status = 'active'
        """,
        {"gone": gone},
    )
    await _stand_again(conn, gone)
    await conn.execute("DELETE FROM memories WHERE id = ANY(%(gone)s)", {"gone": gone})
    await conn.execute(
        """
        DELETE FROM memory_evidence e USING messages s
        WHERE s.id = e.message AND s.conversation_id = %(conversation)s AND s.sender_id = %(user)s AND NOT s.is_self
        """,
        {"conversation": conversation_id, "user": user_id},
    )
    return len(gone)
