"""Bringing in a group's past line by line: what is known stays as it is."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from db import conversations, ingest, members, message_import
from db.conversations import KnownConversation
from db.members import SeenMember
from db.message_import import Quote
from db.models import Conversation, ConversationId, ConversationKey, MessageRow
from db.pool import Connection, Database
from db.sightings import NewMessage, Stored
from plugins.admin.line_import import LineImport
from plugins.admin.memory_lines import LinesReport
from plugins.admin.message_lines import IMPORTED, MessageLine, imported_key, new_message, read_message

LINE_BYTES = 256 * 1024
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
    derived: int
    """What it is known by where no account of ours knows it."""


class MessageImport(LineImport[_Read, LinesReport]):
    """One import. ``key``: where lines belong that do not say it themselves."""

    what = "消息"
    longest = LINE_BYTES

    def __init__(self, database: Database, key: ConversationKey | None) -> None:
        super().__init__(database, LinesReport())
        self._key = key
        self._equal: OrderedDict[int, list[int | None]] = OrderedDict()
        self._rows: OrderedDict[tuple[ConversationKey, int], MessageRow] = OrderedDict()
        self._inhabited: dict[ConversationKey, bool] = {}

    def understand(self, raw: bytes, number: int) -> _Read:
        """Read one line. Raises ValueError with a Chinese reason."""
        message = read_message(raw)
        key = self._where(message)
        return _Read(message, number, key, self._derived(message, key))

    def _where(self, message: MessageLine) -> ConversationKey:
        key = message.key or self._key
        if key is None:
            raise ValueError("不知道是哪个会话：请在地址里或这一行写上 group_id 或 user_id")
        return key

    def _derived(self, message: MessageLine, key: ConversationKey) -> int:
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

    async def store(self, batch: Sequence[_Read]) -> None:
        """Store a batch, and count what is new."""
        async with self.database.transaction() as conn:
            rows = await conversations.ensure(conn, [KnownConversation(key) for key in {item.key for item in batch}])
            places = {row.key: row for row in rows}
            for key, row in places.items():
                self._inhabited.setdefault(key, row.last_pos > 0)
            welcome = await self._without_forgotten(conn, batch, places)
            stored = await self._store(conn, welcome, places)
        self.report.new += sum(item.fresh for item in stored)
        self.report.known += sum(not item.fresh for item in stored)

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
        ours = [known for item in batch if (known := _told(item.line)) is not None]
        homes = await message_import.homes(conn, ours)
        messages = [self._message(item, places[item.key], homes) for item in batch]
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

    def _message(self, item: _Read, place: Conversation, homes: Mapping[tuple[int, int], ConversationId]) -> NewMessage:
        """Make the row. An id counts where a message of this conversation has it, or an account of ours and no message."""
        told = _told(item.line)
        home = None if told is None else homes.get(told)
        ours = told is not None and (home == place.id or (home is None and told[0] in self.own))
        known = told if told is not None and ours else (IMPORTED, item.derived)
        message = new_message(item.line, place.id, known)
        # It may be there already under a real message's id.
        return replace(
            message, second_sight=self._inhabited[item.key], is_self=message.is_self or item.line.sender_id in self.own
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


def _told(line: MessageLine) -> tuple[int, int] | None:
    """Under which account and which id a line says that it is known."""
    return None if line.account_id is None or line.message_id is None else (line.account_id, line.message_id)
