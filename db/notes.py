"""The working note: one per conversation, written by the bot for itself."""

from __future__ import annotations

from datetime import datetime

from db.models import ConversationId
from db.pool import Connection

NOTE_CHARS = 300


async def write(conn: Connection, conversation_id: ConversationId, content: str, now: datetime) -> None:
    """Replace the note by a text of at most NOTE_CHARS characters."""
    await conn.execute(
        """
        INSERT INTO notes (conversation_id, content, updated_at)
        VALUES (%(conversation)s, %(content)s, %(now)s)
        ON CONFLICT (conversation_id) DO UPDATE SET content = excluded.content, updated_at = excluded.updated_at
        """,
        {"conversation": conversation_id, "content": content, "now": now},
    )


async def clear(conn: Connection, conversation_id: ConversationId) -> bool:
    """Remove the note; False: there was none."""
    cur = await conn.execute("DELETE FROM notes WHERE conversation_id = %(conversation)s", {"conversation": conversation_id})
    return cur.rowcount > 0
