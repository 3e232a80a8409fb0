"""One run over one conversation: batch by batch, each stored together with the cursor that moves over it."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, TypeAlias

from db import learned_lock, learner
from db.learned_models import LearnTask
from db.learner import Move
from db.models import Conversation
from db.pool import Connection, Database, DatabaseUnavailable
from learner.batches import Reach, read_batch
from learner.task import Batch, Findings, Mender, StaleFindings, Task
from llm.errors import BudgetExhausted, ModelUnavailable
from llm.failures import AccountRefused, Unserved
from llm.types import CallContext

logger = logging.getLogger(__name__)

STALE_TRIES = 3
NEIGHBOURS = 3
"""Messages after a suspect that are asked about, to tell a bad message from a bad service."""
BUDGET_GONE = "今天学习用的 token 已用完，明天继续"
STALE = "学习期间被别的改动打断，稍后再来"
MOVED = "有别的进程在学这个会话"

Outcome: TypeAlias = Literal["moved", "idle", "stopped"]


class CursorMoved(Exception):
    """Somebody else moved the cursor meanwhile; nothing was stored."""


@dataclass(frozen=True, slots=True)
class Ground:
    """What every run works with. ``tokens_left``: of today, for a conversation. ``committed``: called after each commit."""

    database: Database
    tokens_left: Callable[[Conversation], Awaitable[int]]
    committed: Callable[[], None]
    clock: Callable[[], datetime]


class NothingFound:
    """What a batch without sources holds."""

    async def store(self, conn: Connection) -> Mapping[str, int]:
        """Write nothing."""
        return {}


class Pace:
    """How large a task's batches are in one run: halved while they fail, doubled again when they do not."""

    def __init__(self, full: int) -> None:
        self._full = full
        self.size = full
        self.bare = False
        self.proven = False
        """Whether a batch was learned since a message was last left out: then neither service nor code is what fails."""
        self.stale = 0

    @property
    def reach(self) -> Reach:
        """What the next batch takes."""
        return Reach(self.size, self.bare)

    def failed(self, sources: int) -> bool:
        """Take less next time; False: a single message, shown alone, failed."""
        if sources <= 1 and self.bare:
            return False
        self.size, self.bare = max(1, sources // 2), True
        return True

    def stored(self) -> None:
        """Take more next time, with context again once batches are whole."""
        self.stale = 0
        self.size = min(self._full, self.size * 2)
        self.bare = self.bare and self.size < self._full


@dataclass(slots=True)
class Tally:
    """What a run did: batches stored, messages skipped, counts by name; tasks that ended early, with the reason."""

    batches: int = 0
    skipped: int = 0
    counts: Counter[str] = field(default_factory=Counter[str])
    stopped: dict[LearnTask, str] = field(default_factory=dict[LearnTask, str])


class Run:
    """One run. Whoever makes it holds the conversation's lock."""

    def __init__(self, ground: Ground, place: Conversation) -> None:
        self._ground = ground
        self._place = place
        self._paces: dict[LearnTask, Pace] = {}
        self.tally = Tally()

    async def round(self, tasks: Sequence[Task]) -> bool:
        """Let each task learn one batch, in this order; False: none got any further. Raises DatabaseUnavailable."""
        moved = False
        for task in tasks:
            if task.name not in self.tally.stopped:
                moved |= await self._advance(task) == "moved"
        return moved

    async def mend(self, task: Mender) -> Outcome:
        """Let a task make anew what lost its evidence. Raises DatabaseUnavailable."""
        if task.name in self.tally.stopped:
            return "stopped"
        if await self._ground.tokens_left(self._place) <= 0:
            return self._stop(task, BUDGET_GONE)
        try:
            findings = await task.mend(self._place, CallContext(task.name, self._place.id))
            if findings is None:
                return "idle"
            async with self._ground.database.transaction() as conn:
                await learned_lock.hold(conn, self._place.id)
                counts = await findings.store(conn)
        except DatabaseUnavailable:
            raise
        except BudgetExhausted as gone:
            return self._stop(task, gone.reason)
        except StaleFindings as stale:
            logger.info("会话 %s 的 %s 稍后再补：%s", self._place.id, task.name, stale)
            return "idle"
        except Exception as failure:
            logger.warning("会话 %s 的 %s 补的时候出错", self._place.id, task.name, exc_info=failure)
            return await self._fail(task, _words(failure))
        self.tally.batches += 1
        self.tally.counts.update(counts)
        self._ground.committed()
        return "moved"

    async def _advance(self, task: Task) -> Outcome:
        """Learn one batch, a smaller one where the whole cannot be learned."""
        pace = self._paces.setdefault(task.name, Pace(task.size))
        while True:
            batch = await read_batch(self._ground.database, self._place, task, pace.reach)
            if batch is None:
                return "idle"
            outcome = await self._learn(task, batch, pace)
            if outcome is not None:
                return outcome

    async def _learn(self, task: Task, batch: Batch, pace: Pace) -> Outcome | None:
        """Learn a batch; None: to be tried again, at the pace that is set now."""
        if batch.sources and task.needs_model and await self._ground.tokens_left(self._place) <= 0:
            return self._stop(task, BUDGET_GONE)
        try:
            findings: Findings = NothingFound()
            if batch.sources:
                findings = await task.infer(batch, CallContext(task.name, self._place.id))
            await self._store(batch, findings)
            pace.proven |= bool(batch.sources)
        except DatabaseUnavailable:
            raise
        except BudgetExhausted as gone:
            return self._stop(task, gone.reason)
        except (ModelUnavailable, AccountRefused, Unserved) as failure:
            return await self._fail(task, failure.reason)
        except CursorMoved:
            return self._stop(task, MOVED)
        except StaleFindings as stale:
            pace.stale += 1
            logger.info("会话 %s 的 %s 要重新学这一批：%s", self._place.id, task.name, stale)
            return None if pace.stale < STALE_TRIES else self._stop(task, STALE)
        except Exception as failure:  # noqa: BLE001 - the tasks' boundary: it is logged below
            return await self._doubt(task, batch, pace, failure)
        pace.stored()
        return "moved"

    async def _doubt(self, task: Task, batch: Batch, pace: Pace, failure: Exception) -> Outcome | None:
        """Something in the batch may be what fails: narrow it down to one message, and leave that one out."""
        logger.info(
            "会话 %s 的 %s 没学成 #%d 到 #%d 里的 %d 条：%s",
            *(self._place.id, task.name, batch.from_pos + 1, batch.upto, len(batch.sources), _words(failure)),
        )
        if pace.failed(len(batch.sources)):
            return None
        if not pace.proven and not await self._neighbours_pass(task, batch.upto):
            logger.warning("会话 %s 的 %s 出错", self._place.id, task.name, exc_info=failure)
            return await self._fail(task, _words(failure))
        await self._leave_out(task, batch, failure)
        pace.proven = False
        pace.stored()
        return "moved"

    async def _neighbours_pass(self, task: Task, beyond: int) -> bool:
        """Ask about a few of the messages that follow, one by one; what is found is not kept."""
        for _ in range(NEIGHBOURS):
            batch = await read_batch(self._ground.database, self._place, task, Reach(1, bare=True, beyond=beyond))
            if batch is None or not batch.sources:
                return False
            try:
                await self._rehearse(await task.infer(batch, CallContext(task.name, self._place.id)))
            except DatabaseUnavailable:
                raise
            except Exception as failure:  # noqa: BLE001 - the tasks' boundary
                logger.info("会话 %s 的 %s 在 #%d 上也没学成：%s", self._place.id, task.name, batch.upto, _words(failure))
                beyond = batch.upto
            else:
                return True
        return False

    async def _rehearse(self, findings: Findings) -> None:
        """Write findings and take them back."""
        async with self._ground.database.connection() as conn, conn.transaction(force_rollback=True):
            await learned_lock.hold(conn, self._place.id)
            await findings.store(conn)

    async def _leave_out(self, task: Task, batch: Batch, failure: Exception) -> None:
        [label] = batch.sources
        async with self._ground.database.transaction() as conn:
            if await learner.advance(conn, _move(batch)):
                await learner.skip(conn, batch.rows[label], task.name, _words(failure))
        self.tally.skipped += 1
        logger.warning("会话 %s 的 %s 跳过消息 #%d，以后不再学它：%s", self._place.id, task.name, label, _words(failure))

    async def _store(self, batch: Batch, findings: Findings) -> None:
        """Write the findings and move the cursor, both or neither. Raises CursorMoved, StaleFindings."""
        async with self._ground.database.transaction() as conn:
            await learned_lock.hold(conn, self._place.id)
            if not await learner.advance(conn, _move(batch)):
                raise CursorMoved
            counts = await findings.store(conn)
        self.tally.batches += 1
        self.tally.counts.update(counts)
        self._ground.committed()

    def _stop(self, task: Task | Mender, reason: str) -> Outcome:
        self.tally.stopped[task.name] = reason
        return "stopped"

    async def _fail(self, task: Task | Mender, reason: str) -> Outcome:
        """Leave everything as it was, and wait longer each time."""
        async with self._ground.database.connection() as conn:
            until = await learner.fail(conn, self._place.id, task.name, reason, self._ground.clock())
        logger.warning(
            "会话 %s 的 %s 没学成，%s 以后再试：%s", self._place.id, task.name, until.isoformat(timespec="minutes"), reason
        )
        return self._stop(task, reason)


def _move(batch: Batch) -> Move:
    return Move(batch.conversation.id, batch.task, batch.from_pos, batch.upto)


def _words(failure: Exception) -> str:
    return str(failure) or type(failure).__name__
