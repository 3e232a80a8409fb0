"""Bringing in memories line by line: bad lines are told, good ones go in, a batch a transaction."""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncIterable
from dataclasses import dataclass

from db import accounts, conversations
from db.conversations import KnownConversation
from db.memory_import import ImportRow, import_many
from db.memory_models import MemoryId, Subject
from db.models import Conversation, ConversationKey
from db.pool import Database
from plugins.admin.jsonl import Line, split_lines
from plugins.admin.memory_lines import ImportReport, MemoryLine, read_line
from plugins.admin.subjects import read_subject

logger = logging.getLogger(__name__)

LINE_BYTES = 64 * 1024
BATCH_LINES = 500
LOG_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class _Read:
    memory: MemoryLine
    subject: Subject


class Import:
    """One import: what it read so far, and the rows that it wrote or found."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._places: dict[ConversationKey, Conversation] = {}
        self._own: frozenset[int] = frozenset()
        self._batch: list[_Read] = []
        self._told_at = time.monotonic()
        self.report = ImportReport()
        self.ids: dict[MemoryId, None] = {}

    async def read(self, pieces: AsyncIterable[bytes]) -> None:
        """Read all lines and write what is good. Raises DatabaseUnavailable; what was written by then stays."""
        async with self._database.connection() as conn:
            self._own = frozenset(await accounts.ids(conn))
        async for line in split_lines(pieces, longest=LINE_BYTES):
            self._take(line)
            if len(self._batch) >= BATCH_LINES:
                await self._write()
        await self._write()

    def _take(self, line: Line) -> None:
        self.report.lines += 1
        if line.raw is None:
            self.report.note(line.number, f"这一行超过 {LINE_BYTES // 1024} KiB")
            return
        try:
            memory = read_line(line.raw)
            self._batch.append(_Read(memory, read_subject(memory.named, memory.key, self._own)))
        except ValueError as error:
            self.report.note(line.number, str(error))

    async def _write(self) -> None:
        batch, self._batch = self._batch, []
        if not batch:
            return
        await self._know({item.memory.key for item in batch})
        rows = [self._row(item) for item in batch]
        async with self._database.transaction() as conn:
            done = await import_many(conn, rows)
        self.report.new += done.new
        self.report.known += len(rows) - done.new
        self.ids.update(dict.fromkeys(done.ids))
        if time.monotonic() - self._told_at >= LOG_SECONDS:
            self._told_at = time.monotonic()
            logger.info("导入记忆：读了 %d 行，新存下 %d 条", self.report.lines, self.report.new)

    async def _know(self, keys: set[ConversationKey]) -> None:
        """Give every conversation a row, in a transaction of its own: its lock must not be held while memories are written."""
        unknown = [KnownConversation(key) for key in keys - self._places.keys()]
        if unknown:
            async with self._database.transaction() as conn:
                self._places |= {place.key: place for place in await conversations.ensure(conn, unknown)}

    def _row(self, item: _Read) -> ImportRow:
        memory = item.memory
        return ImportRow(
            conversation_id=self._places[memory.key].id,
            subject=item.subject,
            kind=memory.kind,
            content=memory.content,
            status=memory.status,
            locked=memory.locked,
            uses=memory.uses,
            used_at=memory.used_at,
            created_at=memory.created_at,
            updated_at=memory.updated_at,
        )
