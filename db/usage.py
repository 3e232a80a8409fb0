"""Queries of model calls: writing them, counting a conversation's, adding them up for the page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Literal
from zoneinfo import ZoneInfo

from psycopg.rows import class_row
from psycopg.types.json import Jsonb

from db.models import ConversationId, ModelCall
from db.pool import Connection

UsageKey = Literal["task", "model", "conversation", "day"]
ERROR_CHARS = 500


@dataclass(frozen=True, slots=True)
class UsageRow:
    """Calls under one key. ``key``: a task, a model, a conversation's id or a day (YYYY-MM-DD); None: no conversation.

    ``calls`` includes the ``failed`` ones; ``latency_ms`` is the mean of those that were answered.
    """

    key: str | None
    calls: int
    failed: int
    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int
    latency_ms: int


async def record_calls(conn: Connection, calls: Sequence[ModelCall]) -> None:
    """Write calls. One whose conversation or turn was deleted meanwhile is kept without it."""
    await conn.execute(
        """
        INSERT INTO model_calls (called_at, conversation_id, turn_id, task, role, model,
                                 prompt_tokens, completion_tokens, cached_tokens, latency_ms, ok, error)
        SELECT coalesce(c.called_at, now()), v.id, t.id, c.task, c.role, c.model,
               c.prompt_tokens, c.completion_tokens, c.cached_tokens, c.latency_ms, c.ok, c.error
        FROM jsonb_to_recordset(%(calls)s) AS c (
               called_at timestamptz, conversation_id bigint, turn_id bigint, task text, role text, model text,
               prompt_tokens integer, completion_tokens integer, cached_tokens integer, latency_ms integer,
               ok boolean, error text)
        LEFT JOIN conversations v ON v.id = c.conversation_id
        LEFT JOIN turns t ON t.id = c.turn_id
        ORDER BY c.called_at
        """,
        {"calls": Jsonb([_fields(call) for call in calls])},
    )


def _fields(call: ModelCall) -> dict[str, object]:
    error = call.error.replace("\x00", "�").encode("utf-8", "replace").decode()[:ERROR_CHARS] if call.error else None
    return {**asdict(call), "error": error, "called_at": call.called_at.isoformat() if call.called_at else None}


async def calls_since(conn: Connection, conversation_id: ConversationId, since: datetime) -> int:
    """Count a conversation's answered calls since a moment, the learner's aside: what its daily budget is about.

    Failed calls do not count, or an outage of the service would silence a group for the rest of the day.
    """
    cur = await conn.execute(
        """
        SELECT count(*) FROM model_calls
        WHERE conversation_id = %(id)s AND called_at >= %(since)s AND ok AND NOT (role = 'learner' AND turn_id IS NULL)
        """,
        {"id": conversation_id, "since": since},
    )
    row = await cur.fetchone()
    return int(row[0]) if row else 0


async def learner_tokens_since(conn: Connection, conversation_id: ConversationId, since: datetime) -> int:
    """Add up the tokens that the learner used for a conversation since a moment, in and out, failed calls too."""
    cur = await conn.execute(
        """
        SELECT coalesce(sum(prompt_tokens + completion_tokens), 0) FROM model_calls
        WHERE conversation_id = %(id)s AND called_at >= %(since)s AND role = 'learner' AND turn_id IS NULL
        """,
        {"id": conversation_id, "since": since},
    )
    row = await cur.fetchone()
    return int(row[0]) if row else 0


@dataclass(frozen=True, slots=True)
class TaskTokens:
    """What the calls of one task used. ``calls`` includes those that failed."""

    task: str
    calls: int
    prompt_tokens: int
    completion_tokens: int


async def learner_tasks_since(conn: Connection, conversation_id: ConversationId, since: datetime) -> list[TaskTokens]:
    """Add up the learner's calls for a conversation since a moment, by the structured task they were for."""
    async with conn.cursor(row_factory=class_row(TaskTokens)) as cur:
        await cur.execute(
            """
            SELECT task, count(*) AS calls, sum(prompt_tokens) AS prompt_tokens, sum(completion_tokens) AS completion_tokens
            FROM model_calls
            WHERE conversation_id = %(id)s AND called_at >= %(since)s AND role = 'learner' AND turn_id IS NULL
            GROUP BY task
            ORDER BY task
            """,
            {"id": conversation_id, "since": since},
        )
        return await cur.fetchall()


async def learner_tokens_by_conversation(conn: Connection, since: datetime) -> dict[ConversationId, int]:
    """Add up the learner's tokens since a moment for every conversation that it used any for."""
    cur = await conn.execute(
        """
        SELECT conversation_id, sum(prompt_tokens + completion_tokens) FROM model_calls
        WHERE called_at >= %(since)s AND conversation_id IS NOT NULL AND role = 'learner' AND turn_id IS NULL
        GROUP BY conversation_id
        """,
        {"since": since},
    )
    return {ConversationId(row): int(tokens) for row, tokens in await cur.fetchall()}


@dataclass(frozen=True, slots=True)
class UsageQuery:
    """Which calls to add up: from ``since`` until just before ``until``, of one conversation or of all."""

    since: datetime
    until: datetime
    conversation_id: ConversationId | None = None


async def usage_summary(conn: Connection, query: UsageQuery, *, by: UsageKey, zone: ZoneInfo) -> list[UsageRow]:
    """Add up calls by task, model, conversation or day of ``zone``; days in order, else the most tokens first."""
    async with conn.cursor(row_factory=class_row(UsageRow)) as cur:
        await cur.execute(
            """
            SELECT CASE %(by)s::text
                     WHEN 'task' THEN task
                     WHEN 'model' THEN model
                     WHEN 'conversation' THEN conversation_id::text
                     ELSE to_char(called_at AT TIME ZONE %(zone)s, 'YYYY-MM-DD')
                   END AS key,
                   count(*) AS calls,
                   count(*) FILTER (WHERE NOT ok) AS failed,
                   sum(prompt_tokens) AS prompt_tokens,
                   sum(completion_tokens) AS completion_tokens,
                   sum(cached_tokens) AS cached_tokens,
                   coalesce(round(avg(latency_ms) FILTER (WHERE ok)), 0)::integer AS latency_ms
            FROM model_calls
            WHERE called_at >= %(since)s AND called_at < %(until)s
              AND (%(conversation)s::bigint IS NULL OR conversation_id = %(conversation)s)
            GROUP BY key
            ORDER BY CASE WHEN %(by)s::text = 'day' THEN 0 ELSE sum(prompt_tokens + completion_tokens) END DESC, key
            """,
            {
                "by": by,
                "zone": zone.key,
                "since": query.since,
                "until": query.until,
                "conversation": query.conversation_id,
            },
        )
        return await cur.fetchall()
