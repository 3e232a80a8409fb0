"""Frames → rows, in one transaction and in order; what that brings about is told after the commit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from nonebot.log import logger

from db import accounts, conversations, ingest, members, memberships, outbox, sightings
from db.conversations import KnownConversation
from db.members import SeenMember
from db.models import Conversation, ConversationId, ConversationKey
from db.pool import Connection, Database
from db.sightings import NewMessage, Quoted, Stored
from plugins.chat.apply import Hearing, NoticeBook
from plugins.chat.called import CallNames
from plugins.chat.compose import Composed, Surroundings, compose, sender_name
from plugins.chat.effects import AccountSeen, Effect, ForwardMissing, Heard, Ordered, QuoteMissing
from plugins.chat.events import read_event
from plugins.chat.inbox import Frame
from plugins.chat.member_names import MemberNames
from plugins.chat.own import FirstHeard, OwnAccounts
from plugins.chat.records import AccountState, Incoming, Record, Skipped
from plugins.chat.rules import is_enabled
from settings import Settings


@dataclass(frozen=True, slots=True)
class Arrival:
    """A frame and what it means."""

    frame: Frame
    record: Record


@dataclass(frozen=True, slots=True)
class Spoken:
    """A message on its way into the table."""

    arrival: Arrival
    record: Incoming
    conversation: Conversation


class Writer:
    """Stores frames. One instance per process; ``write`` is called by one task at a time."""

    def __init__(
        self, database: Database, settings: Settings, own: OwnAccounts, called: CallNames, clock: Callable[[], datetime]
    ) -> None:
        self._database = database
        self._settings = settings
        self._own = own
        self._called = called
        self._clock = clock
        self._names = MemberNames()

    async def write(self, frames: Sequence[Frame]) -> list[Effect]:
        """Store frames, all or none, and tell what that brings about."""
        now = self._clock()
        arrivals = [Arrival(frame, read_event(frame.payload, now=now)) for frame in frames]
        for arrival in arrivals:
            if isinstance(arrival.record, Skipped):
                logger.debug(f"跳过事件：{arrival.record.reason}")
        known = _named(arrivals)
        if not known:
            return [_account_seen(item.record) for item in arrivals if isinstance(item.record, AccountState)]
        self._names.forget()  # what a failed batch handed out was not stored
        self._own.forget()
        async with self._database.transaction() as conn:
            rows = await conversations.ensure(conn, known)
            ids = [row.id for row in rows]
            self._own.know(await accounts.ids(conn))  # one that joined another process is no member here
            book = _Book(conn, rows, await members.ignored(conn, ids), await members.robots(conn, ids))
            effects: list[Effect] = []
            for run in _runs(arrivals):
                effects += await self._run(book, run, now)
            if book.moved:
                await conversations.take_positions(conn, list(book.moved), [book.last[row] for row in book.moved])
        self._names.keep()
        self._own.keep()
        return effects

    async def _run(self, book: _Book, run: Sequence[Arrival], now: datetime) -> list[Effect]:
        first = run[0].record
        if isinstance(first, Incoming):
            return await self._messages(book, run, now)
        if isinstance(first, AccountState):
            return [_account_seen(first)]
        if isinstance(first, Skipped):
            return []
        notices = NoticeBook(book.conn, self._settings, self._names, self._own, self._called.own_name)
        where = book.conversation(first.conversation)
        deaf_to = book.ignored_in(where.id) | book.robots_in(where.id)
        done = await notices.apply(first, where, book.last, Hearing(run[0].frame.late, deaf_to))
        book.moved.update(done.moved)
        return done.effects

    async def _messages(self, book: _Book, run: Sequence[Arrival], now: datetime) -> list[Effect]:
        spoken = [
            Spoken(arrival, arrival.record, book.conversation(arrival.record.conversation))
            for arrival in run
            if isinstance(arrival.record, Incoming)
        ]
        await self._arrived(book, spoken)
        for item in spoken:
            self._heard_in(item)
            self._names.learn(item.conversation.id, item.record.sender.user_id, sender_name(item.record))
            if item.record.string_format:
                self._wrong_format(item.record.account_id)
        quotes = await sightings.quoted(book.conn, _quote_keys(spoken))
        await self._names.fetch(book.conn, _mentioned(spoken), self._own.names(self._called.own_name))
        composed = [compose(item.record, self._around(book, item, quotes, now)) for item in spoken]
        effects: list[Effect] = [
            Ordered(item.conversation, item.record.account_id, item.record.sender, made.command, None)
            for item, made in zip(spoken, composed, strict=True)
            if made.command is not None and not item.arrival.frame.late
        ]
        kept = [
            (item, made) for item, made in zip(spoken, composed, strict=True) if is_enabled(item.conversation, self._settings)
        ]
        if not kept:
            return effects
        return effects + await self._store(book, kept)

    def _heard_in(self, item: Spoken) -> None:
        record, frame = item.record, item.arrival.frame
        live = None if frame.late else FirstHeard(record.real_seq, record.at)
        self._own.saw(item.conversation.id, record.account_id, live)
        if live is not None:
            self._own.told_time(record.account_id, frame.received_at - record.at.timestamp())

    def _wrong_format(self, account_id: int) -> None:
        state = self._own.get(account_id)
        if not state.warned:
            state.warned = True
            logger.warning(
                f"账号 {account_id} 发来的消息是 CQ 码字符串，有些内容会读不全："
                "请在 NapCat「网络配置」里打开这个连接，消息格式请改成 array"
            )

    async def _arrived(self, book: _Book, spoken: Sequence[Spoken]) -> None:
        """Who hears a group talk is in it, whatever was thought before."""
        live = [item for item in spoken if item.conversation.kind == "group" and not item.arrival.frame.late]
        places = self._own.arrivals((item.conversation.id, item.record.account_id) for item in live)
        places += [(item.conversation.id, item.record.account_id) for item in live if item.conversation.left_at is not None]
        await memberships.arrive(book.conn, list(dict.fromkeys(places)))

    async def _store(self, book: _Book, kept: Sequence[tuple[Spoken, Composed]]) -> list[Effect]:
        fresh_members = self._names.changed(_seen(item, made.message) for item, made in kept)
        await members.save(book.conn, fresh_members)
        stored = await ingest.store(book.conn, [made.message for _, made in kept], book.last)
        effects: list[Effect] = []
        for (item, made), place in zip(kept, stored, strict=True):
            book.moved.add(item.conversation.id)
            if made.message.is_self:
                await outbox.settle_seen(book.conn, place.id)
            elif place.fresh or made.message.call is not None:
                effects += _heard(item, made.message, place)
        return effects

    def _around(self, book: _Book, item: Spoken, quotes: dict[tuple[int, int], Quoted], now: datetime) -> Surroundings:
        record = item.record
        quoted = quotes.get((record.account_id, record.reply_key)) if record.reply_key is not None else None
        return Surroundings(
            conversation_id=item.conversation.id,
            own_ids=self._own.ids,
            connected=self._own.connected,
            ignored=book.ignored_in(item.conversation.id),
            robots=book.robots_in(item.conversation.id),
            names=self._names.of(item.conversation.id),
            matcher=self._called.of(item.conversation.persona),
            quoted=quoted,
            late=item.arrival.frame.late,
            now=now - self._own.ahead(record.account_id),
        )


class _Book:
    """One transaction's view: locked conversations and the positions given out in them."""

    def __init__(
        self,
        conn: Connection,
        rows: Sequence[Conversation],
        ignored: set[tuple[ConversationId, int]],
        robots: set[tuple[ConversationId, int]],
    ) -> None:
        self.conn = conn
        self.last = {row.id: row.last_pos for row in rows}
        self.moved: set[ConversationId] = set()
        self._by_key = {row.key: row for row in rows}
        self._ignored = ignored
        self._robots = robots

    def conversation(self, key: ConversationKey) -> Conversation:
        """The locked row of a conversation that this batch names."""
        return self._by_key[key]

    def ignored_in(self, conversation_id: ConversationId) -> frozenset[int]:
        """Whom the bot ignores there."""
        return frozenset(user for conversation, user in self._ignored if conversation == conversation_id)

    def robots_in(self, conversation_id: ConversationId) -> frozenset[int]:
        """Who is known to be a robot there."""
        return frozenset(user for conversation, user in self._robots if conversation == conversation_id)


def _named(arrivals: Sequence[Arrival]) -> list[KnownConversation]:
    names: dict[ConversationKey, str] = {}
    for arrival in arrivals:
        record = arrival.record
        if isinstance(record, AccountState | Skipped):
            continue
        name = record.conversation_name if isinstance(record, Incoming) else ""
        names[record.conversation] = name or names.get(record.conversation, "")
    return [KnownConversation(key, name) for key, name in names.items()]


def _runs(arrivals: Sequence[Arrival]) -> list[list[Arrival]]:
    """Cut a batch into runs of messages and single notices. A reply never shares a run with what it quotes."""
    runs: list[list[Arrival]] = []
    keys: set[tuple[int, int]] = set()
    for arrival in arrivals:
        record = arrival.record
        if not isinstance(record, Incoming):
            runs.append([arrival])
            keys.clear()
            continue
        quotes_run = record.reply_key is not None and (record.account_id, record.reply_key) in keys
        if runs and keys and not quotes_run:
            runs[-1].append(arrival)
        else:
            runs.append([arrival])
            keys.clear()
        keys.add((record.account_id, record.message_id or 0))
    return runs


def _quote_keys(spoken: Sequence[Spoken]) -> list[tuple[int, int]]:
    return [(item.record.account_id, item.record.reply_key) for item in spoken if item.record.reply_key is not None]


def _mentioned(spoken: Sequence[Spoken]) -> list[tuple[ConversationId, int]]:
    return [
        (item.conversation.id, part.user_id)
        for item in spoken
        for part in item.record.parts
        if part.kind == "at" and part.user_id > 0
    ]


def _seen(item: Spoken, message: NewMessage) -> SeenMember | None:
    sender = item.record.sender
    if sender.anonymous or sender.user_id <= 0:
        return None
    return SeenMember(
        conversation_id=item.conversation.id,
        user_id=sender.user_id,
        name=message.sender_name,
        nickname=sender.nickname,
        card=sender.card,
        role=sender.role,
        title=sender.title,
        is_robot=sender.is_robot,
        seen_at=message.sent_at,
    )


def _heard(item: Spoken, message: NewMessage, place: Stored) -> list[Effect]:
    record, conversation, late = item.record, item.conversation, item.arrival.frame.late
    person = not message.is_robot and not message.is_command
    effects: list[Effect] = [Heard(conversation, record.account_id, place.id, place.pos, message.call, person, late)]
    if not place.fresh:
        return effects
    if message.quoted_key is not None and message.quoted_id is None:
        effects.append(QuoteMissing(conversation, record.account_id, place.id, message.quoted_key, message.sent_at, late))
    if record.forward_id is not None:
        effects.append(ForwardMissing(conversation, record.account_id, place.id, record.forward_id))
    return effects


def _account_seen(record: AccountState) -> AccountSeen:
    return AccountSeen(record.account_id, record.online, record.note)
