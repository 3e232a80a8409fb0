"""Queries for filling gaps: what is known of a conversation, and what enrichment adds to stored messages."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from psycopg.rows import class_row, scalar_row

from db.models import ConversationId, MessageRow
from db.pool import Connection


@dataclass(frozen=True, slots=True)
class Newest:
    """The newest stored message of others: its order, and when it was said. None: nothing is known."""

    seq: int | None
    at: datetime | None


async def newest(conn: Connection, conversation_id: ConversationId, *, below: int | None, before: datetime | None) -> Newest:
    """Find the highest real_seq below a given one, and the last message before a moment (None: no bound)."""
    async with conn.cursor(row_factory=class_row(Newest)) as cur:
        await cur.execute(
            """
            SELECT (SELECT max(real_seq)
                    FROM messages
                    WHERE conversation_id = %(id)s AND real_seq IS NOT NULL
                      AND (%(below)s::bigint IS NULL OR real_seq < %(below)s)) AS seq,
                   (SELECT sent_at
                    FROM messages
                    WHERE conversation_id = %(id)s AND kind = 'message' AND NOT is_self  -- own ones carry our clock's time
                      AND (%(before)s::timestamptz IS NULL OR sent_at < %(before)s)
                    ORDER BY pos DESC
                    LIMIT 1) AS at
            """,
            {"id": conversation_id, "below": below, "before": before},
        )
        row = await cur.fetchone()
        return row if row is not None else Newest(None, None)


async def set_quote(conn: Connection, message: MessageRow, *, sender_id: int, name: str, text: str) -> None:
    """Fill in whom and what a message quotes, unless that is known already."""
    await conn.execute(
        """
        UPDATE messages SET quote_sender = %(sender)s, quote_name = %(name)s, quote_text = %(text)s
        WHERE id = %(message)s AND quoted_id IS NULL AND quote_text IS NULL
        """,
        {"message": message, "sender": sender_id, "name": name, "text": text},
    )


async def may_call(conn: Connection, message: MessageRow) -> int | None:
    """Give the sender of a message that may call us: a person's, neither a command nor withdrawn; else None."""
    async with conn.cursor(row_factory=scalar_row) as cur:
        await cur.execute(
            """
            SELECT sender_id
            FROM messages
            WHERE id = %(message)s AND withdrawn_at IS NULL AND NOT is_self AND NOT is_robot AND NOT is_command
            """,
            {"message": message},
        )
        value = await cur.fetchone()
        return None if value is None else int(value)
