"""Traits of the members that a snapshot is about, for the prompt of a turn."""

from __future__ import annotations

from collections.abc import Sequence

from db.learned_models import KnownTrait
from db.models import ConversationId
from db.pool import Connection

EACH = 4
"""Traits of one member."""


async def of_members(
    conn: Connection, conversation_id: ConversationId, users: Sequence[int], *, each: int = EACH
) -> list[KnownTrait]:
    """Read the traits of some members, in the order in which they are named; of members who left, none."""
    return []
