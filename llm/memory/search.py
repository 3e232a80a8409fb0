"""Searching what was said, by words and by meaning, with the time words of a query understood."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, tzinfo
from zoneinfo import ZoneInfo

from db.message_search import MessageHit, MessageQuery, search_messages
from db.pool import Database
from db.timewords import read_query
from llm.embedding.service import Embeddings

_SHANGHAI = ZoneInfo("Asia/Shanghai")


class MessageSearch:
    """Searches raw messages. One instance a process."""

    def __init__(
        self,
        database: Database,
        embeddings: Embeddings,
        *,
        zone: tzinfo = _SHANGHAI,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._database = database
        self._embeddings = embeddings
        self._zone = zone
        self._clock = clock

    async def search(self, query: MessageQuery, *, within: float = 0.5) -> list[MessageHit]:
        """Find messages, best first, waiting for the query's vector ``within`` so many seconds at most.

        Without ``when``, a time in the words is the time to search in (上周三吃的火锅); where that finds nothing, the words are
        searched as they stand. A dead embedding costs what is found by meaning. Raises DatabaseUnavailable.
        """
        if query.when is None:
            timed = read_query(query.text, self._clock(), self._zone)
            if timed.range is not None:
                meant = replace(query, text=timed.rest, when=timed.range)
                hits = await self._search(meant, within)
                if hits or (query.offset and await self._search(replace(meant, offset=0, limit=1), within)):
                    return hits
        return await self._search(query, within)

    async def _search(self, query: MessageQuery, within: float) -> list[MessageHit]:
        vector = None
        if query.text.strip():
            [vector] = await self._embeddings.queries([query.text], within=within)
        return await search_messages(self._database, query, vector)
