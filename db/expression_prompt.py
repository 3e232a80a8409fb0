"""Approved expressions that fit a text, for the prompt of a turn."""

from __future__ import annotations

from db.learned_models import KnownExpression
from db.memory_models import Vector
from db.models import ConversationId
from db.pool import Connection

MOST = 5


async def fitting(
    conn: Connection, conversation_id: ConversationId, text: str, vector: Vector | None, *, limit: int = MOST
) -> list[KnownExpression]:
    """Find the approved expressions whose situation fits a text, most fitting first."""
    return []
