"""How topics and their summaries end with their evidence: in the transaction that withdraws the messages, as sets."""

from __future__ import annotations

from collections.abc import Sequence

from psycopg.rows import scalar_row

from db import topics
from db.learned_models import TopicId
from db.models import ConversationId
from db.pool import Connection


async def withdrawn(conn: Connection, messages: Sequence[int]) -> None:
    """Empty every version that stands on one of these messages (row ids), and let its topic want a new one.

    The messages leave their topics; a topic without messages goes. Must run inside a transaction.
    """
    touched = await _hold_touched(conn, messages)
    if not touched:
        return
    await conn.execute(
        """
        UPDATE topic_summaries
        SET dropped_at = now(), title = '', gist = '', open_loops = '{}', keywords = '{}', search = ''
        WHERE topic_id = ANY(%(topics)s::bigint[]) AND dropped_at IS NULL AND sources && %(messages)s::bigint[]
        """,
        {"topics": touched, "messages": list(messages)},
    )
    await conn.execute("DELETE FROM topic_messages WHERE message = ANY(%(messages)s::bigint[])", {"messages": list(messages)})
    await topics.refresh(conn, touched)


async def _hold_touched(conn: Connection, messages: Sequence[int]) -> list[TopicId]:
    """Keep the topics of messages from changing until the commit: a summary that is being written is seen afterwards."""
    async with conn.cursor(row_factory=scalar_row) as cur:
        await cur.execute(
            """
            SELECT t.id FROM topics t
            WHERE t.id IN (SELECT x.topic_id FROM topic_messages x WHERE x.message = ANY(%(messages)s::bigint[]))
            ORDER BY t.id
            FOR NO KEY UPDATE
            """,
            {"messages": list(messages)},
        )
        return [TopicId(row) for row in await cur.fetchall()]


async def forgotten(conn: Connection, conversation_id: ConversationId, user_id: int) -> None:
    """Delete every version that a member's words went into, dropped ones too; their messages leave their topics.

    Must run inside a transaction, while the messages still name the member as their sender.
    """
    touched = await _hold_shared(conn, conversation_id, user_id)
    if not touched:
        return
    await conn.execute(
        "DELETE FROM topic_summaries WHERE topic_id = ANY(%(topics)s::bigint[]) AND %(user)s = ANY(participants)",
        {"topics": touched, "user": user_id},
    )
    await conn.execute(
        """
        DELETE FROM topic_messages x USING messages m
        WHERE m.id = x.message AND x.topic_id = ANY(%(topics)s::bigint[]) AND m.sender_id = %(user)s
        """,
        {"topics": touched, "user": user_id},
    )
    await topics.refresh(conn, touched)


async def _hold_shared(conn: Connection, conversation_id: ConversationId, user_id: int) -> list[TopicId]:
    """Keep the topics from changing until the commit that a member had a part in."""
    async with conn.cursor(row_factory=scalar_row) as cur:
        await cur.execute(
            """
            SELECT t.id FROM topics t
            WHERE t.conversation_id = %(conversation)s
              AND (EXISTS (SELECT FROM topic_summaries s WHERE s.topic_id = t.id AND %(user)s = ANY(s.participants))
                   OR EXISTS (SELECT FROM topic_messages x JOIN messages m ON m.id = x.message
                              WHERE x.topic_id = t.id AND m.sender_id = %(user)s))
            ORDER BY t.id
            FOR NO KEY UPDATE
            """,
            {"conversation": conversation_id, "user": user_id},
        )
        return [TopicId(row) for row in await cur.fetchall()]
