"""Bringing in memories line by line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from db import conversations
from db.conversations import KnownConversation
from db.memory_import import ImportRow, import_many
from db.memory_models import MemoryId, Subject
from db.models import Conversation, ConversationKey
from db.pool import Database
from plugins.admin.line_import import LineImport
from plugins.admin.memory_lines import ImportReport, MemoryLine, read_line
from plugins.admin.subjects import read_subject

LINE_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class _Read:
    memory: MemoryLine
    subject: Subject


class Import(LineImport[_Read, ImportReport]):
    """One import: what it read so far, and the rows that it wrote or found."""

    what = "记忆"
    longest = LINE_BYTES

    def __init__(self, database: Database) -> None:
        super().__init__(database, ImportReport())
        self._places: dict[ConversationKey, Conversation] = {}
        self.ids: dict[MemoryId, None] = {}

    def understand(self, raw: bytes, number: int) -> _Read:
        """Read one line. Raises ValueError with a Chinese reason."""
        memory = read_line(raw)
        return _Read(memory, read_subject(memory.named, memory.key, self.own))

    async def store(self, batch: Sequence[_Read]) -> None:
        """Write a batch, and remember its rows."""
        await self._know({item.memory.key for item in batch})
        rows = [self._row(item) for item in batch]
        async with self.database.transaction() as conn:
            done = await import_many(conn, rows)
        self.report.new += done.new
        self.report.known += len(rows) - done.new
        self.ids.update(dict.fromkeys(done.ids))

    async def _know(self, keys: set[ConversationKey]) -> None:
        """Give every conversation a row, in a transaction of its own: its lock must not be held while memories are written."""
        unknown = [KnownConversation(key) for key in keys - self._places.keys()]
        if unknown:
            async with self.database.transaction() as conn:
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
