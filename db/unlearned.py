"""Members who said 别记我: nothing new is learned about them."""

from __future__ import annotations

from collections.abc import Sequence

from psycopg.rows import scalar_row

from db.models import ConversationId
from db.pool import Connection


async def set(conn: Connection, conversation_id: ConversationId, user_id: int) -> bool:
    """Learn nothing new about a member from now on, and let no vector be made of what they say; False: it was so already."""
    cur = await conn.execute(
        """
        INSERT INTO unlearned (conversation_id, user_id) VALUES (%(conversation)s, %(user)s)
        ON CONFLICT DO NOTHING
        """,
        {"conversation": conversation_id, "user": user_id},
    )
    await conn.execute(
        """
        DELETE FROM message_vectors v USING messages m
        WHERE m.id = v.message AND v.embedding IS NULL
          AND m.conversation_id = %(conversation)s AND m.sender_id = %(user)s
        """,
        {"conversation": conversation_id, "user": user_id},
    )
    return cur.rowcount > 0


async def clear(conn: Connection, conversation_id: ConversationId, user_id: int) -> bool:
    """Learn about a member again; False: it was so already."""
    cur = await conn.execute(
        "DELETE FROM unlearned WHERE conversation_id = %(conversation)s AND user_id = %(user)s",
        {"conversation": conversation_id, "user": user_id},
    )
    return cur.rowcount > 0


async def among(conn: Connection, conversation_id: ConversationId, users: Sequence[int]) -> frozenset[int]:
    """Tell which of these members are not learned about."""
    async with conn.cursor(row_factory=scalar_row) as cur:
        await cur.execute(
            "SELECT user_id FROM unlearned WHERE conversation_id = %(conversation)s AND user_id = ANY(%(users)s)",
            {"conversation": conversation_id, "users": list(users)},
        )
        return frozenset(await cur.fetchall())
