"""Topics that a snapshot touches, for the prompt of a turn."""

from __future__ import annotations

from collections.abc import Sequence

from db.learned_models import KnownTopic
from db.models import ConversationId
from db.pool import Connection

MOST = 3


async def touched(
    conn: Connection, conversation_id: ConversationId, quoted: Sequence[int], text: str, *, limit: int = MOST
) -> list[KnownTopic]:
    """Find the topics of the messages that are replied to (positions), then those that a text recalls, then the latest."""
    return []
