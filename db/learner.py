"""Queries of the learner: whom it is time to learn from, where each task stands, and who is at it."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta

import psycopg
from psycopg.rows import class_row, scalar_row

from db.learnable import LEARNABLE
from db.learned_models import LearnTask
from db.models import ConversationId, MessageRow
from db.pool import Connection, Database

logger = logging.getLogger(__name__)

MANY = 50
FEW = 10
OLD = timedelta(minutes=15)
"""Due: MANY new messages that count, or FEW of them whose oldest is OLD."""
LOOK = 500
"""Messages that are looked at for that. Where so many do not make it due, the cursor must move over them all the same."""
LONGEST_WAIT_MINUTES = 360
ERROR_CHARS = 500


@dataclass(frozen=True, slots=True)
class Where:
    """Which conversations are learned from: those enabled by their own word, else these groups and friends."""

    groups: Sequence[int]
    friends: Sequence[int]
    only: ConversationId | None = None


@dataclass(frozen=True, slots=True)
class Work:
    """A task, and the one whose cursor it never passes."""

    task: LearnTask
    after: LearnTask | None = None


@dataclass(frozen=True, slots=True)
class Due:
    """A conversation that it is time to learn from, and what for. ``since``: how long it has waited for its turn."""

    conversation_id: ConversationId
    tasks: list[LearnTask]
    since: datetime


_LEARNING = """
    c.learning AND c.left_at IS NULL AND (%(only)s::bigint IS NULL OR c.id = %(only)s)
    AND coalesce(c.enabled, c.target_id = ANY(CASE c.kind WHEN 'group' THEN %(groups)s::bigint[] ELSE %(friends)s::bigint[] END))
"""


async def due(conn: Connection, where: Where, works: Sequence[Work], now: datetime, *, limit: int = 1000) -> list[Due]:
    """Find the conversations that are due, the longest waiting first: since a message came, or since they had their turn."""
    async with conn.cursor(row_factory=class_row(Due)) as cur:
        await cur.execute(
            f"""
            WITH tasks AS (
                SELECT * FROM unnest(%(tasks)s::text[], %(afters)s::text[]) WITH ORDINALITY AS t(task, after, no)
            ), standing AS (
                SELECT c.id, t.task, t.no, coalesce(k.pos, 0) AS pos, k.ran_at,
                       CASE WHEN t.after IS NULL THEN c.last_pos ELSE coalesce(b.pos, 0) END AS upto
                FROM conversations c
                CROSS JOIN tasks t
                LEFT JOIN learner_cursors k ON k.conversation_id = c.id AND k.task = t.task
                LEFT JOIN learner_cursors b ON b.conversation_id = c.id AND b.task = t.after
                WHERE {_LEARNING}
                  AND (k.retry_at IS NULL OR k.retry_at <= %(now)s)
            )
            SELECT s.id AS conversation_id, array_agg(s.task ORDER BY s.no) AS tasks,
                   min(greatest(w.stored_at, s.ran_at)) AS since
            FROM standing s
            CROSS JOIN LATERAL (
                SELECT count(*) AS seen, count(*) FILTER (WHERE l.counts) AS fresh,
                       min(l.sent_at) FILTER (WHERE l.counts) AS oldest, min(l.stored_at) AS stored_at
                FROM (SELECT m.sent_at, m.stored_at,
                             {LEARNABLE} AS counts
                      FROM messages m
                      WHERE m.conversation_id = s.id AND m.pos > s.pos AND m.pos <= s.upto
                      ORDER BY m.pos
                      LIMIT %(look)s) AS l
            ) AS w
            WHERE s.pos < s.upto
              AND (w.fresh >= %(many)s OR w.seen >= %(look)s OR (w.fresh >= %(few)s AND w.oldest <= %(old)s))
            GROUP BY s.id
            ORDER BY since, s.id
            LIMIT %(limit)s
            """,
            {
                "tasks": [work.task for work in works],
                "afters": [work.after for work in works],
                "groups": list(where.groups),
                "friends": list(where.friends),
                "only": where.only,
                "now": now,
                "old": now - OLD,
                "many": MANY,
                "few": FEW,
                "look": LOOK,
                "limit": limit,
            },
        )
        return await cur.fetchall()


async def broken(conn: Connection, where: Where, task: LearnTask, now: datetime) -> list[ConversationId]:
    """List the conversations with topics that wait for a summary, unless the task waits after a failure."""
    async with conn.cursor(row_factory=scalar_row) as cur:
        await cur.execute(
            f"""
            SELECT c.id
            FROM conversations c
            LEFT JOIN learner_cursors k ON k.conversation_id = c.id AND k.task = %(task)s
            WHERE {_LEARNING}
              AND (k.retry_at IS NULL OR k.retry_at <= %(now)s)
              AND EXISTS (SELECT FROM topics t WHERE t.conversation_id = c.id AND t.stale)
            ORDER BY c.id
            """,
            {
                "task": task,
                "only": where.only,
                "groups": list(where.groups),
                "friends": list(where.friends),
                "now": now,
            },
        )
        return [ConversationId(row) for row in await cur.fetchall()]


async def cursor(conn: Connection, conversation_id: ConversationId, task: LearnTask) -> int:
    """Read the last position that a task learned; 0: none."""
    async with conn.cursor(row_factory=scalar_row) as cur:
        await cur.execute(
            "SELECT pos FROM learner_cursors WHERE conversation_id = %(conversation)s AND task = %(task)s",
            {"conversation": conversation_id, "task": task},
        )
        return await cur.fetchone() or 0


@dataclass(frozen=True, slots=True)
class Move:
    """A task's way through a conversation: from the position where it stood to the last one that is learned now."""

    conversation_id: ConversationId
    task: LearnTask
    from_pos: int
    upto: int


async def advance(conn: Connection, move: Move) -> bool:
    """Move a cursor and forget its failures; False: it does not stand where it was expected. In the results' transaction."""
    cur = await conn.execute(
        """
        INSERT INTO learner_cursors AS k (conversation_id, task, pos, ran_at)
        VALUES (%(conversation)s, %(task)s, %(upto)s, now())
        ON CONFLICT (conversation_id, task) DO UPDATE
        SET pos = excluded.pos, failures = 0, retry_at = NULL, last_error = NULL, ran_at = now(), updated_at = now()
        WHERE k.pos = %(from)s
        """,
        {"conversation": move.conversation_id, "task": move.task, "from": move.from_pos, "upto": move.upto},
    )
    return cur.rowcount > 0


async def fail(conn: Connection, conversation_id: ConversationId, task: LearnTask, error: str, now: datetime) -> datetime:
    """Write down that a run failed; the next waits 1, 2, 4 … minutes, six hours at most. Returns until when."""
    async with conn.cursor(row_factory=scalar_row) as cur:
        await cur.execute(
            """
            INSERT INTO learner_cursors AS k (conversation_id, task, failures, retry_at, last_error, ran_at)
            VALUES (%(conversation)s, %(task)s, 1, %(now)s + interval '1 minute', %(error)s, now())
            ON CONFLICT (conversation_id, task) DO UPDATE
            SET failures = k.failures + 1, last_error = excluded.last_error, ran_at = now(), updated_at = now(),
                retry_at = %(now)s + least(power(2, least(k.failures, 20)), %(longest)s) * interval '1 minute'
            RETURNING retry_at
            """,
            {
                "conversation": conversation_id,
                "task": task,
                "error": storable(error),
                "now": now,
                "longest": LONGEST_WAIT_MINUTES,
            },
        )
        [until] = await cur.fetchall()
        return until


def storable(text: str) -> str:
    """Make an error's words fit for the table: bounded, without what no database takes."""
    return text.replace("\0", "�").encode("utf-8", "replace").decode()[:ERROR_CHARS]


async def skip(conn: Connection, message: MessageRow, task: LearnTask, reason: str) -> None:
    """Mark a message that no call with it in it could answer: this task never looks at it again."""
    await conn.execute(
        """
        INSERT INTO learner_skipped (message, task, reason) VALUES (%(message)s, %(task)s, %(reason)s)
        ON CONFLICT (message, task) DO NOTHING
        """,
        {"message": message, "task": task, "reason": storable(reason)},
    )


@asynccontextmanager
async def alone(database: Database, conversation_id: ConversationId) -> AsyncGenerator[bool]:
    """Be the only one, over all processes, who learns from a conversation; False: somebody else is.

    Keeps a connection of the pool; a process that dies lets go. Raises DatabaseUnavailable.
    """
    async with database.connection() as conn:
        lock = {"conversation": conversation_id}
        taken = await conn.execute("SELECT pg_try_advisory_lock(hashtextextended('learner', %(conversation)s::bigint))", lock)
        if await taken.fetchone() != (True,):
            yield False
            return
        try:
            yield True
        finally:
            await _let_go(conn, lock)


async def _let_go(conn: Connection, lock: dict[str, ConversationId]) -> None:
    try:
        await conn.execute("SELECT pg_advisory_unlock(hashtextextended('learner', %(conversation)s::bigint))", lock)
    except psycopg.Error as error:
        logger.info("学习用的锁随连接一起断开了：%s", error)
        await conn.close()
    except BaseException:
        # The pool must not lend out a connection that still holds the lock.
        await conn.close()
        raise
