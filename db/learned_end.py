"""How everything learned ends with its evidence: called in the transaction that withdraws or forgets."""

from __future__ import annotations

from collections.abc import Sequence

from db import expression_end, slang_end, topic_end, trait_end
from db.models import ConversationId
from db.pool import Connection


async def withdrawn(conn: Connection, messages: Sequence[int]) -> None:
    """End what lost its last evidence with these messages (row ids). Must run inside a transaction, after they were marked."""
    await topic_end.withdrawn(conn, messages)
    await slang_end.withdrawn(conn, messages)
    await expression_end.withdrawn(conn, messages)
    await trait_end.withdrawn(conn, messages)


async def forgotten(conn: Connection, conversation_id: ConversationId, user_id: int) -> None:
    """Delete what was derived from a member's words or is about them. Must run before the messages are emptied."""
    await topic_end.forgotten(conn, conversation_id, user_id)
    await slang_end.forgotten(conn, conversation_id, user_id)
    await expression_end.forgotten(conn, conversation_id, user_id)
    await trait_end.forgotten(conn, conversation_id, user_id)
