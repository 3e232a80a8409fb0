"""Deleting what is older than the owner wants to keep, a bounded piece at a time."""

from __future__ import annotations

from datetime import datetime

from db.pool import Connection


async def old_messages(conn: Connection, before: datetime, *, limit: int) -> int:
    """Delete messages older than a moment that nothing is owed for and nothing of value stands on. Returns how many.

    A memory stands on its evidence while it is active, or while another one holds its text; slang and expressions while they
    are approved or locked; a trait while it is current.
    """
    cur = await conn.execute(
        """
        DELETE FROM messages
        WHERE id IN (SELECT m.id
                     FROM messages m
                     WHERE m.sent_at < %(before)s AND m.stored_at < %(before)s
                       AND NOT EXISTS (SELECT FROM owed o WHERE o.message = m.id AND o.settled_at IS NULL)
                       AND NOT EXISTS (SELECT FROM memory_evidence e JOIN memories y ON y.id = e.memory_id
                                       WHERE e.message = m.id
                                         AND (y.status = 'active'
                                              OR EXISTS (SELECT FROM memory_links l
                                                         WHERE l.old_id = y.id AND l.relation = 'refines')))
                       AND NOT EXISTS (SELECT FROM slang_evidence e JOIN slang s ON s.id = e.slang_id
                                       WHERE e.message = m.id AND (s.status = 'approved' OR s.locked))
                       AND NOT EXISTS (SELECT FROM expression_evidence e JOIN expressions x ON x.id = e.expression_id
                                       WHERE e.message = m.id AND (x.status = 'approved' OR x.locked))
                       AND NOT EXISTS (SELECT FROM trait_evidence e JOIN traits t ON t.id = e.trait_id
                                       WHERE e.message = m.id AND t.dropped_at IS NULL)
                     LIMIT %(limit)s)
        """,
        {"before": before, "limit": limit},
    )
    return cur.rowcount


async def old_memories(conn: Connection, before: datetime, *, limit: int) -> int:
    """Delete memories that were archived before a moment, but none that a person locked or another was built from.

    Returns how many. The other goes first: with its origin deleted, a withdrawal could not find it.
    """
    cur = await conn.execute(
        """
        DELETE FROM memories
        WHERE id IN (SELECT m.id
                     FROM memories m
                     WHERE m.status = 'archived' AND m.archived_at < %(before)s AND NOT m.locked
                       AND NOT EXISTS (SELECT FROM memory_links l WHERE l.old_id = m.id AND l.relation = 'refines')
                     LIMIT %(limit)s)
        """,
        {"before": before, "limit": limit},
    )
    return cur.rowcount


async def old_traits(conn: Connection, before: datetime, *, limit: int) -> int:
    """Delete the traits of members who left before a moment, and those that the learner dropped before it.

    Returns how many. What a person took from a member who is still there stays: it must not come back.
    """
    cur = await conn.execute(
        """
        DELETE FROM traits
        WHERE id IN (SELECT t.id
                     FROM traits t
                     LEFT JOIN members p ON p.conversation_id = t.conversation_id AND p.user_id = t.user_id
                     WHERE p.left_at < %(before)s OR (t.dropped_at < %(before)s AND t.dropped_why <> 'person')
                     LIMIT %(limit)s)
        """,
        {"before": before, "limit": limit},
    )
    return cur.rowcount


async def bare_expressions(conn: Connection, *, limit: int) -> int:
    """Delete candidates that nobody decided on and whose messages are all gone. Returns how many."""
    cur = await conn.execute(
        """
        DELETE FROM expressions
        WHERE id IN (SELECT x.id
                     FROM expressions x
                     WHERE x.status = 'candidate' AND NOT x.locked AND x.decided_by IS NULL
                       AND NOT EXISTS (SELECT FROM expression_evidence e WHERE e.expression_id = x.id)
                     LIMIT %(limit)s)
        """,
        {"limit": limit},
    )
    return cur.rowcount


async def empty_topics(conn: Connection, *, limit: int) -> int:
    """Delete topics whose messages are all gone, with their summaries. Returns how many."""
    cur = await conn.execute(
        """
        DELETE FROM topics
        WHERE id IN (SELECT t.id
                     FROM topics t
                     WHERE NOT EXISTS (SELECT FROM topic_messages x WHERE x.topic_id = t.id)
                     LIMIT %(limit)s)
        """,
        {"limit": limit},
    )
    return cur.rowcount


async def old_turns(conn: Connection, before: datetime, *, limit: int) -> int:
    """Delete ended turns older than a moment, with their blocks and steps. Returns how many."""
    cur = await conn.execute(
        """
        DELETE FROM turns
        WHERE id IN (SELECT id FROM turns WHERE ended_at < %(before)s ORDER BY id LIMIT %(limit)s)
        """,
        {"before": before, "limit": limit},
    )
    return cur.rowcount


async def old_records(conn: Connection, before: datetime) -> int:
    """Delete sends, happenings and model calls older than a moment. Returns how many."""
    cur = await conn.execute(
        """
        WITH sends AS (DELETE FROM outbox WHERE created_at < %(before)s AND status NOT IN ('waiting', 'sending') RETURNING 1),
             events AS (DELETE FROM happenings WHERE happened_at < %(before)s RETURNING 1),
             calls AS (DELETE FROM model_calls WHERE called_at < %(before)s RETURNING 1)
        SELECT (SELECT count(*) FROM sends) + (SELECT count(*) FROM events) + (SELECT count(*) FROM calls)
        """,
        {"before": before},
    )
    row = await cur.fetchone()
    return int(row[0]) if row is not None else 0
