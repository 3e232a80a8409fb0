"""Keeps the record of a turn: blocks and steps are written behind the turn's back, in order."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import Literal

from db.memories import used
from db.memory_models import MemoryId
from db.models import Json, JsonObject, TurnBlock, TurnId, TurnStep
from db.pool import Connection, Database
from db.turn_log import save_blocks, save_step

logger = logging.getLogger(__name__)

RESULT_CHARS = 2000
ARGUMENT_CHARS = 4000
_CLOSE_SECONDS = 5.0
_DEPTH = 4
_WIDTH = 30
_Write = Callable[[Connection], Awaitable[None]]


class TurnRecorder:
    """Writes the record of one turn while it runs; a database that is away costs the record, not the turn."""

    def __init__(self, database: Database, turn_id: TurnId, clock: Callable[[], datetime]) -> None:
        self._database = database
        self._turn_id = turn_id
        self._clock = clock
        self._steps = 0
        self._writes: asyncio.Queue[_Write | None] = asyncio.Queue()
        self._writer: asyncio.Task[None] | None = None

    async def __aenter__(self) -> TurnRecorder:
        self._writer = asyncio.create_task(self._write_all(), name=f"turn-record-{self._turn_id}")
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Wait, but not for ever, until all is written: the lane may show the turn as ended after this."""
        if self._writer is None:
            return
        self._writes.put_nowait(None)
        _, pending = await asyncio.wait({self._writer}, timeout=_CLOSE_SECONDS)
        if pending:
            self._writer.cancel()
            logger.warning("第 %s 轮的记录没有写完，放弃剩下的 %d 项", self._turn_id, self._writes.qsize())

    def blocks(self, rows: Sequence[TurnBlock]) -> None:
        """Note how one model call was made up."""
        turn_id = self._turn_id
        self._writes.put_nowait(lambda conn: save_blocks(conn, turn_id, rows))

    def memories(self, ids: Sequence[MemoryId]) -> None:
        """Note which memories the model was shown."""
        turn_id = self._turn_id
        self._writes.put_nowait(lambda conn: used(conn, turn_id, ids))

    def step(self, kind: Literal["model", "tool"], name: str) -> Step:
        """Begin a step; it is noted when its ``with`` block ends, however it ends."""
        return Step(self, kind, name, self._clock())

    def note(self, step: Step, ms: int) -> None:
        """Note a finished step."""
        self._steps += 1
        row = TurnStep(
            no=self._steps,
            kind=step.kind,
            name=_storable(step.name)[:100],
            arguments=_bounded(step.arguments),
            result=None if step.result is None else _storable(step.result)[:RESULT_CHARS],
            ok=step.ok,
            started_at=step.started_at,
            ms=ms,
        )
        turn_id = self._turn_id
        self._writes.put_nowait(lambda conn: save_step(conn, turn_id, row))

    async def _write_all(self) -> None:
        while (write := await self._writes.get()) is not None:
            try:
                await self._database.run(write, attempts=2)
            except Exception:
                logger.exception("写第 %s 轮的记录时出错", self._turn_id)


class Step:
    """One model or tool call while it runs; fill in what came of it."""

    def __init__(self, recorder: TurnRecorder, kind: Literal["model", "tool"], name: str, started_at: datetime) -> None:
        self._recorder = recorder
        self.kind: Literal["model", "tool"] = kind
        self.name = name
        self.started_at = started_at
        self.arguments: JsonObject | None = None
        self.result: str | None = None
        self.ok = False

    def __enter__(self) -> Step:
        self._began = asyncio.get_running_loop().time()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if error is not None:
            self.ok = False
            self.result = "被中断" if isinstance(error, asyncio.CancelledError) else (str(error) or type(error).__name__)
        self._recorder.note(self, round((asyncio.get_running_loop().time() - self._began) * 1000))


def _storable(text: str) -> str:
    """Replace what PostgreSQL texts cannot hold."""
    return text.replace("\x00", "\ufffd").encode("utf-8", "replace").decode("utf-8")


def _bounded(arguments: JsonObject | None) -> JsonObject | None:
    return None if arguments is None else {_storable(key)[:100]: _shorter(value, _DEPTH) for key, value in arguments.items()}


def _shorter(value: Json, depth: int) -> Json:
    """Bound a value in length, width and depth, and replace what jsonb cannot hold."""
    if isinstance(value, str):
        return _storable(value)[:ARGUMENT_CHARS]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if value is None or isinstance(value, bool | int | float):
        return value
    if depth == 0:
        return "…"
    if isinstance(value, Mapping):
        kept = list(value.items())[:_WIDTH]
        return {_storable(key)[:100]: _shorter(item, depth - 1) for key, item in kept}
    return [_shorter(item, depth - 1) for item in value[:_WIDTH]]
