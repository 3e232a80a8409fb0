"""Writes of what a turn did: its prompt blocks and its steps."""

from __future__ import annotations

from collections.abc import Sequence

from psycopg.types.json import Jsonb

from db.models import TurnBlock, TurnId, TurnStep
from db.pool import Connection


async def save_blocks(conn: Connection, turn_id: TurnId, blocks: Sequence[TurnBlock]) -> None:
    """Store how the blocks of one model call went into its request. Writing the same call twice changes nothing."""
    await conn.execute(
        """
        INSERT INTO turn_blocks (turn_id, call_no, no, name, stability, tokens, chars, state)
        SELECT %(turn_id)s, b.call_no, b.no, b.name, b.stability, b.tokens, b.chars, b.state
        FROM unnest(
            %(calls)s::integer[], %(numbers)s::integer[], %(names)s::text[], %(stabilities)s::text[],
            %(tokens)s::integer[], %(chars)s::integer[], %(states)s::text[]
        ) AS b(call_no, no, name, stability, tokens, chars, state)
        ON CONFLICT DO NOTHING
        """,
        {
            "turn_id": turn_id,
            "calls": [block.call_no for block in blocks],
            "numbers": [block.no for block in blocks],
            "names": [block.name for block in blocks],
            "stabilities": [block.stability for block in blocks],
            "tokens": [block.tokens for block in blocks],
            "chars": [block.chars for block in blocks],
            "states": [block.state for block in blocks],
        },
    )


async def save_step(conn: Connection, turn_id: TurnId, step: TurnStep) -> None:
    """Store one finished step. Writing the same step twice changes nothing."""
    await conn.execute(
        """
        INSERT INTO turn_steps (turn_id, no, kind, name, arguments, result, ok, started_at, ms)
        VALUES (%(turn_id)s, %(no)s, %(kind)s, %(name)s, %(arguments)s, %(result)s, %(ok)s, %(started_at)s, %(ms)s)
        ON CONFLICT DO NOTHING
        """,
        {
            "turn_id": turn_id,
            "no": step.no,
            "kind": step.kind,
            "name": step.name,
            "arguments": None if step.arguments is None else Jsonb(step.arguments),
            "result": step.result,
            "ok": step.ok,
            "started_at": step.started_at,
            "ms": step.ms,
        },
    )
