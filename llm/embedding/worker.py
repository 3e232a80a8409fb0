"""Turns batches of texts into outcomes: what the backend gives, and whose fault it is when it gives nothing."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import replace

from db.embeddings import ensure_space
from db.pool import Database, DatabaseUnavailable
from llm.embedding.types import (
    CANARY,
    Backend,
    EmbeddingRefused,
    Identity,
    Limits,
    Outcome,
    ServiceAway,
    Space,
    TextKind,
    TextsRefused,
)

logger = logging.getLogger(__name__)

UNUSABLE = "向量服务给这段文字返回了无效的向量"


class Worker:
    """One backend with its space. A batch that is refused is halved until the refused texts are found."""

    def __init__(self, database: Database, backend: Backend) -> None:
        self._database = database
        self._backend = backend
        self._most: int | None = None
        self._getting_ready = asyncio.Lock()
        self.identity: Identity | None = None
        self.space: Space | None = None

    @property
    def limits(self) -> Limits:
        """What the backend takes at once, as far as was found out."""
        limits = self._backend.limits
        return limits if self._most is None else replace(limits, texts=min(limits.texts, self._most))

    async def ready(self) -> Space:
        """Get the backend ready and know its space. Raises ServiceAway."""
        async with self._getting_ready:
            if self.space is None:
                identity = await self._backend.identify()
                try:
                    async with self._database.connection() as conn:
                        space_id = await ensure_space(conn, identity.model, identity.dim)
                except DatabaseUnavailable as error:
                    raise ServiceAway(str(error)) from error
                self.identity = identity
                self.space = Space(space_id, identity.model, identity.dim)
            return self.space

    async def work(self, kind: TextKind, texts: Sequence[str]) -> list[Outcome]:
        """Give each text its vector, or why it alone has none. Raises ServiceAway when none gets one."""
        await self.ready()
        try:
            outcomes = await self._embed(kind, texts)
        except TextsRefused as refusal:
            if not await self._takes_anything(kind):
                raise ServiceAway(str(refusal)) from refusal
            return await self._halve(kind, texts, refusal)
        if all(isinstance(outcome, EmbeddingRefused) for outcome in outcomes) and not await self._takes_anything(kind):
            raise ServiceAway("向量服务返回的都是无效的向量")
        return outcomes

    async def _embed(self, kind: TextKind, texts: Sequence[str]) -> list[Outcome]:
        vectors = await self._backend.embed(kind, texts)
        if (unusable := vectors.count(None)) > 0:
            logger.info("%d 段文字里有 %d 段得到无效的向量", len(texts), unusable)
        return [EmbeddingRefused(UNUSABLE) if values is None else values for values in vectors]

    async def _takes_anything(self, kind: TextKind) -> bool:
        try:
            return (await self._backend.embed(kind, [CANARY]))[0] is not None
        except TextsRefused:
            return False

    async def _halve(self, kind: TextKind, texts: Sequence[str], refusal: TextsRefused) -> list[Outcome]:
        if len(texts) == 1:
            logger.warning("向量服务不接受一段 %d 字的文字，跳过它：%s", len(texts[0]), refusal)
            return [EmbeddingRefused(str(refusal))]
        outcomes: list[Outcome] = []
        middle = (len(texts) + 1) // 2
        for half in (texts[:middle], texts[middle:]):
            try:
                outcomes += await self._embed(kind, half)
            except TextsRefused as again:
                outcomes += await self._halve(kind, half, again)
        if not any(isinstance(outcome, EmbeddingRefused) for outcome in outcomes):
            # No text was at fault: there were too many.
            self._most = min(self._most or middle, middle)
            logger.info("向量服务一次收不下 %d 段文字，以后一次最多 %d 段", len(texts), self._most)
        return outcomes
