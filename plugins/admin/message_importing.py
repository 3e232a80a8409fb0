"""Bringing in a group's past line by line: bad lines are told, known ones stay as they are, a batch a transaction."""

from __future__ import annotations

import logging
import time
from collections import OrderedDict
from collections.abc import AsyncIterable, Sequence
from dataclasses import dataclass, replace

from db import accounts, conversations, ingest, members, message_import
from db.conversations import KnownConversation
from db.members import SeenMember
from db.message_import import Quote
from db.models import Conversation, ConversationKey, MessageRow
from db.pool import Connection, Database
from db.sightings import NewMessage, Stored
from plugins.admin.jsonl import Line, split_lines
from plugins.admin.memory_lines import LinesReport
from plugins.admin.message_lines import IMPORTED, MessageLine, imported_key, new_message, read_message

logger = logging.getLogger(__name__)

LINE_BYTES = 256 * 1024
BATCH_LINES = 500
LOG_SECONDS = 10.0
REMEMBERED = 20_000
"""Lines that later ones may quote."""
NEAR = 2000
"""Lines among which equal ones are told apart."""


@dataclass(frozen=True, slots=True)
class _Read:
    line: MessageLine
    number: int
    """Of its line in the file."""
    key: ConversationKey
    account_id: int
    message_id: int


class MessageImport:
    """One import. ``key``: where lines belong that do not say it themselves."""

    def __init__(self, database: Database, key: ConversationKey | None) -> None:
        self._database = database
        self._key = key
        self._own: frozenset[int] = frozenset()
        self._batch: list[_Read] = []
        self._equal: OrderedDict[int, list[int | None]] = OrderedDict()
        self._rows: OrderedDict[tuple[ConversationKey, int], MessageRow] = OrderedDict()
        self._inhabited: dict[ConversationKey, bool] = {}
        self._told_at = time.monotonic()
        self.report = LinesReport()

    async def read(self, pieces: AsyncIterable[bytes]) -> None:
        """Read all lines and store what is new. Raises DatabaseUnavailable; what was stored by then stays."""
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
            message = read_message(line.raw)
            key = self._where(message)
        except ValueError as error:
            self.report.note(line.number, str(error))
            return
        if message.account_id is not None and message.message_id is not None:
            self._batch.append(_Read(message, line.number, key, message.account_id, message.message_id))
        else:
            self._batch.append(_Read(message, line.number, key, IMPORTED, self._known_as(message, key)))

    def _where(self, message: MessageLine) -> ConversationKey:
        key = message.key or self._key
        if key is None:
            raise ValueError("不知道是哪个会话：请在地址里或这一行写上 group_id 或 user_id")
        return key

    def _known_as(self, message: MessageLine, key: ConversationKey) -> int:
        """Number equal messages of one moment; the same line again, as its id tells, is the same message."""
        first = imported_key(message, key, 0)
        ids = self._equal.setdefault(first, [])
        self._equal.move_to_end(first)
        if len(self._equal) > NEAR:
            self._equal.popitem(last=False)
        if message.id is None or message.id not in ids:
            ids.append(message.id)
            nth = len(ids) - 1
        else:
            nth = ids.index(message.id)
        return imported_key(message, key, nth)

    async def _write(self) -> None:
        batch, self._batch = self._batch, []
        if not batch:
            return
        async with self._database.transaction() as conn:
            rows = await conversations.ensure(conn, [KnownConversation(key) for key in {item.key for item in batch}])
            places = {row.key: row for row in rows}
            for key, row in places.items():
                self._inhabited.setdefault(key, row.last_pos > 0)
            welcome = await self._without_forgotten(conn, batch, places)
            stored = await self._store(conn, welcome, places)
        self.report.new += sum(item.fresh for item in stored)
        self.report.known += sum(not item.fresh for item in stored)
        if time.monotonic() - self._told_at >= LOG_SECONDS:
            self._told_at = time.monotonic()
            logger.info("导入消息：读了 %d 行，新存下 %d 条", self.report.lines, self.report.new)

    async def _without_forgotten(
        self, conn: Connection, batch: Sequence[_Read], places: dict[ConversationKey, Conversation]
    ) -> list[_Read]:
        """Leave out what members said before they asked to be forgotten."""
        forgotten = await message_import.forgotten(conn, {(places[item.key].id, item.line.sender_id) for item in batch})
        welcome: list[_Read] = []
        for item in batch:
            upto = forgotten.get((places[item.key].id, item.line.sender_id))
            if upto is None or item.line.sent_at > upto:
                welcome.append(item)
            else:
                self.report.note(item.number, "这位成员要求过忘记，那之前说的不再存下")
        return welcome

    async def _store(self, conn: Connection, batch: Sequence[_Read], places: dict[ConversationKey, Conversation]) -> list[Stored]:
        messages = [self._message(item, places[item.key]) for item in batch]
        await _know_senders(conn, messages)
        last = {row.id: row.last_pos for row in places.values()}
        stored = await ingest.store(conn, messages, last)
        await conversations.take_positions(conn, list(last), list(last.values()))
        for row in places.values():
            if last[row.id] > row.last_pos:
                await message_import.mark_read(conn, row.id, before=row.last_pos, upto=last[row.id])
        self._remember(batch, stored)
        await message_import.link_quotes(conn, self._quotes(batch, stored))
        return stored

    def _quotes(self, batch: Sequence[_Read], stored: Sequence[Stored]) -> list[Quote]:
        """Find the rows that replies quote. What was known before keeps its own words of it."""
        found: list[Quote] = []
        for item, place in zip(batch, stored, strict=True):
            line = item.line
            quoted = None if line.quoted_id is None else self._rows.get((item.key, line.quoted_id))
            if quoted is not None:
                words = (line.quote_name, line.quote_text) if place.fresh and line.quote_name is not None else (None, None)
                found.append(Quote(place.id, quoted, *words))
        return found

    def _message(self, item: _Read, place: Conversation) -> NewMessage:
        message = new_message(item.line, place.id, (item.account_id, item.message_id))
        # It may be there already under a real message's id.
        return replace(
            message, second_sight=self._inhabited[item.key], is_self=message.is_self or item.line.sender_id in self._own
        )

    def _remember(self, batch: Sequence[_Read], stored: Sequence[Stored]) -> None:
        for item, place in zip(batch, stored, strict=True):
            if item.line.id is not None:
                self._rows[item.key, item.line.id] = place.id
        while len(self._rows) > REMEMBERED:
            self._rows.popitem(last=False)


async def _know_senders(conn: Connection, messages: Sequence[NewMessage]) -> None:
    """Make members of the senders that are not known: those that are, are known better than an old file tells."""
    said = [item for item in messages if not item.is_self and item.kind == "message"]
    there = await members.some(conn, list({(item.conversation_id, item.sender_id) for item in said}))
    known = {(member.conversation_id, member.user_id) for member in there}
    await members.save(
        conn,
        [
            SeenMember(
                conversation_id=item.conversation_id,
                user_id=item.sender_id,
                name=item.sender_name,
                nickname=item.sender_name,
                card="",
                role="unknown",
                title="",
                is_robot=item.is_robot,
                seen_at=item.sent_at,
            )
            for item in said
            if (item.conversation_id, item.sender_id) not in known
        ],
    )
