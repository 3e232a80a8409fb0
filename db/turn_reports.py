"""What the API reads of turns: the list, and one turn with its prompt blocks, steps and model calls."""

from __future__ import annotations

from datetime import datetime

from psycopg.rows import class_row
from pydantic import Field, JsonValue

from db.models import BlockState, Kind, Stability, Trigger, TurnStatus
from db.pool import Connection
from db.reports import Page, Row


class TurnItem(Row):
    """A turn with what it cost and what it said."""

    id: int
    conversation_id: int
    kind: Kind
    target_id: int
    account_id: int
    status: TurnStatus
    outcome: str | None
    trigger: Trigger
    error: str | None
    persona: str
    from_pos: int = Field(description="开始时的已读线")
    shown_pos: int | None = Field(description="模型看到的最后一条消息的编号")
    queued_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    spoken: int = Field(description="发出的消息数")
    model_calls: int
    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int


async def turns(conn: Connection, page: Page, *, only: int | None = None) -> list[TurnItem]:
    """Read turns, newest first; only the one with the id ``only``."""
    async with conn.cursor(row_factory=class_row(TurnItem)) as cursor:
        await cursor.execute(
            """
            SELECT t.id, t.conversation_id, c.kind, c.target_id, t.account_id, t.status, t.outcome, t.trigger, t.error,
                   t.persona, t.from_pos, t.shown_pos, t.queued_at, t.started_at, t.ended_at,
                   (SELECT count(*) FROM outbox o WHERE o.turn_id = t.id AND o.status = 'sent') AS spoken,
                   calls.model_calls, calls.prompt_tokens, calls.completion_tokens, calls.cached_tokens
            FROM turns t
            JOIN conversations c ON c.id = t.conversation_id
            CROSS JOIN LATERAL (SELECT count(*) AS model_calls,
                                       coalesce(sum(m.prompt_tokens), 0) AS prompt_tokens,
                                       coalesce(sum(m.completion_tokens), 0) AS completion_tokens,
                                       coalesce(sum(m.cached_tokens), 0) AS cached_tokens
                                FROM model_calls m
                                WHERE m.turn_id = t.id) AS calls
            WHERE (%(target)s::bigint IS NULL
                   OR t.conversation_id = (SELECT id FROM conversations
                                           WHERE kind = %(kind)s AND target_id = %(target)s))
              AND (%(before)s::bigint IS NULL OR t.id < %(before)s)
              AND (%(only)s::bigint IS NULL OR t.id = %(only)s)
            ORDER BY t.id DESC
            LIMIT %(limit)s
            """,
            page.parameters | {"only": only},
        )
        return await cursor.fetchall()


async def turn(conn: Connection, turn_id: int) -> TurnItem | None:
    """Read one turn."""
    found = await turns(conn, Page(limit=1), only=turn_id)
    return found[0] if found else None


class BlockItem(Row):
    """How one prompt block went into one model call."""

    call_no: int
    no: int
    name: str
    stability: Stability
    tokens: int
    chars: int
    state: BlockState


async def blocks(conn: Connection, turn_id: int) -> list[BlockItem]:
    """Read a turn's prompt blocks in the order of the prompt, call by call."""
    async with conn.cursor(row_factory=class_row(BlockItem)) as cursor:
        await cursor.execute(
            """
            SELECT call_no, no, name, stability, tokens, chars, state
            FROM turn_blocks
            WHERE turn_id = %(turn)s
            ORDER BY call_no, no
            """,
            {"turn": turn_id},
        )
        return await cursor.fetchall()


class StepItem(Row):
    """One model call or one tool call."""

    no: int
    kind: str = Field(description="model 或 tool")
    name: str
    arguments: JsonValue
    result: str | None
    ok: bool
    started_at: datetime
    ms: int


async def steps(conn: Connection, turn_id: int) -> list[StepItem]:
    """Read a turn's steps in order."""
    async with conn.cursor(row_factory=class_row(StepItem)) as cursor:
        await cursor.execute(
            """
            SELECT no, kind, name, arguments, result, ok, started_at, ms
            FROM turn_steps
            WHERE turn_id = %(turn)s
            ORDER BY no
            """,
            {"turn": turn_id},
        )
        return await cursor.fetchall()


class CallItem(Row):
    """One call of a model, with its tokens."""

    id: int
    called_at: datetime
    task: str
    role: str
    model: str
    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int
    latency_ms: int
    ok: bool
    error: str | None


async def calls(conn: Connection, turn_id: int) -> list[CallItem]:
    """Read the model calls of a turn in order."""
    async with conn.cursor(row_factory=class_row(CallItem)) as cursor:
        await cursor.execute(
            """
            SELECT id, called_at, task, role, model, prompt_tokens, completion_tokens, cached_tokens, latency_ms, ok, error
            FROM model_calls
            WHERE turn_id = %(turn)s
            ORDER BY id
            """,
            {"turn": turn_id},
        )
        return await cursor.fetchall()
