"""How many rows have a vector, counted now and then and added to in between."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from db.embeddings import count_embedded
from db.pool import Database
from llm.embedding.types import Counts

_FRESH_SECONDS = 2.0
_SHARE = 100
"""Counting big tables takes a while: a count is good for so many times what it took."""


class Tally:
    """The last count of memories and messages, and of those with a vector of the current space."""

    def __init__(self, database: Database, clock: Callable[[], float] = time.monotonic) -> None:
        self._database = database
        self._clock = clock
        self._counts = Counts()
        self._good_until = 0.0
        self._space_id: int | None = None

    @property
    def counts(self) -> Counts:
        """What is known."""
        return self._counts

    async def refresh(self, space_id: int | None) -> Counts:
        """Count again, unless that was done just now. Raises DatabaseUnavailable."""
        started = self._clock()
        if started < self._good_until and space_id == self._space_id:
            return self._counts
        async with self._database.connection() as conn:
            found = await count_embedded(conn, space_id)
        took = self._clock() - started
        self._counts = Counts(found.memories_total, found.memories_done, found.messages_total, found.messages_done)
        self._good_until = started + max(_FRESH_SECONDS, took * _SHARE)
        self._space_id = space_id
        return self._counts

    def wrote(self, *, memories: int = 0, messages: int = 0) -> None:
        """Add what was written since."""
        known = self._counts
        self._counts = replace(
            known,
            memories_done=min(known.memories_total, known.memories_done + memories),
            messages_done=min(known.messages_total, known.messages_done + messages),
        )
