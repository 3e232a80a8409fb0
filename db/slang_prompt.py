"""Approved slang that a text holds, for the prompt of a turn."""

from __future__ import annotations

from db.learned_models import KnownSlang
from db.models import ConversationId
from db.pool import Connection

MOST = 10


async def in_text(conn: Connection, conversation_id: ConversationId, text: str, *, limit: int = MOST) -> list[KnownSlang]:
    """Find the approved terms that stand in a text, most specific first."""
    return []
