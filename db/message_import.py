"""What an import of messages does beside storing them: it links quotes, and keeps what came in from calling for a turn."""

from __future__ import annotations

from collections.abc import Sequence

from db.models import ConversationId, MessageRow
from db.pool import Connection


async def link_quotes(conn: Connection, quotes: Sequence[tuple[MessageRow, MessageRow]]) -> None:
    """Say which message each quotes, where that is not known yet: (message, quoted)."""
    await conn.execute(
        """
        UPDATE messages m
        SET quoted_id = q.quoted
        FROM unnest(%(messages)s::bigint[], %(quoted)s::bigint[]) AS q(message, quoted)
        WHERE m.id = q.message AND m.quoted_id IS NULL AND q.message <> q.quoted
        """,
        {"messages": [pair[0] for pair in quotes], "quoted": [pair[1] for pair in quotes]},
    )


async def mark_read(conn: Connection, conversation_id: ConversationId, *, before: int, upto: int) -> None:
    """Let the positions ``before < pos <= upto`` be no news to turns; what was unread before stays so.

    The conversation's row must be locked.
    """
    await conn.execute(
        """
        UPDATE conversations
        SET watermark = CASE WHEN watermark >= %(before)s THEN %(upto)s ELSE watermark END,
            diced_pos = CASE WHEN greatest(watermark, diced_pos) >= %(before)s THEN %(upto)s ELSE diced_pos END
        WHERE id = %(id)s
        """,
        {"id": conversation_id, "before": before, "upto": upto},
    )
