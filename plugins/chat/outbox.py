"""Sending: a row before anything leaves, one message at a time in each conversation, and exactly one end."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime

import psycopg
from nonebot.log import logger

from agent.ports import Delivery, Draft
from db import conversations, ingest, outbox, sightings
from db.conversations import KnownConversation
from db.models import Conversation, ConversationId, Json, JsonObject, OutboxId, TurnId
from db.outbox import NewSend
from db.pool import Connection, Database, DatabaseUnavailable
from db.sightings import NewMessage, Quoted
from plugins.chat.failures import Failure
from plugins.chat.fields import as_int, as_object
from plugins.chat.hygiene import one_line
from plugins.chat.onebot import SEND_SECONDS, CallFailed, OneBot
from plugins.chat.own import OwnAccounts
from plugins.chat.plaintext import plain, split
from plugins.chat.segments import Rendered, read_segments, render

GAP_SECONDS = 1.0
A_MINUTE = 20
TYPING_MAX_SECONDS = 8.0
CLOSE_SECONDS = 3.0
_LINES = 1000
_LOGGED = 80


@dataclass(frozen=True, slots=True)
class Address:
    """From whom, to where, and for which turn. ``command``: it answers a command, which is no part of the talk."""

    conversation: Conversation
    account_id: int
    turn_id: TurnId | None = None
    command: bool = False


@dataclass(slots=True)
class _Pace:
    """When a conversation last got a message, so that it is not flooded."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    left: deque[float] = field(default_factory=lambda: deque[float](maxlen=A_MINUTE))

    def wait(self, now: float) -> float:
        """Seconds until the next message may leave."""
        gap = self.left[-1] + GAP_SECONDS - now if self.left else 0.0
        minute = self.left[0] + 60.0 - now if len(self.left) == A_MINUTE else 0.0
        return max(0.0, gap, minute)


class Outbox:
    """Sends for all conversations of this process."""

    def __init__(
        self,
        database: Database,
        onebot: OneBot,
        own: OwnAccounts,
        clock: Callable[[], datetime],
        typing: float,
    ) -> None:
        self._database = database
        self._onebot = onebot
        self._own = own
        self._clock = clock
        self._typing = typing
        self._paces: OrderedDict[ConversationId, _Pace] = OrderedDict()
        self._leaving: set[asyncio.Task[Delivery]] = set()
        self.refused: Callable[[Address, Failure], None] = lambda _address, _failure: None

    async def send(self, address: Address, draft: Draft) -> Delivery:
        """Send one message, split where it is too long. The first part carries the reply and the mentions.

        Raises DatabaseUnavailable when it could not be written down, and so did not leave.
        """
        parts = split(plain(draft.text))
        if not parts:
            return Delivery("refused", reason="other", detail="内容是空的")
        pace = self._pace(address.conversation.id)
        async with pace.lock:
            first = await self._part(address, replace(draft, text=parts[0]), pace)
            if first.status != "sent":
                return first
            for number, part in enumerate(parts[1:], 1):
                last = await self._later_part(address, Draft(part), pace)
                if last.status == "unknown":
                    return replace(last, pos=first.pos, dropped_mentions=first.dropped_mentions)
                if last.status != "sent":
                    # What has left cannot be unsaid: to the model it is sent.
                    return replace(first, reason=last.reason, detail=f"只发出了前 {number} 段：{last.detail}")
        return first

    async def _later_part(self, address: Address, draft: Draft, pace: _Pace) -> Delivery:
        try:
            return await self._part(address, draft, pace)
        except DatabaseUnavailable as error:
            return Delivery("refused", reason="other", detail=str(error))

    async def close(self) -> None:
        """Wait a moment for the ends of messages that are on their way."""
        if self._leaving:
            await asyncio.wait(self._leaving, timeout=CLOSE_SECONDS)

    async def _part(self, address: Address, draft: Draft, pace: _Pace) -> Delivery:
        delivery = await self._once(address, draft, pace)
        if delivery.reason == "unknown_user" and delivery.status == "refused" and draft.mentions:
            logger.warning(f"会话 {address.conversation.id}：QQ 不认识被 @ 的人，去掉 @ 再发一次")
            again = await self._once(address, replace(draft, mentions=()), pace)
            return replace(again, dropped_mentions=draft.mentions)
        return delivery

    async def _once(self, address: Address, draft: Draft, pace: _Pace) -> Delivery:
        segments, text = await self._written(address, draft)
        async with self._database.connection() as conn:
            row = await outbox.put(
                conn, NewSend(address.conversation.id, address.account_id, address.turn_id, tuple(segments), text)
            )
        try:
            await asyncio.sleep(max(pace.wait(time.monotonic()), self._typing_seconds(draft.text)))
        except asyncio.CancelledError:
            await self._call_off(row)
            raise
        # From here on the message may arrive: cancelling the turn must not lose its end.
        leaving = asyncio.create_task(self._leave(address, row, segments, text))
        self._leaving.add(leaving)
        leaving.add_done_callback(self._leaving.discard)
        return await asyncio.shield(leaving)

    async def _call_off(self, row: OutboxId) -> None:
        try:
            async with self._database.connection() as conn:
                await outbox.cancel(conn, row, detail="被叫停")
        except DatabaseUnavailable as error:  # the end of its turn cancels it as well
            logger.debug(f"没能记下第 {row} 条被叫停：{error}")

    async def _leave(self, address: Address, row: OutboxId, segments: list[JsonObject], text: str) -> Delivery:
        async with self._database.connection() as conn:
            if not self._own.get(address.account_id).usable:
                await outbox.hold_back(conn, row, reason="offline", detail="发出前账号离线或断开了")
            if not await outbox.leave(conn, row):
                held = await outbox.held_back(conn, row)
                if held is not None:
                    return Delivery("refused", reason=held, detail="发出前得知发不了")
                return Delivery("cancelled", detail="这条消息在发出前被取消了")
        self._pace(address.conversation.id).left.append(time.monotonic())
        return await self._deliver(address, row, segments, text)

    async def _deliver(self, address: Address, row: OutboxId, segments: list[JsonObject], text: str) -> Delivery:
        try:
            data = await self._post(address, segments)
        except CallFailed as error:
            return await self._not_sent(address, row, error.failure)
        message_id = as_int(as_object(data).get("message_id"))
        if not message_id:
            return await self._not_sent(address, row, Failure("unknown", "unconfirmed", "QQ 没有给出消息编号"))
        logger.info(f"{where_name(address.conversation)} ← {one_line(text, _LOGGED)}")
        try:
            pos = await self._database.run(lambda conn: self._remember(conn, address, segments, row, message_id))
        except (DatabaseUnavailable, psycopg.Error) as error:
            # It is out: telling the model otherwise would send it twice. Its echo settles the row.
            logger.error(f"{where_name(address.conversation)}：消息已发出，但没能记进数据库：{error}")
            return Delivery("sent")
        return Delivery("sent", pos=pos)

    async def _post(self, address: Address, segments: list[JsonObject]) -> Json:
        where = address.conversation
        if where.kind == "group":
            return await self._onebot.call(
                address.account_id, "send_group_msg", seconds=SEND_SECONDS, group_id=where.target_id, message=segments
            )
        return await self._onebot.call(
            address.account_id, "send_private_msg", seconds=SEND_SECONDS, user_id=where.target_id, message=segments
        )

    async def _remember(
        self, conn: Connection, address: Address, segments: list[JsonObject], row: OutboxId, message_id: int
    ) -> int:
        """Store the own message as sent, unless its echo was quicker."""
        async with conn.transaction():
            known = KnownConversation(address.conversation.key)
            where = (await conversations.ensure(conn, [known]))[0]
            last = {where.id: where.last_pos}
            message = await self._own_message(conn, address, segments, message_id)
            stored = (await ingest.store(conn, [message], last))[0]
            await conversations.take_positions(conn, [where.id], [last[where.id]])
            await outbox.sent(conn, row, message_id=message_id, message=stored.id)
        return stored.pos

    async def _own_message(self, conn: Connection, address: Address, segments: list[JsonObject], message_id: int) -> NewMessage:
        own = await _read(conn, address, segments)
        quoted, rendered = own.quoted, own.rendered
        return NewMessage(
            conversation_id=address.conversation.id,
            account_id=address.account_id,
            message_id=message_id,
            real_seq=None,
            sender_id=address.account_id,
            sender_name=self._own.get(address.account_id).nickname or "我",
            sent_at=self._clock(),
            text=rendered.text,
            body=rendered.body,
            is_self=True,
            is_command=address.command,
            quoted_id=quoted.id if quoted else None,
            quoted_key=own.reply_key,
            quote_name=quoted.sender_name if quoted else None,
            quote_text=quoted.body if quoted and not quoted.withdrawn else None,
            segments=tuple(segments),
            turn_id=address.turn_id,
            second_sight=True,
        )

    async def _not_sent(self, address: Address, row: OutboxId, failure: Failure) -> Delivery:
        async def write(conn: Connection) -> int | None:
            await outbox.failed(conn, row, status=failure.status, reason=failure.reason, detail=failure.detail)
            found = await outbox.settle_stored(conn, only=row) if failure.status == "unknown" else []
            return next(iter(found), None)

        try:
            pos = await self._database.run(write)
        except DatabaseUnavailable as error:
            logger.error(f"{where_name(address.conversation)}：没能记下发送的结果：{error}")
            pos = None
        if pos is not None:  # the answer was lost, but the message had been seen in the group before
            return Delivery("sent", pos=pos)
        logger.warning(f"{where_name(address.conversation)}：没有发出去（{failure.reason}）：{failure.detail}")
        self.refused(address, failure)
        return Delivery(failure.status, reason=failure.reason, detail=failure.detail)

    async def _written(self, address: Address, draft: Draft) -> tuple[list[JsonObject], str]:
        """Write segments, never CQ codes (what the model wrote stays text), and what a reader will see of them."""
        where, account = address.conversation, address.account_id
        segments: list[JsonObject] = []
        if draft.reply_to is not None:
            async with self._database.connection() as conn:
                key = await outbox.key_of(conn, where.id, draft.reply_to, account)
            if key is not None:
                segments.append({"type": "reply", "data": {"id": str(key)}})
        mentions = draft.mentions if where.kind == "group" else ()
        segments += [{"type": "at", "data": {"qq": str(user_id)}} for user_id in mentions]
        segments.append({"type": "text", "data": {"text": f" {draft.text}" if mentions else draft.text}})
        if len(segments) == 1:
            return segments, draft.text
        async with self._database.connection() as conn:
            return segments, (await _read(conn, address, segments)).rendered.body

    def _typing_seconds(self, text: str) -> float:
        return min(TYPING_MAX_SECONDS, len(text) / self._typing) if self._typing > 0 else 0.0

    def _pace(self, conversation_id: ConversationId) -> _Pace:
        pace = self._paces.setdefault(conversation_id, _Pace())
        self._paces.move_to_end(conversation_id)
        while len(self._paces) > _LINES and not next(iter(self._paces.values())).lock.locked():
            self._paces.popitem(last=False)
        return pace


@dataclass(frozen=True, slots=True)
class _OwnReading:
    """An own message read as its echo will be read."""

    rendered: Rendered
    reply_key: int | None
    quoted: Quoted | None


async def _read(conn: Connection, address: Address, segments: list[JsonObject]) -> _OwnReading:
    reading = read_segments(segments)
    names = await outbox.names(conn, address.conversation.id, [part.user_id for part in reading.parts if part.user_id])
    key = (address.account_id, reading.reply_key or 0)
    quoted = (await sightings.quoted(conn, [key] if reading.reply_key else [])).get(key)
    return _OwnReading(render(reading.parts, names.get, quoted.sender_id if quoted else None), reading.reply_key, quoted)


def where_name(conversation: Conversation) -> str:
    """Name a conversation for the log."""
    kind = "群" if conversation.kind == "group" else "好友"
    return f"{kind} {conversation.name or conversation.target_id}"
