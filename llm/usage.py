"""Usage and budgets: every model call becomes a row, and what a conversation used today is counted."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from itertools import islice
from zoneinfo import ZoneInfo

from db.models import ConversationId, ModelCall
from db.pool import Database, DatabaseUnavailable
from db.stopping import stop
from db.usage import calls_since, learner_tokens_since, record_calls

logger = logging.getLogger(__name__)

MAX_QUEUED = 2000
MAX_COUNTED = 2000
BATCH = 200
FRESH_SECONDS = 5.0
"""For how long a count is trusted before other processes' calls are looked up again."""
RETRY_SECONDS = 2.0


def _utc_now() -> datetime:
    return datetime.now(UTC)


def _calls(call: ModelCall) -> int:
    """What a call counts for in a conversation's daily calls."""
    return int(call.ok and not call.learners)


def _learner_tokens(call: ModelCall) -> int:
    """What a call counts for in the learner's daily tokens."""
    return call.prompt_tokens + call.completion_tokens if call.learners else 0


@dataclass(slots=True)
class _Count:
    day: date
    calls: int
    learner_tokens: int
    read_at: float


class UsageBook:
    """Writes calls in the background and knows today's count of each conversation.

    While the database is away, calls wait in a bounded queue and budgets go by what is known in memory.
    """

    def __init__(self, database: Database, zone: ZoneInfo, *, clock: Callable[[], datetime] = _utc_now) -> None:
        self._database = database
        self._zone = zone
        self._clock = clock
        self._queue: deque[ModelCall] = deque()
        self._waiting = asyncio.Event()
        self._written = asyncio.Event()
        self._written.set()
        self._writer: asyncio.Task[None] | None = None
        self._counts: dict[ConversationId, _Count] = {}
        self._dropped = 0

    def record(self, call: ModelCall) -> None:
        """Queue a call for writing and count it; never waits, never fails for the database."""
        if call.called_at is None:
            call = replace(call, called_at=self._clock())
        self._count(call)
        self._queue.append(call)
        if len(self._queue) > MAX_QUEUED:
            self._queue.popleft()
            self._dropped += 1
            if self._dropped % 100 == 1:
                logger.error("数据库长时间不可用，已丢弃 %d 条模型调用记录", self._dropped)
        self._written.clear()
        self._waiting.set()
        if self._writer is None or self._writer.done():
            self._writer = asyncio.create_task(self._write(), name="usage-writer")

    def _count(self, call: ModelCall) -> None:
        if call.conversation_id is None:
            return
        count = self._counts.get(call.conversation_id)
        if count is not None and count.day == self._today():
            count.calls += _calls(call)
            count.learner_tokens += _learner_tokens(call)

    async def spent_today(self, conversation_id: ConversationId) -> int:
        """Count today's answered calls of a conversation, the learner's aside, the day being that of TIMEZONE.

        Other processes' calls show within a few seconds.
        """
        return (await self._spent(conversation_id)).calls

    async def learner_tokens_today(self, conversation_id: ConversationId) -> int:
        """Add up the tokens, in and out, that the learner used today for a conversation, in all processes."""
        return (await self._spent(conversation_id)).learner_tokens

    async def _spent(self, conversation_id: ConversationId) -> _Count:
        today = self._today()
        known = self._counts.get(conversation_id)
        if known is not None and known.day == today and time.monotonic() - known.read_at < FRESH_SECONDS:
            return known
        midnight = datetime(today.year, today.month, today.day, tzinfo=self._zone)
        calls = tokens = 0
        try:
            async with self._database.connection() as conn:
                calls = await calls_since(conn, conversation_id, midnight)
                tokens = await learner_tokens_since(conn, conversation_id, midnight)
        except DatabaseUnavailable as error:
            logger.warning("查不到今天的模型调用数，先按内存里的算：%s", error)
            if known is not None and known.day == today:
                known.read_at = time.monotonic()
                return known
        pending = [call for call in self._queue if call.conversation_id == conversation_id and self._is_today(call)]
        calls += sum(map(_calls, pending))
        tokens += sum(map(_learner_tokens, pending))
        self._counts[conversation_id] = count = _Count(today, calls, tokens, time.monotonic())
        if len(self._counts) > MAX_COUNTED:
            self._counts.pop(next(iter(self._counts)))
        return count

    def _today(self) -> date:
        return self._clock().astimezone(self._zone).date()

    def _is_today(self, call: ModelCall) -> bool:
        return call.called_at is not None and call.called_at.astimezone(self._zone).date() == self._today()

    async def _write(self) -> None:
        """Write the queue in batches; what the database refuses is logged and dropped."""
        while True:
            await self._waiting.wait()
            batch = list(islice(self._queue, BATCH))
            if not batch:
                self._waiting.clear()
                self._written.set()
                continue
            try:
                async with self._database.connection() as conn:
                    await record_calls(conn, batch)
            except DatabaseUnavailable as error:
                logger.warning("写不进模型调用记录（%d 条在等）：%s", len(self._queue), error)
                await asyncio.sleep(RETRY_SECONDS)
                continue
            except Exception:
                logger.exception("写模型调用记录时出错，丢弃 %d 条", len(batch))
            # The queue may have lost its oldest while the batch was written.
            for call in batch:
                if self._queue and self._queue[0] is call:
                    self._queue.popleft()

    async def flush(self, seconds: float = 3.0) -> bool:
        """Wait until everything queued is written; False when ``seconds`` were not enough."""
        try:
            async with asyncio.timeout(seconds):
                await self._written.wait()
        except TimeoutError:
            return False
        return True

    async def aclose(self) -> None:
        """Write what is queued, for a few seconds at most, and stop."""
        if not await self.flush():
            logger.error("关闭时还有 %d 条模型调用记录没有写进数据库", len(self._queue))
        if self._writer is not None:
            await stop([self._writer])
            self._writer = None
