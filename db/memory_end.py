"""How claims end with their evidence: in the transaction that withdraws the messages, as sets."""

from __future__ import annotations

from collections.abc import Sequence

from psycopg.errors import UniqueViolation
from psycopg.rows import scalar_row

from db.models import ConversationId
from db.pool import Connection

_TRIES = 3


async def withdrawn(conn: Connection, messages: Sequence[int]) -> int:
    """Archive the claims that lost their last evidence with these messages, and those whose text was built from such a claim.

    What such a claim had taken the place of counts again, where evidence of its own still stands. Locked claims stay: a
    person vouches for them. The messages leave the search too. Returns how many claims were archived.
    Must run inside a transaction, after the messages were marked.
    """
    await _leave_search(conn, messages)
    async with conn.cursor(row_factory=scalar_row) as cur:
        await cur.execute(
            "SELECT DISTINCT memory_id FROM memory_evidence WHERE message = ANY(%(messages)s)", {"messages": list(messages)}
        )
        touched = await cur.fetchall()
    if not touched:
        return 0
    await _hold(conn, touched)
    async with conn.cursor(row_factory=scalar_row) as cur:
        await cur.execute(
            """
            WITH RECURSIVE bare AS (
                SELECT m.id
                FROM memories m
                WHERE m.id = ANY(%(touched)s) AND NOT m.locked
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
            {"touched": touched},
        )
        gone = await cur.fetchall()
    if gone:
        await conn.execute("DELETE FROM memory_uses WHERE memory_id = ANY(%(gone)s)", {"gone": gone})
        await stand_again(conn, gone)
    return len(gone)


async def _leave_search(conn: Connection, messages: Sequence[int]) -> None:
    await conn.execute(
        """
        WITH vectors AS (DELETE FROM message_vectors WHERE message = ANY(%(messages)s))
        UPDATE messages SET search = '' WHERE id = ANY(%(messages)s) AND search IS DISTINCT FROM ''
        """,
        {"messages": list(messages)},
    )


async def _hold(conn: Connection, ids: Sequence[int]) -> None:
    """Keep claims from changing until the commit, with all that they followed and that followed them.

    A claim may be built upon while its row is waited for, so this looks again until it finds nothing new.
    """
    held = -1
    while True:
        cur = await conn.execute(
            """
            WITH RECURSIVE kin AS (
                SELECT unnest(%(ids)s::bigint[]) AS id
                UNION
                SELECT CASE WHEN l.old_id = k.id THEN l.new_id ELSE l.old_id END
                FROM kin k
                JOIN memory_links l ON (l.old_id = k.id OR l.new_id = k.id) AND l.relation IN ('refines', 'supersedes')
            )
            SELECT FROM memories m WHERE m.id IN (SELECT id FROM kin) ORDER BY m.id FOR NO KEY UPDATE OF m
            """,
            {"ids": list(ids)},
        )
        if cur.rowcount == held:
            return
        held = cur.rowcount


async def stand_again(conn: Connection, gone: Sequence[int]) -> None:
    """Make active again what ended claims had taken the place of. Must run inside a transaction."""
    for _ in range(_TRIES):
        try:
            async with conn.transaction():
                return await _restore(conn, gone)
        except UniqueViolation:
            # An equal claim was written at the same moment: now it is seen, and stands instead.
            continue


async def _restore(conn: Connection, gone: Sequence[int]) -> None:
    """Of what the ended claims followed, the latest stands again that has evidence, unless an heir or an equal is active."""
    await conn.execute(
        """
        WITH RECURSIVE earlier AS (
            SELECT l.old_id AS id
            FROM memory_links l
            WHERE l.new_id = ANY(%(gone)s) AND l.relation IN ('refines', 'supersedes')
            UNION
            SELECT l.old_id
            FROM earlier e
            JOIN memories m ON m.id = e.id AND m.archived_why = 'withdrawn'
            JOIN memory_links l ON l.new_id = e.id AND l.relation IN ('refines', 'supersedes')
        ), able AS (
            SELECT o.id, o.conversation_id, o.subject_kind, o.subject_id, o.kind, o.content_key
            FROM memories o
            JOIN earlier e ON e.id = o.id
            WHERE o.archived_why IN ('refined', 'superseded')
              AND (o.locked OR EXISTS (SELECT FROM memory_evidence v JOIN messages s ON s.id = v.message
                                       WHERE v.memory_id = o.id AND s.withdrawn_at IS NULL))
        ), heirs AS (
            SELECT a.id AS root, l.new_id AS id
            FROM able a
            JOIN memory_links l ON l.old_id = a.id AND l.relation IN ('refines', 'supersedes')
            UNION
            SELECT h.root, l.new_id
            FROM heirs h
            JOIN memory_links l ON l.old_id = h.id AND l.relation IN ('refines', 'supersedes')
        )
        UPDATE memories m
        SET status = 'active', archived_why = NULL, archived_at = NULL, updated_at = now(), version = m.version + 1
        WHERE m.id IN (SELECT DISTINCT ON (a.conversation_id, a.subject_kind, a.subject_id, a.kind, a.content_key) a.id
                       FROM able a
                       WHERE NOT EXISTS (SELECT FROM heirs h JOIN memories n ON n.id = h.id
                                         WHERE h.root = a.id AND (n.status = 'active' OR n.id IN (SELECT id FROM able)))
                         AND NOT EXISTS (SELECT FROM memories t
                                         WHERE t.conversation_id = a.conversation_id AND t.subject_kind = a.subject_kind
                                           AND t.subject_id = a.subject_id AND t.kind = a.kind
                                           AND t.content_key = a.content_key AND t.status = 'active')
                       ORDER BY a.conversation_id, a.subject_kind, a.subject_id, a.kind, a.content_key, a.id DESC)
        """,
        {"gone": list(gone)},
    )


async def forgotten(conn: Connection, conversation_id: ConversationId, user_id: int) -> int:
    """Delete what is known of a member and what only their words support, with all that was built from it.

    Locked and archived claims too. Their words leave the evidence of the rest. Returns how many claims went.
    Must run inside a transaction, while the member's messages still name them as the sender.
    """
    touched = await _touched(conn, conversation_id, user_id)
    await _hold(conn, touched)
    async with conn.cursor(row_factory=scalar_row) as cur:
        await cur.execute(
            """
            WITH RECURSIVE gone AS (
                SELECT m.id
                FROM memories m
                WHERE m.id = ANY(%(touched)s)
                  AND ((m.subject_kind = 'member' AND m.subject_id = %(user)s)
                       OR NOT EXISTS (SELECT FROM memory_evidence e JOIN messages s ON s.id = e.message
                                      WHERE e.memory_id = m.id AND s.withdrawn_at IS NULL
                                        AND (s.is_self OR s.sender_id <> %(user)s)))
                UNION
                SELECT l.new_id FROM gone g JOIN memory_links l ON l.old_id = g.id AND l.relation = 'refines'
            )
            UPDATE memories m
            SET status = 'archived', archived_why = 'withdrawn', archived_at = now()
            FROM gone g
            WHERE m.id = g.id
            RETURNING m.id
            """,
            {"touched": touched, "user": user_id},
        )
        gone = await cur.fetchall()
    await stand_again(conn, gone)
    await _forget_acts(conn, conversation_id, user_id, gone)
    await conn.execute("DELETE FROM memories WHERE id = ANY(%(gone)s)", {"gone": gone})
    await conn.execute(
        """
        DELETE FROM memory_evidence e USING messages s
        WHERE s.id = e.message AND s.conversation_id = %(conversation)s AND s.sender_id = %(user)s AND NOT s.is_self
        """,
        {"conversation": conversation_id, "user": user_id},
    )
    return len(gone)


async def _touched(conn: Connection, conversation_id: ConversationId, user_id: int) -> list[int]:
    """Find the claims about a member and those that their words support."""
    async with conn.cursor(row_factory=scalar_row) as cur:
        await cur.execute(
            """
            SELECT id FROM memories
            WHERE conversation_id = %(conversation)s AND subject_kind = 'member' AND subject_id = %(user)s
            UNION
            SELECT e.memory_id
            FROM messages s
            JOIN memory_evidence e ON e.message = s.id
            WHERE s.conversation_id = %(conversation)s AND s.sender_id = %(user)s AND NOT s.is_self
            """,
            {"conversation": conversation_id, "user": user_id},
        )
        return await cur.fetchall()


async def _forget_acts(conn: Connection, conversation_id: ConversationId, user_id: int, gone: Sequence[int]) -> None:
    """Take the words of claims out of the audit log: who did what to which memory stays."""
    await conn.execute(
        """
        UPDATE audit
        SET before = before - 'content', after = after - 'content'
        WHERE conversation_id = %(conversation)s AND action LIKE 'memory.%%'
          AND (before ->> 'id' = ANY(%(gone)s) OR after ->> 'id' = ANY(%(gone)s)
               OR coalesce(before, after) @> jsonb_build_object('subject_kind', 'member', 'subject_id', %(user)s::bigint))
        """,
        {"conversation": conversation_id, "user": user_id, "gone": [str(row) for row in gone]},
    )
