"""What other groups say, counted once an hour for all: a term that they use too is less a group's own."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from db import slang_mining
from db.models import ConversationId
from db.pool import Database
from learner.mining.mine import count_uses
from learner.mining.score import Elsewhere
from learner.mining.text import TEXT_CHARS

GROUPS = 20
EACH = 1_000
"""Newest messages of one group that are counted."""
SECONDS = 3600.0


@dataclass(frozen=True, slots=True)
class _Counted:
    messages: int
    uses: Mapping[str, int]


@dataclass(slots=True)
class Others:
    """The counts, kept for an hour."""

    database: Database
    _groups: dict[ConversationId, _Counted] = field(default_factory=dict[ConversationId, _Counted])
    _total: Counter[str] = field(default_factory=Counter[str])
    _until: float = 0.0

    async def without(self, conversation_id: ConversationId) -> Elsewhere:
        """Give what is said outside of a conversation. Raises DatabaseUnavailable."""
        if time.monotonic() >= self._until:
            await self._count()
        own = self._groups.get(conversation_id, _Counted(0, {}))
        messages = sum(group.messages for group in self._groups.values()) - own.messages
        return Elsewhere(messages, self._total, own.uses)

    async def _count(self) -> None:
        async with self.database.connection() as conn:
            heard = await slang_mining.others(conn, conversations=GROUPS, each=EACH, chars=TEXT_CHARS)
        texts: dict[ConversationId, list[str]] = {}
        for item in heard:
            texts.setdefault(item.conversation_id, []).append(item.text)
        counted = {row: await asyncio.to_thread(count_uses, said) for row, said in texts.items()}
        total: Counter[str] = Counter()
        for uses in counted.values():
            total.update(uses)
        self._total = Counter({text: times for text, times in total.items() if times > 1})
        self._groups = {
            row: _Counted(len(texts[row]), {text: times for text, times in uses.items() if text in self._total})
            for row, uses in counted.items()
        }
        self._until = time.monotonic() + SECONDS
