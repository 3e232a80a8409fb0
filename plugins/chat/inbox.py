"""From the socket to the table: frames wait in order, are stored in batches, and go to disk while the database is away."""

from __future__ import annotations

import asyncio
import json
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, cast

from nonebot.log import logger

from db.models import JsonObject
from db.pool import DatabaseUnavailable
from db.spool import Spool, SpoolRecord
from plugins.chat.effects import Effect

BATCH = 500
QUEUE = 2000
RETRY_SECONDS = 1.0
RETRY_MAX_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Frame:
    """One event as it came. ``late``: it waited on disk, or was fetched from history."""

    account_id: int
    received_at: float
    payload: JsonObject
    raw: str
    late: bool = False


class FrameWriter(Protocol):
    """Stores frames in one transaction."""

    async def write(self, frames: Sequence[Frame]) -> list[Effect]:
        """Store them all or none. Raises DatabaseUnavailable, or what the statements raise."""
        ...


class Inbox:
    """A bounded queue in front of the database. Order is kept; nothing is dropped."""

    def __init__(self, writer: FrameWriter, spool: Spool, deliver: Callable[[Sequence[Effect]], None], rejects: Path) -> None:
        self._writer = writer
        self._spool = spool
        self._deliver = deliver
        self._rejects = rejects
        self._frames: deque[Frame] = deque()
        self._blocked = False
        self._arrived = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def blocked(self) -> bool:
        """True while the database is away and the disk spool is full, so that nothing is read from the socket."""
        return self._blocked

    @property
    def waiting(self) -> int:
        """How many frames wait in memory."""
        return len(self._frames)

    def put(self, frame: Frame) -> None:
        """Take one frame; order of calls is order of storing."""
        self._frames.append(frame)
        self._arrived.set()
        self._idle.clear()
        if len(self._frames) >= QUEUE:
            self._room.clear()

    @property
    def full(self) -> bool:
        """True while the queue has no room."""
        return not self._room.is_set()

    async def room(self) -> None:
        """Wait until the queue has room."""
        await self._room.wait()

    async def settled(self) -> None:
        """Wait until everything that came so far is stored or on disk."""
        await self._idle.wait()

    async def run(self) -> None:
        """Store what arrives, until cancelled. What is in memory then goes to disk."""
        try:
            while True:
                if not self._spool.pending:
                    await self._arrived.wait()
                await self._step()
        finally:
            left = len(self._frames) - self._to_disk(list(self._frames))
            if left:
                logger.error(f"退出时磁盘缓冲已满，有 {left} 条收到的消息没能留下")

    async def _step(self) -> None:
        if self._spool.pending:
            await self._drain()
            return
        batch = self._take()
        if batch:
            try:
                await self._write(batch)
                self._blocked = False
            except DatabaseUnavailable as error:
                logger.error(f"数据库连不上，收到的消息先存到磁盘，恢复后会按顺序补存：{error}")
                self._frames.extendleft(reversed(batch))
                await self._spill()
            except asyncio.CancelledError:
                self._frames.extendleft(reversed(batch))
                raise
        self._mark()

    def _take(self) -> list[Frame]:
        return [self._frames.popleft() for _ in range(min(BATCH, len(self._frames)))]

    def _mark(self) -> None:
        if len(self._frames) < QUEUE // 2:
            self._room.set()
        if not self._frames:
            self._arrived.clear()
            self._idle.set()

    async def _drain(self) -> None:
        """Store what waits on disk, oldest first; new frames queue up behind it."""
        wait = RETRY_SECONDS
        before = self._spool.pending
        while self._spool.pending:
            await self._spill()
            records = self._spool.peek(BATCH)
            try:
                await self._write([_from_spool(record) for record in records])
            except DatabaseUnavailable:
                await self._nap(wait)
                wait = min(wait * 2, RETRY_MAX_SECONDS)
                continue
            self._spool.ack(len(records))
            wait = RETRY_SECONDS
        self._blocked = False
        logger.success(f"数据库恢复了，磁盘上的 {before} 条已补存")
        self._mark()

    async def _nap(self, seconds: float) -> None:
        """Wait, but keep moving what arrives to disk."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            await self._spill()
            try:
                await asyncio.wait_for(self._arrived.wait(), left)
            except TimeoutError:
                return

    async def _spill(self) -> None:
        """Move everything in memory behind what is on disk. A full disk spool stops reading from the socket instead."""
        frames = list(self._frames)
        kept = self._to_disk(frames)
        for _ in range(kept):
            self._frames.popleft()
        self._blocked = kept < len(frames)
        if self._blocked:
            logger.error("磁盘缓冲已满：暂停接收，等数据库恢复")
            await asyncio.sleep(RETRY_SECONDS)
        self._mark()

    def _to_disk(self, frames: Sequence[Frame]) -> int:
        for count, frame in enumerate(frames):
            if not self._spool.append(SpoolRecord(frame.account_id, frame.received_at, frame.raw)):
                return count
        return len(frames)

    async def _write(self, batch: Sequence[Frame]) -> None:
        """Store a batch; one that cannot be stored is halved until the frame at fault is alone, and set aside."""
        try:
            effects = await self._writer.write(batch)
        except DatabaseUnavailable:
            raise
        except Exception as error:  # noqa: BLE001 - a background job: whatever one frame brings, the next are stored
            if len(batch) == 1:
                self._set_aside(batch[0], error)
                return
            middle = len(batch) // 2
            await self._write(batch[:middle])
            await self._write(batch[middle:])
            return
        self._deliver(effects)

    def _set_aside(self, frame: Frame, error: Exception) -> None:
        logger.error(f"有一条事件存不进数据库，已放到 {self._rejects}：{type(error).__name__}: {error}")
        with self._rejects.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"account": frame.account_id, "raw": frame.raw, "error": str(error)}) + "\n")


def _from_spool(record: SpoolRecord) -> Frame:
    payload = cast("JsonObject", json.loads(record.raw))
    return Frame(record.account_id, record.received_at, payload, record.raw, late=True)
