"""Gives stored memories and messages their vectors, in the background. The rows are the queue: a restart goes on."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from db.embeddings import (
    Embedded,
    Waiting,
    lacking_memories,
    waiting_memories,
    waiting_messages,
    write_memories,
    write_messages,
)
from db.memory_models import MemoryId, Vector
from db.pool import Connection, Database, DatabaseUnavailable
from db.stopping import stop
from db.vectors import vector_literal
from llm.embedding.progress import ProgressReport
from llm.embedding.service import Embeddings
from llm.embedding.types import EmbeddingRefused, Space
from llm.errors import EmbeddingUnavailable

logger = logging.getLogger(__name__)

FIRST_AFTER = 5.0
"""Seconds after the start before the model is loaded: first the bot should answer."""
POLL_SECONDS = 60.0
"""Other processes write rows too."""
MIN_PAUSE = 1.0
FAULT_PAUSE = 30.0
CHUNK = 256
SKIPPED = 1000
TRIES = 50
TRY_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class _Done:
    """What became of a batch: how many rows were written, and which got no vector for their text."""

    written: int
    refused: tuple[Waiting, ...]


class EmbeddingKeeper:
    """Embeds what waits: newest memories first, then newest messages, with pauses so that turns stay fast."""

    def __init__(
        self,
        database: Database,
        embeddings: Embeddings,
        *,
        first_after: float = FIRST_AFTER,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        report: ProgressReport | None = None,
    ) -> None:
        self._database = database
        self._embeddings = embeddings
        self._first_after = first_after
        self._sleep = sleep
        self._report = report or ProgressReport()
        self._poked = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._hurried = 0
        self._calm = asyncio.Event()
        self._calm.set()
        self._skipped_memories: deque[int] = deque(maxlen=SKIPPED)
        self._skipped_messages: deque[int] = deque(maxlen=SKIPPED)

    def start(self) -> None:
        """Begin to work in the background."""
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name="embedding-keeper")

    def poke(self) -> None:
        """Say that there are new rows."""
        self._poked.set()

    async def settled(self, ids: Sequence[MemoryId]) -> None:
        """Give some memories vectors of the current space, at full speed, before anything else in the background.

        Works without ``start``. Raises EmbeddingUnavailable when some have none at the end, and DatabaseUnavailable.
        """
        space = await self._embeddings.ready()
        refused = 0
        async with self._hurry():
            for start in range(0, len(ids), CHUNK):
                refused += await self._settle(space, ids[start : start + CHUNK])
        if refused:
            raise EmbeddingUnavailable(f"有 {refused} 条记忆的文字算不出向量")

    @asynccontextmanager
    async def _hurry(self) -> AsyncGenerator[None]:
        self._hurried += 1
        self._calm.clear()
        try:
            yield
        finally:
            self._hurried -= 1
            if self._hurried == 0:
                self._calm.set()

    async def _settle(self, space: Space, ids: Sequence[MemoryId]) -> int:
        """Embed what lacks a vector among some memories; returns how many get none."""
        refused: dict[int, str] = {}
        rows: list[Waiting] = []
        for _ in range(TRIES):
            async with self._database.connection() as conn:
                rows = await lacking_memories(conn, space.id, ids)
            # A text that was changed meanwhile is tried again.
            open_rows = [row for row in rows if refused.get(row.id) != row.text]
            if not open_rows:
                return len(rows)
            written = 0
            for start in range(0, len(open_rows), self._embeddings.batch):
                done = await self._embed(space, open_rows[start : start + self._embeddings.batch], write_memories)
                self._embeddings.tally.wrote(memories=done.written)
                refused.update((row.id, row.text) for row in done.refused)
                written += done.written
            if not written:
                # Another process is writing them.
                await self._sleep(TRY_SECONDS)
        return len(rows)

    async def _run(self) -> None:
        await asyncio.sleep(self._first_after)
        while not self._embeddings.off:
            self._poked.clear()
            pause = 0.0
            try:
                space = await self._embeddings.ready()
                if not await self._round(space):
                    pause = POLL_SECONDS
            except EmbeddingUnavailable as error:
                logger.debug("后台计算向量停一会：%s", error)
                await self._embeddings.changed(max(MIN_PAUSE, self._embeddings.retry_in))
            except DatabaseUnavailable as error:
                logger.warning("后台计算向量时数据库连不上，过一会再来：%s", error)
                await asyncio.sleep(FAULT_PAUSE)
            except Exception:
                logger.exception("后台计算向量时出错，过一会再来")
                await asyncio.sleep(FAULT_PAUSE)
            if pause:
                await self._wait(pause)

    async def _wait(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._poked.wait()
        except TimeoutError:
            return

    async def _round(self, space: Space) -> bool:
        """Embed one batch of what waits, memories before messages; False when nothing waits."""
        await self._calm.wait()
        started = time.monotonic()
        limit = self._embeddings.batch
        async with self._database.connection() as conn:
            memories = await waiting_memories(conn, space.id, limit=limit, skip=self._skipped_memories)
            messages = [] if memories else await waiting_messages(conn, space.id, limit=limit, skip=self._skipped_messages)
        if not memories and not messages:
            self._report.finish()
            return False
        counts = await self._embeddings.tally.refresh(space.id)
        self._report.show(counts.done, counts.total)
        if memories:
            done = await self._embed(space, memories, write_memories)
            self._skipped_memories.extend(row.id for row in done.refused)
            self._embeddings.tally.wrote(memories=done.written)
        else:
            done = await self._embed(space, messages, write_messages)
            self._skipped_messages.extend(row.id for row in done.refused)
            self._embeddings.tally.wrote(messages=done.written)
        self._report.show(self._embeddings.tally.counts.done, self._embeddings.tally.counts.total)
        if self._embeddings.local:
            # Half of the time belongs to everybody else.
            await self._sleep(time.monotonic() - started)
        elif not done.written:
            await self._sleep(TRY_SECONDS)
        return True

    async def _embed(
        self,
        space: Space,
        rows: Sequence[Waiting],
        write: Callable[[Connection, int, Sequence[Embedded]], Awaitable[int]],
    ) -> _Done:
        vectors = await self._embeddings.each_passage([row.text for row in rows])
        pairs = list(zip(rows, vectors, strict=True))
        good = [(row, vector) for row, vector in pairs if isinstance(vector, Vector)]
        refused = tuple(row for row, vector in pairs if isinstance(vector, EmbeddingRefused))
        if not good:
            return _Done(0, refused)
        embedded = await asyncio.to_thread(_written_out, good)
        async with self._database.connection() as conn:
            return _Done(await write(conn, space.id, embedded), refused)

    async def aclose(self) -> None:
        """Stop. What is not done waits for the next start."""
        if self._task is not None:
            await stop([self._task])
        self._report.end()


def _written_out(pairs: Sequence[tuple[Waiting, Vector]]) -> list[Embedded]:
    """Thousands of numbers to text: not on the loop."""
    return [Embedded(row.id, row.text, vector_literal(vector.values)) for row, vector in pairs]
