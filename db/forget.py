"""Forgetting a member of a conversation at their own wish."""

from __future__ import annotations

from db.models import ConversationId
from db.pool import Connection


async def member(conn: Connection, conversation_id: ConversationId, user_id: int) -> int:
    """Empty what a member said, and delete what was derived from it; returns how many messages that were.

    The rows stay as withdrawn ones, so that order and labels do not move. Runs in one transaction.
    """
    await conn.execute(
        """
        UPDATE messages q
        SET quote_text = NULL, quote_name = ''
        FROM messages m
        WHERE m.conversation_id = %(conversation)s AND m.sender_id = %(user)s AND q.quoted_id = m.id
        """,
        {"conversation": conversation_id, "user": user_id},
    )
    cur = await conn.execute(
        """
        UPDATE messages
        SET text = '', body = '', segments = '[]', quote_text = NULL, quote_name = NULL,
            withdrawn_at = coalesce(withdrawn_at, now()), withdrawn_by = coalesce(withdrawn_by, %(user)s)
        WHERE conversation_id = %(conversation)s AND sender_id = %(user)s AND NOT is_self
          AND (body <> '' OR withdrawn_at IS NULL)
        """,
        {"conversation": conversation_id, "user": user_id},
    )
    await conn.execute(
        """
        UPDATE owed o
        SET settled_at = now(), settled_why = 'forgotten'
        FROM messages m
        WHERE m.id = o.message AND o.settled_at IS NULL
          AND m.conversation_id = %(conversation)s AND m.sender_id = %(user)s
        """,
        {"conversation": conversation_id, "user": user_id},
    )
    await conn.execute(
        "DELETE FROM member_names WHERE conversation_id = %(conversation)s AND user_id = %(user)s",
        {"conversation": conversation_id, "user": user_id},
    )
    await conn.execute(
        """
        DELETE FROM reactions r
        USING messages m
        WHERE m.id = r.message AND m.conversation_id = %(conversation)s AND r.user_id = %(user)s
        """,
        {"conversation": conversation_id, "user": user_id},
    )
    return cur.rowcount
