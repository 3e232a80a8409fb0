"""The learner of one process: starts the runs that are due, a few at once, and those that people ask for."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Protocol, TypeVar

from db import conversations, learner
from db.learned_models import LEARN_TASKS, LearnTask
from db.learner import Where, Work
from db.models import Conversation, ConversationId
from db.pool import Database, DatabaseUnavailable
from db.stopping import stop
from db.usage import TaskTokens, learner_tasks_since
from learner.engine import Ground, Run, Tally
from learner.expressions import ExpressionsTask
from learner.memories import MemoriesTask
from learner.profiles import ProfilesTask
from learner.slang import SlangTask
from learner.task import Mender, Task
from learner.terms import TermsTask
from learner.topics import TopicsTask
from llm.embedding.service import Embeddings
from llm.memory.service import MemoryService
from llm.service import Models
from settings import Settings

logger = logging.getLogger(__name__)

T = TypeVar("T")

MOST_AT_ONCE = 3
"""Each run keeps one connection of the pool for its lock, and uses another."""
ROUNDS = 4
"""Batches of each task that a due conversation learns before it is another's turn."""
MENDS = 20
"""Pieces of mending in a run that somebody asked for."""
DEMO_NOTE = "演示模型不会推断：只数了词；设置 LLM_BASE_URL 与 LLM_MODEL 后才学话题、记忆、黑话的意思、表达和画像"


class Busy(Exception):
    """Somebody else, here or in another process, learns from this conversation at the moment."""


class Closed(Exception):
    """The bot is being shut down: nothing more is learned."""


class LearnerModels(Protocol):
    """The models, as far as the learner's budget goes."""

    @property
    def is_demo(self) -> bool:
        """True while nothing can be inferred."""
        ...

    async def learner_left(self, conversation_id: ConversationId) -> int:
        """Tokens that may still be used for a conversation today."""
        ...

    async def usage_written(self) -> bool:
        """Wait shortly until all calls so far are rows; False: not all of them are."""
        ...


@dataclass(frozen=True, slots=True)
class Crew:
    """Who learns: the tasks, the one that also mends, and who is told after each commit."""

    tasks: Sequence[Task]
    mender: Mender | None = None
    committed: Callable[[], None] = lambda: None


@dataclass(frozen=True, slots=True)
class Report:
    """What a run did. ``counts``: what was found, by name. ``stopped``: why a task ended early. ``left``: tokens of today."""

    batches: int
    skipped: int
    counts: Mapping[str, int]
    stopped: Mapping[LearnTask, str]
    used: tuple[TaskTokens, ...]
    left: int
    demo: bool

    @property
    def learned(self) -> bool:
        """Whether all that could be learned is learned now."""
        return not self.stopped and not self.demo


@dataclass(frozen=True, slots=True)
class Activity:
    """What the learner does at the moment. ``ticked_at``: when it last looked who is due."""

    running: int
    at_once: int
    ticked_at: datetime | None


def _utc_now() -> datetime:
    return datetime.now(UTC)


class Learner:
    """Learns in the background. One instance a process; close it with ``aclose``."""

    def __init__(
        self,
        database: Database,
        models: LearnerModels,
        crew: Crew,
        settings: Settings,
        *,
        clock: Callable[[], datetime] = _utc_now,
    ) -> None:
        self._database = database
        self._models = models
        self._settings = settings
        self._clock = clock
        ordered = sorted(crew.tasks, key=lambda task: LEARN_TASKS.index(task.name))
        self._tasks: dict[LearnTask, Task] = {task.name: task for task in ordered if not (task.needs_model and models.is_demo)}
        self._mender = None if models.is_demo else crew.mender
        self._ground = Ground(database, self._tokens_left, crew.committed, clock)
        self._at_once = min(settings.learner_at_once, MOST_AT_ONCE)
        self._by_hand = asyncio.Semaphore(1)
        self._running: set[ConversationId] = set()
        self._jobs: set[asyncio.Task[object]] = set()
        self._ticked_at: datetime | None = None
        self._ticking = False
        self._closed = False

    @classmethod
    def from_parts(
        cls, database: Database, models: Models, memory: MemoryService, embeddings: Embeddings, settings: Settings
    ) -> Learner:
        """Build the learner with all its tasks."""
        topics = TopicsTask(database, models, settings)
        tasks: tuple[Task, ...] = (
            TermsTask(database, settings),
            topics,
            MemoriesTask(database, models, memory, settings),
            SlangTask(database, models, settings),
            ExpressionsTask(database, models, embeddings, settings),
            ProfilesTask(database, models, settings),
        )
        return cls(database, models, Crew(tasks, topics, memory.committed), settings)

    @property
    def tasks(self) -> tuple[LearnTask, ...]:
        """The tasks that work now: without a model, few do."""
        return tuple(self._tasks)

    def activity(self) -> Activity:
        """Tell what goes on."""
        return Activity(len(self._running), self._at_once, self._ticked_at)

    async def tick(self) -> None:
        """Learn from the conversations that are due, the longest waiting first; nothing while the last tick still works.

        Raises DatabaseUnavailable, Closed.
        """
        if self._ticking:
            return
        self._ticking, self._ticked_at = True, self._clock()
        try:
            await self._supervised(self._tick())
        finally:
            self._ticking = False

    async def run(self, conversation_id: ConversationId) -> Report:
        """Learn all of a conversation, whether it is due or waits after a failure, until nothing or no budget is left.

        Raises Busy, Closed, DatabaseUnavailable, and LookupError for a conversation that is gone.
        """
        return await self._supervised(self._run(conversation_id))

    async def aclose(self) -> None:
        """Stop what runs; what was not stored yet is left as it was."""
        self._closed = True
        await stop(self._jobs)

    async def _supervised(self, work: Coroutine[object, object, T]) -> T:
        """Do work that ``aclose`` can stop."""
        if self._closed:
            work.close()
            raise Closed
        job = asyncio.create_task(work)
        self._jobs.add(job)
        job.add_done_callback(self._jobs.discard)
        try:
            await asyncio.wait({job})
        except asyncio.CancelledError:
            job.cancel()
            await asyncio.wait({job})
            raise
        if job.cancelled():
            raise Closed
        return job.result()

    async def _tick(self) -> None:
        async with self._database.connection() as conn:
            found = await learner.due(conn, self._where(), self._works(), self._clock())
            mend = [] if self._mender is None else await learner.broken(conn, self._where(), self._mender.name, self._clock())
        waiting = deque(dict.fromkeys([*(item.conversation_id for item in found), *mend]))
        await asyncio.gather(*(self._serve(waiting) for _ in range(self._at_once)))

    async def _serve(self, waiting: deque[ConversationId]) -> None:
        while waiting:
            conversation_id = waiting.popleft()
            try:
                await self._run_due(conversation_id)
            except (Busy, LookupError):
                continue
            except DatabaseUnavailable as error:
                logger.warning("学习会话 %s 时数据库连不上，下次再来：%s", conversation_id, error)
            except Exception:
                logger.exception("学习会话 %s 时出错，下次再来", conversation_id)

    async def _run_due(self, conversation_id: ConversationId) -> None:
        """Learn what is due of one conversation, but leave some of a long past for later: others wait too."""

        async def work(run: Run) -> None:
            for _ in range(ROUNDS):
                due = await self._due_tasks(conversation_id)
                if not await run.round(due):
                    break
            if self._mender is not None and await self._broken(conversation_id, self._mender):
                await run.mend(self._mender)

        tally = await self._alone(conversation_id, work)
        if tally.batches:
            logger.info("学习了会话 %s：%s", conversation_id, _said(tally))

    async def _due_tasks(self, conversation_id: ConversationId) -> list[Task]:
        async with self._database.connection() as conn:
            found = await learner.due(conn, self._where(conversation_id), self._works(), self._clock())
        return [self._tasks[name] for item in found for name in item.tasks]

    async def _broken(self, conversation_id: ConversationId, mender: Mender) -> bool:
        async with self._database.connection() as conn:
            return bool(await learner.broken(conn, self._where(conversation_id), mender.name, self._clock()))

    async def _run(self, conversation_id: ConversationId) -> Report:
        async def work(run: Run) -> None:
            while (await self._place(conversation_id)).learning and await run.round(tuple(self._tasks.values())):
                pass
            for _ in range(MENDS):
                if self._mender is None or await run.mend(self._mender) != "moved":
                    break

        if conversation_id in self._running:
            raise Busy
        started = self._clock()
        async with self._by_hand:
            tally = await self._alone(conversation_id, work)
        await self._models.usage_written()
        async with self._database.connection() as conn:
            used = await learner_tasks_since(conn, conversation_id, started)
        logger.info("按主人的吩咐学习了会话 %s：%s", conversation_id, _said(tally))
        return Report(
            batches=tally.batches,
            skipped=tally.skipped,
            counts=dict(tally.counts),
            stopped=dict(tally.stopped),
            used=tuple(used),
            left=await self._models.learner_left(conversation_id),
            demo=self._models.is_demo,
        )

    async def _alone(self, conversation_id: ConversationId, work: Callable[[Run], Coroutine[object, object, None]]) -> Tally:
        """Do work on a conversation that nobody else works on. Raises Busy, LookupError, DatabaseUnavailable."""
        if conversation_id in self._running:
            raise Busy
        self._running.add(conversation_id)
        try:
            async with learner.alone(self._database, conversation_id) as free:
                if not free:
                    raise Busy
                run = Run(self._ground, await self._place(conversation_id))
                await work(run)
        finally:
            self._running.discard(conversation_id)
        return run.tally

    async def _place(self, conversation_id: ConversationId) -> Conversation:
        async with self._database.connection() as conn:
            found = await conversations.get(conn, conversation_id)
        if found is None:
            raise LookupError(f"没有编号为 {conversation_id} 的会话")
        return found

    async def _tokens_left(self, place: Conversation) -> int:
        return await self._models.learner_left(place.id)

    def _where(self, only: ConversationId | None = None) -> Where:
        return Where(self._settings.enabled_groups, self._settings.superusers, only)

    def _works(self) -> list[Work]:
        return [Work(task.name, task.after) for task in self._tasks.values()]


def _said(tally: Tally) -> str:
    found = "，".join(f"{name} {count}" for name, count in sorted(tally.counts.items()) if count) or "没有新的"
    ended = "；".join(f"{task}：{reason}" for task, reason in tally.stopped.items())
    return (
        f"{tally.batches} 批，{found}"
        + (f"，跳过 {tally.skipped} 条" if tally.skipped else "")
        + (f"（{ended}）" if ended else "")
    )
