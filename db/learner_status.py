"""How far the learner is, as its page shows it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from psycopg.rows import class_row

from db.learnable import LEARNABLE
from db.learned_models import LearnTask
from db.models import ConversationId
from db.pool import Connection

MOST_COUNTED = 10_000
"""A lag is counted no further."""


@dataclass(frozen=True, slots=True)
class TaskStanding:
    """Where one task stands in one conversation.

    ``lag``: messages beyond its cursor that may be learned from, MOST_COUNTED at most; ``waiting_since``: when the first of
    them was stored. ``skipped``: messages that it leaves out.
    """

    conversation_id: ConversationId
    task: LearnTask
    pos: int
    failures: int
    retry_at: datetime | None
    last_error: str | None
    ran_at: datetime | None
    lag: int
    waiting_since: datetime | None
    skipped: int


async def standings(conn: Connection, conversations: Sequence[ConversationId], tasks: Sequence[LearnTask]) -> list[TaskStanding]:
    """Read where these tasks stand in these conversations, in the order of both."""
    async with conn.cursor(row_factory=class_row(TaskStanding)) as cur:
        await cur.execute(
            f"""
            SELECT c.id AS conversation_id, t.task, coalesce(k.pos, 0) AS pos, coalesce(k.failures, 0) AS failures,
                   k.retry_at, k.last_error, k.ran_at, w.lag, w.waiting_since,
                   (SELECT count(*) FROM learner_skipped x JOIN messages m ON m.id = x.message
                    WHERE x.task = t.task AND m.conversation_id = c.id) AS skipped
            FROM unnest(%(conversations)s::bigint[]) WITH ORDINALITY AS c(id, no)
            CROSS JOIN unnest(%(tasks)s::text[]) WITH ORDINALITY AS t(task, no)
            LEFT JOIN learner_cursors k ON k.conversation_id = c.id AND k.task = t.task
            CROSS JOIN LATERAL (
                SELECT count(*) AS lag, min(l.stored_at) AS waiting_since
                FROM (SELECT m.stored_at
                      FROM messages m
                      WHERE m.conversation_id = c.id AND m.pos > coalesce(k.pos, 0)
                        AND {LEARNABLE}
                      ORDER BY m.pos
                      LIMIT %(most)s) AS l
            ) AS w
            ORDER BY c.no, t.no
            """,
            {"conversations": list(conversations), "tasks": list(tasks), "most": MOST_COUNTED},
        )
        return await cur.fetchall()
