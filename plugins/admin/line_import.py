"""Bringing in lines of JSON: bad ones are told, good ones go in, a batch a transaction."""

from __future__ import annotations

import logging
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterable, Sequence
from typing import Generic, TypeVar

from db import accounts
from db.pool import Database
from plugins.admin.jsonl import Line, split_lines
from plugins.admin.memory_lines import LinesReport

logger = logging.getLogger(__name__)

BATCH_LINES = 500
LOG_SECONDS = 10.0

Item = TypeVar("Item")
Report = TypeVar("Report", bound=LinesReport)


class LineImport(ABC, Generic[Item, Report]):
    """One import and its report. ``what`` names it in the log; ``longest``: bytes of a line."""

    what: str
    longest: int

    def __init__(self, database: Database, report: Report) -> None:
        self.database = database
        self.report = report
        self.own: frozenset[int] = frozenset()
        self._batch: list[Item] = []
        self._told_at = time.monotonic()

    async def read(self, pieces: AsyncIterable[bytes]) -> None:
        """Read all lines and write what is good. Raises DatabaseUnavailable; what was written by then stays."""
        async with self.database.connection() as conn:
            self.own = frozenset(await accounts.ids(conn))
        async for line in split_lines(pieces, longest=self.longest):
            self._take(line)
            if len(self._batch) >= BATCH_LINES:
                await self._write()
        await self._write()

    @abstractmethod
    def understand(self, raw: bytes, number: int) -> Item:
        """Read one line; ``number`` is its place in the file. Raises ValueError with a Chinese reason."""

    @abstractmethod
    async def store(self, batch: Sequence[Item]) -> None:
        """Write a batch, and count it in the report."""

    def _take(self, line: Line) -> None:
        self.report.lines += 1
        if line.raw is None:
            self.report.note(line.number, f"这一行超过 {self.longest // 1024} KiB")
            return
        try:
            self._batch.append(self.understand(line.raw, line.number))
        except ValueError as error:
            self.report.note(line.number, str(error))

    async def _write(self) -> None:
        batch, self._batch = self._batch, []
        if not batch:
            return
        await self.store(batch)
        if time.monotonic() - self._told_at >= LOG_SECONDS:
            self._told_at = time.monotonic()
            logger.info("导入%s：读了 %d 行，新存下 %d 条", self.what, self.report.lines, self.report.new)
