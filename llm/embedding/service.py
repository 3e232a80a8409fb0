"""The one door to embeddings: questions and passages in, vectors of the current space out."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Iterable, Sequence

from db.memory_models import Vector
from db.pool import Database, DatabaseUnavailable
from db.stopping import stop
from llm.embedding.cache import VectorCache
from llm.embedding.desk import Desk, Job
from llm.embedding.local import LocalBackend
from llm.embedding.outage import Outage
from llm.embedding.remote import RemoteBackend, RemoteSettings
from llm.embedding.tally import Tally
from llm.embedding.types import (
    CANARY,
    Backend,
    EmbeddingRefused,
    EmbeddingStatus,
    NoBackend,
    Outcome,
    ServiceAway,
    Space,
    State,
    TextKind,
    Values,
    fit,
)
from llm.embedding.worker import Worker
from llm.errors import EmbeddingUnavailable
from settings import Settings

logger = logging.getLogger(__name__)

QUERY_CHARS = 256
PASSAGE_CHARS = 512
QUERY_BACKLOG = 64
"""Questions that may wait; with more, the newest go without a vector."""
SLICE = 64
"""How many passages of one caller wait at once."""
PROBE_SECONDS = 60.0
PROBE_WAIT_SECONDS = 1.0
CLOSED = "向量服务已经关闭"
EMPTY = "没有文字，也就没有向量"


class Embeddings:
    """Embeds texts beside the event loop, questions before passages. One instance a process."""

    def __init__(self, database: Database, backend: Backend, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._backend = backend
        self._worker = Worker(database, backend)
        self._clock = clock
        self._desk = Desk()
        self._cache = VectorCache()
        self._outage = Outage(clock)
        self._heard_at: float | None = None
        self._off: str | None = None
        self._closed = False
        self._tasks: list[asyncio.Task[None]] = []
        self._look: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()
        self.tally = Tally(database, clock)
        """How far the rows of the database are."""

    @classmethod
    def from_settings(cls, settings: Settings, database: Database) -> Embeddings:
        """Build what the settings name, or the local model while no service is set."""
        if settings.embedding_base_url:
            return cls(database, RemoteBackend(RemoteSettings.of(settings)))
        return cls(database, LocalBackend())

    @property
    def space(self) -> Space | None:
        """The space of the vectors; None until the model was first needed."""
        return self._worker.space

    @property
    def near(self) -> float | None:
        """The cosine from which two short passages may say the same; None: not known for this model."""
        return self._worker.identity.near if self._worker.identity else None

    @property
    def local(self) -> bool:
        """Whether embedding takes this machine's processors."""
        return self._backend.local

    @property
    def batch(self) -> int:
        """How many passages are worth being handed in at once."""
        return self._worker.limits.texts * self._worker.limits.fetched

    @property
    def off(self) -> bool:
        """Whether there will be no vectors until a new start."""
        return self._off is not None

    @property
    def retry_in(self) -> float:
        """Seconds until background work should try again; 0 while nothing is wrong."""
        return self._outage.remaining

    async def open(self) -> None:
        """Begin to take texts. Loads nothing and asks nobody."""
        if self._tasks or self._closed:
            return
        # A local model does one thing at a time; a service answers a question while it works on passages.
        lanes: list[Sequence[TextKind]] = [("query", "passage")] if self.local else [("query",), ("passage",)]
        self._tasks = [asyncio.create_task(self._serve(kinds), name=f"embedding-{kinds[-1]}") for kinds in lanes]

    async def queries(self, texts: Sequence[str], *, within: float = 1.0) -> list[Vector | None]:
        """Embed questions; None for each that has no vector ``within`` so many seconds. Never raises."""
        asked = [fit(text, QUERY_CHARS) for text in texts]
        found: dict[str, Values] = {}
        jobs: dict[str, Job] = {}
        for text in dict.fromkeys(filter(None, asked)):
            known = self._cache.get("query", text)
            if known is not None:
                found[text] = known
            elif self._open_for("query") and self._desk.length("query") < QUERY_BACKLOG:
                jobs[text] = self._desk.submit("query", text)
        for text, outcome in (await self._outcomes(jobs, within)).items():
            if not isinstance(outcome, EmbeddingUnavailable):
                found[text] = outcome
        space = self.space
        return [None if space is None or text not in found else _vector(space, found[text]) for text in asked]

    async def passages(self, texts: Sequence[str]) -> list[Vector]:
        """Embed passages, one vector a text. Raises EmbeddingUnavailable, also when one text has none."""
        vectors: list[Vector] = []
        for vector in await self.each_passage(texts):
            if isinstance(vector, EmbeddingRefused):
                raise vector
            vectors.append(vector)
        return vectors

    async def each_passage(self, texts: Sequence[str]) -> list[Vector | EmbeddingRefused]:
        """Embed passages; a text that alone gets no vector has its refusal in its place. Raises EmbeddingUnavailable."""
        asked = [fit(text, PASSAGE_CHARS) for text in texts]
        found: dict[str, Values | EmbeddingRefused] = {"": EmbeddingRefused(EMPTY)}
        missing: list[str] = []
        for text in dict.fromkeys(filter(None, asked)):
            known = self._cache.get("passage", text)
            if known is None:
                missing.append(text)
            else:
                found[text] = known
        for start in range(0, len(missing), SLICE):
            if not self._open_for("passage"):
                raise EmbeddingUnavailable(self._why_not())
            jobs = {text: self._desk.submit("passage", text) for text in missing[start : start + SLICE]}
            for text, outcome in (await self._outcomes(jobs, None)).items():
                if isinstance(outcome, EmbeddingUnavailable) and not isinstance(outcome, EmbeddingRefused):
                    raise EmbeddingUnavailable(outcome.reason) from outcome
                found[text] = outcome
        space = self.space
        if space is None:
            # Only blanks were asked for, before the model was ever needed.
            return [EmbeddingRefused(EMPTY) for _ in asked]
        return [_result(space, found[text]) for text in asked]

    async def ready(self) -> Space:
        """Load the model or ask the service what it is, if that was not done. Raises EmbeddingUnavailable."""
        if self.space is None:
            await self.each_passage([CANARY])
        if self.space is None:
            raise EmbeddingUnavailable(self._why_not())
        return self.space

    async def changed(self, seconds: float) -> None:
        """Wait until the service comes back from an outage, ``seconds`` at most."""
        self._changed.clear()
        try:
            async with asyncio.timeout(seconds):
                await self._changed.wait()
        except TimeoutError:
            return

    def _open_for(self, kind: TextKind) -> bool:
        return bool(self._tasks) and not self._closed and self._off is None and not self._outage.blocks(kind)

    def _why_not(self) -> str:
        if self._closed or not self._tasks:
            return CLOSED if self._closed else "向量服务还没有打开"
        return self._off or self._outage.reason or "向量服务还没有准备好"

    async def _outcomes(self, jobs: dict[str, Job], within: float | None) -> dict[str, Outcome]:
        """Wait for jobs, and leave those that take too long."""
        if not jobs:
            return {}
        try:
            await asyncio.wait({job.outcome for job in jobs.values()}, timeout=within)
        finally:
            for job in jobs.values():
                self._desk.leave(job)
        return {text: job.outcome.result() for text, job in jobs.items() if job.outcome.done()}

    async def _serve(self, kinds: Sequence[TextKind]) -> None:
        while True:
            jobs = await self._desk.take(kinds, self._worker.limits)
            outcomes = await self._work(jobs[0].kind, [job.text for job in jobs])
            for job, outcome in zip(jobs, outcomes, strict=True):
                self._desk.settle(job, outcome)

    async def _work(self, kind: TextKind, texts: Sequence[str]) -> Collection[Outcome]:
        """Embed a batch, whatever happens. What comes after a failure fails at once, until it is time to try again."""
        if not self._open_for(kind):
            return [EmbeddingUnavailable(self._why_not())] * len(texts)
        try:
            outcomes = await self._worker.work(kind, texts)
        except NoBackend as error:
            self._off = error.reason
            logger.warning("%s", error.reason)
            return [error] * len(texts)
        except ServiceAway as error:
            self._outage.failed(error.reason, error.retry_after)
            return [error] * len(texts)
        except Exception as error:
            logger.exception("计算 %d 段文字的向量时出错", len(texts))
            self._outage.failed(f"计算向量时出错：{type(error).__name__}")
            return [EmbeddingUnavailable("计算向量时出错")] * len(texts)
        self._heard_at = self._clock()
        if self._outage.reason is not None:
            self._outage.recovered()
            self._changed.set()
        self._keep(kind, zip(texts, outcomes, strict=True))
        return outcomes

    def _keep(self, kind: TextKind, results: Iterable[tuple[str, Outcome]]) -> None:
        for text, outcome in results:
            if not isinstance(outcome, EmbeddingUnavailable):
                self._cache.put(kind, text, outcome)

    def status(self) -> EmbeddingStatus:
        """Tell how the service is, from what is known; ``probe`` looks first."""
        state, detail = self._state()
        counts = self.tally.counts
        identity = self._worker.identity
        return EmbeddingStatus(
            state=state,
            model=identity.model if identity else self._backend.model,
            dim=identity.dim if identity else None,
            memories_total=counts.memories_total,
            memories_done=counts.memories_done,
            messages_total=counts.messages_total,
            messages_done=counts.messages_done,
            detail=detail,
        )

    def _state(self) -> tuple[State, str]:
        if self._off is not None or self._closed:
            return "off", self._off or CLOSED
        if self._outage.reason is not None:
            return "down", f"{self._outage.reason}；检索先只用文字"
        if self.space is None:
            return "starting", "还没有用到向量模型"
        waiting = self.tally.counts.total - self.tally.counts.done
        return "ok", f"还有 {waiting} 条在等向量" if waiting > 0 else "向量都已算好"

    async def probe(self) -> EmbeddingStatus:
        """Count the rows again and ask a service that was silent for a while; takes ≤ 1 s. Never raises."""
        if self._look is None or self._look.done():
            self._look = asyncio.create_task(self._see(), name="embedding-probe")
        await asyncio.wait({self._look}, timeout=PROBE_WAIT_SECONDS)
        return self.status()

    async def _see(self) -> None:
        silent = self._heard_at is None or self._clock() - self._heard_at > PROBE_SECONDS
        if silent and not self._closed and not self._outage.blocks("query"):
            reason = await self._backend.reach()
            if reason is None:
                self._heard_at = self._clock()
            else:
                self._outage.failed(reason)
        try:
            await self.tally.refresh(self.space.id if self.space else None)
        except DatabaseUnavailable as error:
            logger.debug("查不到向量的进度：%s", error)

    async def aclose(self) -> None:
        """Stop; who still waits is told so. A second call does nothing."""
        if self._closed:
            return
        self._closed = True
        tasks = [*self._tasks, *([self._look] if self._look else [])]
        await stop(tasks)
        self._desk.settle_all(EmbeddingUnavailable(CLOSED))
        await self._backend.aclose()


def _vector(space: Space, values: Values) -> Vector:
    return Vector(space.id, tuple(values))


def _result(space: Space, outcome: Values | EmbeddingRefused) -> Vector | EmbeddingRefused:
    return outcome if isinstance(outcome, EmbeddingRefused) else _vector(space, outcome)
