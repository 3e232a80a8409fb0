"""What a task has not read yet: which messages come next, which of them are shown, and which may be evidence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from psycopg.rows import class_row, scalar_row

from db.learnable import LEARNABLE
from db.learned_models import LearnTask
from db.models import ConversationId, MessageRow
from db.pool import Connection


@dataclass(frozen=True, slots=True)
class Stretch:
    """Where to read: the positions ``after < pos <= upto`` of a conversation, as one task sees them.

    Ends after ``sources`` messages that may be evidence, ``chars`` characters, or ``rows`` messages of any kind.
    """

    conversation_id: ConversationId
    task: LearnTask
    after: int
    upto: int
    sources: int
    chars: int
    rows: int


@dataclass(frozen=True, slots=True)
class Next:
    """A message beyond the cursor. ``shown``: a model may see it. ``source``: it may be evidence."""

    row: MessageRow
    pos: int
    shown: bool
    source: bool


async def read(conn: Connection, stretch: Stretch, *, line_chars: int) -> list[Next]:
    """Read the messages that come next, lowest position first; at least one where there is any.

    Hidden are what was withdrawn or emptied, commands, and what this task skips. Evidence is what a person said in words who
    may be learned from. A line counts for at most ``line_chars`` characters.
    """
    async with conn.cursor(row_factory=class_row(Next)) as cur:
        await cur.execute(
            f"""
            WITH ahead AS (
                SELECT m.id, m.pos, least(char_length(m.body), %(line)s) AS chars,
                       m.withdrawn_at IS NULL AND NOT m.is_command AND m.body <> '' AND k.message IS NULL AS shown,
                       {LEARNABLE} AS spoken
                FROM messages m
                LEFT JOIN learner_skipped k ON k.message = m.id AND k.task = %(task)s
                WHERE m.conversation_id = %(conversation)s AND m.pos > %(after)s AND m.pos <= %(upto)s
                ORDER BY m.pos
                LIMIT %(rows)s
            ), counted AS (
                SELECT a.id, a.pos, a.shown, a.shown AND a.spoken AS source,
                       count(*) FILTER (WHERE a.shown AND a.spoken) OVER before AS sources,
                       coalesce(sum(a.chars) FILTER (WHERE a.shown) OVER before, 0) AS chars
                FROM ahead a
                WINDOW before AS (ORDER BY a.pos ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
            )
            SELECT id AS row, pos, shown, source
            FROM counted
            WHERE sources < %(sources)s AND chars < %(chars)s
            ORDER BY pos
            """,
            {
                "conversation": stretch.conversation_id,
                "task": stretch.task,
                "after": stretch.after,
                "upto": stretch.upto,
                "sources": stretch.sources,
                "chars": stretch.chars,
                "rows": stretch.rows,
                "line": line_chars,
            },
        )
        return await cur.fetchall()


async def before(conn: Connection, conversation_id: ConversationId, task: LearnTask, pos: int, *, limit: int) -> list[int]:
    """List the positions of the last messages up to a position that a model may be shown, highest first."""
    async with conn.cursor(row_factory=scalar_row) as cur:
        await cur.execute(
            """
            SELECT m.pos
            FROM messages m
            WHERE m.conversation_id = %(conversation)s AND m.pos <= %(pos)s
              AND m.withdrawn_at IS NULL AND NOT m.is_command AND m.body <> ''
              AND NOT EXISTS (SELECT FROM learner_skipped k WHERE k.message = m.id AND k.task = %(task)s)
            ORDER BY m.pos DESC
            LIMIT %(limit)s
            """,
            {"conversation": conversation_id, "task": task, "pos": pos, "limit": limit},
        )
        return await cur.fetchall()


async def rows_at(conn: Connection, conversation_id: ConversationId, positions: Sequence[int]) -> dict[int, MessageRow]:
    """Read the row ids of messages by their positions."""
    cur = await conn.execute(
        "SELECT pos, id FROM messages WHERE conversation_id = %(conversation)s AND pos = ANY(%(positions)s::bigint[])",
        {"conversation": conversation_id, "positions": list(positions)},
    )
    return {pos: MessageRow(row) for pos, row in await cur.fetchall()}


async def end(conn: Connection, conversation_id: ConversationId) -> int:
    """The highest position of a conversation; 0: nothing was said there."""
    async with conn.cursor(row_factory=scalar_row) as cur:
        await cur.execute("SELECT last_pos FROM conversations WHERE id = %(id)s", {"id": conversation_id})
        return await cur.fetchone() or 0
