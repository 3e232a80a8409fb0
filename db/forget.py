"""Forgetting a member of a conversation at their own wish."""

from __future__ import annotations

from dataclasses import dataclass

from db import learned_end, learned_lock, memory_end
from db.models import ConversationId
from db.pool import Connection

NOBODY = "已忘记的成员"
"""What stands in the place of a forgotten member's name."""


@dataclass(frozen=True, slots=True)
class Forgotten:
    """How many messages were emptied, and how many memories deleted."""

    messages: int
    memories: int


async def member(conn: Connection, conversation_id: ConversationId, user_id: int) -> Forgotten:
    """Empty what a member said, and delete what was derived from it: memories, vectors, liking, the working note.

    The messages' rows stay as withdrawn ones, so that order and labels do not move. Must run inside a transaction.
    """
    await learned_lock.hold(conn, conversation_id)
    await _hold_messages(conn, conversation_id, user_id)
    await _empty_quotes(conn, conversation_id, user_id)
    memories = await memory_end.forgotten(conn, conversation_id, user_id)
    await learned_end.forgotten(conn, conversation_id, user_id)
    cur = await conn.execute(
        """
        UPDATE messages
        SET text = '', body = '', search = '', segments = '[]', quote_text = NULL, quote_name = NULL, sender_name = %(nobody)s,
            withdrawn_at = coalesce(withdrawn_at, now()), withdrawn_by = coalesce(withdrawn_by, %(user)s)
        WHERE conversation_id = %(conversation)s AND sender_id = %(user)s AND NOT is_self
          AND (body <> '' OR withdrawn_at IS NULL OR search <> '')
        """,
        {"conversation": conversation_id, "user": user_id, "nobody": NOBODY},
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
    await _forget_names(conn, conversation_id, user_id)
    await _forget_derived(conn, conversation_id, user_id)
    await _forget_steps(conn, conversation_id)
    return Forgotten(cur.rowcount, memories)


async def _hold_messages(conn: Connection, conversation_id: ConversationId, user_id: int) -> None:
    """Lock in one order all messages that will change, so that no claim is being saved on them meanwhile."""
    await conn.execute(
        """
        SELECT FROM messages m
        WHERE m.conversation_id = %(conversation)s
          AND ((m.sender_id = %(user)s AND NOT m.is_self) OR m.quote_sender = %(user)s
               OR EXISTS (SELECT FROM messages q WHERE q.id = m.quoted_id AND q.sender_id = %(user)s))
        ORDER BY m.id
        FOR NO KEY UPDATE OF m
        """,
        {"conversation": conversation_id, "user": user_id},
    )


async def _empty_quotes(conn: Connection, conversation_id: ConversationId, user_id: int) -> None:
    """Empty what others' replies quote of a member, stored or fetched."""
    await conn.execute(
        """
        UPDATE messages q
        SET quote_text = NULL, quote_name = ''
        WHERE q.conversation_id = %(conversation)s AND q.quote_name IS NOT NULL
          AND (q.quote_sender = %(user)s
               OR EXISTS (SELECT FROM messages m WHERE m.id = q.quoted_id AND m.sender_id = %(user)s))
        """,
        {"conversation": conversation_id, "user": user_id},
    )


async def _forget_names(conn: Connection, conversation_id: ConversationId, user_id: int) -> None:
    """Forget what a member was called and how they reacted."""
    await conn.execute(
        """
        WITH names AS (
            DELETE FROM member_names WHERE conversation_id = %(conversation)s AND user_id = %(user)s
        ), reactions AS (
            DELETE FROM reactions r USING messages m
            WHERE m.id = r.message AND m.conversation_id = %(conversation)s AND r.user_id = %(user)s
        )
        UPDATE members SET nickname = '', card = '', title = ''
        WHERE conversation_id = %(conversation)s AND user_id = %(user)s
        """,
        {"conversation": conversation_id, "user": user_id},
    )


async def _forget_derived(conn: Connection, conversation_id: ConversationId, user_id: int) -> None:
    """Delete the vectors of what they said, how the bot liked them, and the working note: it may speak of anybody."""
    await conn.execute(
        """
        WITH vectors AS (
            DELETE FROM message_vectors v USING messages m
            WHERE m.id = v.message AND m.conversation_id = %(conversation)s AND m.sender_id = %(user)s
        ), log AS (
            DELETE FROM intimacy_log WHERE conversation_id = %(conversation)s AND user_id = %(user)s
        ), liking AS (
            DELETE FROM intimacy WHERE conversation_id = %(conversation)s AND user_id = %(user)s
        )
        DELETE FROM notes WHERE conversation_id = %(conversation)s
        """,
        {"conversation": conversation_id, "user": user_id},
    )


async def _forget_steps(conn: Connection, conversation_id: ConversationId) -> None:
    """Empty what tools read out or wrote down in this conversation's turns: it may hold anybody's words.

    What the bot said aloud is its own message, and stays.
    """
    await conn.execute(
        """
        UPDATE turn_steps s
        SET result = NULL,
            arguments = CASE WHEN s.name = 'speak' THEN s.arguments END
        FROM turns t
        WHERE t.id = s.turn_id AND t.conversation_id = %(conversation)s AND s.kind = 'tool'
          AND (s.result IS NOT NULL OR s.arguments IS NOT NULL)
        """,
        {"conversation": conversation_id},
    )
