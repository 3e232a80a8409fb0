"""Sending: a row before anything leaves, one message at a time in each conversation, and exactly one end."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime

from nonebot.log import logger

from agent.ports import Delivery, Draft
from db import conversations, ingest, outbox, sightings
from db.conversations import KnownConversation
from db.models import Conversation, ConversationId, Json, JsonObject, OutboxId, TurnId
from db.outbox import NewSend
from db.pool import Connection, Database
from db.sightings import NewMessage
from plugins.chat.failures import Failure
from plugins.chat.fields import as_int, as_object
from plugins.chat.onebot import SEND_SECONDS, CallFailed, OneBot
from plugins.chat.own import OwnAccounts
from plugins.chat.plaintext import plain, split
from plugins.chat.segments import read_segments, render

GAP_SECONDS = 1.0
A_MINUTE = 20
TYPING_MAX_SECONDS = 8.0
_LINES = 1000


@dataclass(frozen=True, slots=True)
class Address:
    """From whom, to where, and for which turn."""

    conversation: Conversation
    account_id: int
    turn_id: TurnId | None = None


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
        self.refused: Callable[[Address, Failure], None] = lambda _address, _failure: None

    async def send(self, address: Address, draft: Draft) -> Delivery:
        """Send one message, split where it is too long. The first part carries the reply and the mentions."""
        parts = split(plain(draft.text))
        if not parts:
            return Delivery("refused", reason="other", detail="内容是空的")
        pace = self._pace(address.conversation.id)
        delivery = Delivery("cancelled")
        async with pace.lock:
            for number, part in enumerate(parts):
                piece = replace(draft, text=part) if number == 0 else Draft(part)
                last = await self._part(address, piece, pace)
                delivery = replace(
                    last, pos=delivery.pos or last.pos, dropped_mentions=delivery.dropped_mentions or last.dropped_mentions
                )
                if last.status != "sent":
                    break
        return delivery

    async def _part(self, address: Address, draft: Draft, pace: _Pace) -> Delivery:
        delivery = await self._once(address, draft, pace)
        if delivery.reason == "unknown_user" and delivery.status == "refused" and draft.mentions:
            logger.warning(f"会话 {address.conversation.id}：QQ 不认识被 @ 的人，去掉 @ 再发一次")
            again = await self._once(address, replace(draft, mentions=()), pace)
            return replace(again, dropped_mentions=draft.mentions)
        return delivery

    async def _once(self, address: Address, draft: Draft, pace: _Pace) -> Delivery:
        segments = await self._segments(address, draft)
        text = shown(segments, await self._names(address, draft))
        async with self._database.connection() as conn:
            row = await outbox.put(
                conn, NewSend(address.conversation.id, address.account_id, address.turn_id, tuple(segments), text)
            )
        try:
            await asyncio.sleep(max(pace.wait(time.monotonic()), self._typing_seconds(draft.text)))
        except asyncio.CancelledError:
            async with self._database.connection() as conn:
                await outbox.cancel(conn, row, detail="被叫停")
            raise
        async with self._database.connection() as conn:
            if not await outbox.leave(conn, row):
                return Delivery("cancelled", detail="这条消息在发出前被取消了")
        pace.left.append(time.monotonic())
        # From here on the message may arrive: cancelling the turn must not lose its end.
        return await asyncio.shield(self._deliver(address, row, segments, text))

    async def _deliver(self, address: Address, row: OutboxId, segments: list[JsonObject], text: str) -> Delivery:
        try:
            data = await self._post(address, segments)
        except CallFailed as error:
            return await self._not_sent(address, row, error.failure)
        message_id = as_int(as_object(data).get("message_id"))
        if not message_id:
            return await self._not_sent(address, row, Failure("unknown", "unconfirmed", "QQ 没有给出消息编号"))
        async with self._database.transaction() as conn:
            pos = await self._remember(conn, address, segments, row, message_id)
        logger.info(f"{where_name(address.conversation)} ← {text}")
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
        known = KnownConversation(address.conversation.key)
        where = (await conversations.ensure(conn, [known]))[0]
        last = {where.id: where.last_pos}
        message = await self._own_message(conn, address, segments, message_id)
        stored = (await ingest.store(conn, [message], last))[0]
        await conversations.take_positions(conn, [where.id], [last[where.id]])
        await outbox.sent(conn, row, message_id=message_id, message=stored.id)
        return stored.pos

    async def _own_message(self, conn: Connection, address: Address, segments: list[JsonObject], message_id: int) -> NewMessage:
        reading = read_segments(segments)
        names = await outbox.names(conn, address.conversation.id, [part.user_id for part in reading.parts])
        rendered = render(reading.parts, names.get)
        key = (address.account_id, reading.reply_key or 0)
        quoted = (await sightings.quoted(conn, [key])).get(key)
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
            quoted_id=quoted.id if quoted else None,
            quoted_key=reading.reply_key,
            quote_name=quoted.sender_name if quoted else None,
            quote_text=quoted.body if quoted and not quoted.withdrawn else None,
            segments=tuple(segments),
            turn_id=address.turn_id,
            second_sight=True,
        )

    async def _not_sent(self, address: Address, row: OutboxId, failure: Failure) -> Delivery:
        async with self._database.connection() as conn:
            await outbox.failed(conn, row, status=failure.status, reason=failure.reason, detail=failure.detail)
        logger.warning(f"{where_name(address.conversation)}：没有发出去（{failure.reason}）：{failure.detail}")
        self.refused(address, failure)
        return Delivery(failure.status, reason=failure.reason, detail=failure.detail)

    async def _segments(self, address: Address, draft: Draft) -> list[JsonObject]:
        """Build segments, never CQ codes: what the model wrote stays text."""
        segments: list[JsonObject] = []
        if draft.reply_to is not None:
            async with self._database.connection() as conn:
                key = await outbox.key_of(conn, address.conversation.id, draft.reply_to, address.account_id)
            if key is not None:
                segments.append({"type": "reply", "data": {"id": str(key)}})
        if address.conversation.kind == "group":
            for user_id in draft.mentions:
                segments.append({"type": "at", "data": {"qq": str(user_id)}})
        lead = " " if draft.mentions and address.conversation.kind == "group" else ""
        segments.append({"type": "text", "data": {"text": lead + draft.text}})
        return segments

    async def _names(self, address: Address, draft: Draft) -> dict[int, str]:
        if not draft.mentions:
            return {}
        async with self._database.connection() as conn:
            return await outbox.names(conn, address.conversation.id, draft.mentions)

    def _typing_seconds(self, text: str) -> float:
        return min(TYPING_MAX_SECONDS, len(text) / self._typing) if self._typing > 0 else 0.0

    def _pace(self, conversation_id: ConversationId) -> _Pace:
        pace = self._paces.setdefault(conversation_id, _Pace())
        self._paces.move_to_end(conversation_id)
        while len(self._paces) > _LINES and not next(iter(self._paces.values())).lock.locked():
            self._paces.popitem(last=False)
        return pace


def shown(segments: list[JsonObject], names: dict[int, str]) -> str:
    """What a reader will see of a message's segments, without the quote."""
    return render(read_segments(segments).parts, names.get).body


def where_name(conversation: Conversation) -> str:
    """Name a conversation for the log."""
    kind = "群" if conversation.kind == "group" else "好友"
    return f"{kind} {conversation.name or conversation.target_id}"
