"""Reading expressions for people: lists, and the messages that support one."""

from __future__ import annotations

from dataclasses import dataclass

from psycopg.rows import class_row, scalar_row

from db.expressions import EXPRESSION_ROWS, Expression
from db.learned_models import ExpressionId, ReviewStatus
from db.models import ConversationId
from db.pool import Connection
from db.slang_lists import UseLine, uses

EVIDENCE = 20


@dataclass(frozen=True, slots=True)
class ExpressionFilter:
    """Which expressions are wanted. None: any."""

    conversation_id: ConversationId | None
    statuses: tuple[ReviewStatus, ...]
    text: str = ""
    limit: int = 50
    before: int | None = None


async def some(conn: Connection, wanted: ExpressionFilter) -> list[Expression]:
    """List expressions, newest first. A text finds parts of situations, phrases and notes."""
    async with conn.cursor(row_factory=class_row(Expression)) as cur:
        await cur.execute(
            f"""
            {EXPRESSION_ROWS}
            WHERE (%(conversation)s::bigint IS NULL OR x.conversation_id = %(conversation)s)
              AND x.status = ANY(%(statuses)s)
              AND (%(before)s::bigint IS NULL OR x.id < %(before)s)
              AND (%(text)s = '' OR strpos(lower(x.situation), %(text)s) > 0 OR strpos(lower(x.phrase), %(text)s) > 0
                   OR strpos(lower(x.note), %(text)s) > 0)
            ORDER BY x.id DESC
            LIMIT %(limit)s
            """,
            {
                "conversation": wanted.conversation_id,
                "statuses": list(wanted.statuses),
                "before": wanted.before,
                "text": wanted.text.strip().lower().replace("\x00", ""),
                "limit": wanted.limit,
            },
        )
        return await cur.fetchall()


async def evidence_of(conn: Connection, expression_id: ExpressionId) -> list[UseLine]:
    """Read the newest messages that support an expression, each with what stands around it; withdrawn ones are left out."""
    async with conn.cursor(row_factory=scalar_row) as cur:
        await cur.execute(
            """
            SELECT m.id
            FROM expression_evidence e
            JOIN messages m ON m.id = e.message
            WHERE e.expression_id = %(id)s AND m.withdrawn_at IS NULL
            ORDER BY m.pos DESC
            LIMIT %(limit)s
            """,
            {"id": expression_id, "limit": EVIDENCE},
        )
        messages: list[int] = await cur.fetchall()
    return await uses(conn, messages)
