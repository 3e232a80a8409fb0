"""How traits end with their evidence: in the transaction that withdraws the messages, as sets."""

from __future__ import annotations

from collections.abc import Sequence

from db.models import ConversationId
from db.pool import Connection


async def withdrawn(conn: Connection, messages: Sequence[int]) -> None:
    """End what lost its last evidence with these messages (row ids). Must run inside a transaction."""


async def forgotten(conn: Connection, conversation_id: ConversationId, user_id: int) -> None:
    """Delete what was derived from a member's words or is about them. Must run inside a transaction."""
