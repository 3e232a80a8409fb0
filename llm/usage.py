"""Usage and budgets: every model call becomes a row, and today's calls of a conversation are counted."""

from __future__ import annotations

from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from db.models import ConversationId, ModelCall

if TYPE_CHECKING:
    from db.pool import Database


class UsageBook:
    """Writes calls in the background and knows today's count of each conversation."""

    def __init__(self, database: Database, zone: ZoneInfo) -> None:
        self._database = database
        self._zone = zone

    def record(self, call: ModelCall) -> None:
        """Queue a call for writing; never raises, never waits."""
        raise NotImplementedError

    async def spent_today(self, conversation_id: ConversationId) -> int:
        """Count today's answered calls of a conversation, the day being that of TIMEZONE."""
        raise NotImplementedError

    async def aclose(self) -> None:
        """Write what is queued (bounded wait) and stop."""
        raise NotImplementedError
