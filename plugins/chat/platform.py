"""One own account in one conversation, as a turn may act through it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta

from agent.ports import Delivery, Draft, MemberInfo, Notice, PlatformError
from db import outbox
from db.models import Json, JsonObject
from db.pool import Database
from plugins.chat.fields import as_id, as_int, as_list, as_object, as_text
from plugins.chat.names import show_name
from plugins.chat.onebot import CALL_SECONDS, OneBot
from plugins.chat.outbox import Address, Outbox
from plugins.chat.segments import read_segments, render

WITHDRAW_WITHIN = timedelta(minutes=2)
_NOTICES = 10


class ConversationPlatform:
    """Implements the agent's ``Platform``. Everything it refuses says why in Chinese, for the model to read."""

    def __init__(
        self, address: Address, sender: Outbox, onebot: OneBot, database: Database, clock: Callable[[], datetime]
    ) -> None:
        self._address = address
        self._sender = sender
        self._onebot = onebot
        self._database = database
        self._clock = clock

    async def send(self, draft: Draft) -> Delivery:
        """Send one message through the outbox."""
        return await self._sender.send(self._address, draft)

    async def poke(self, user_id: int) -> None:
        """Nudge a member."""
        where = self._address.conversation
        if where.kind == "group":
            await self._call("group_poke", group_id=where.target_id, user_id=user_id)
        else:
            await self._call("friend_poke", user_id=where.target_id)

    async def react(self, pos: int, emoji_id: str) -> None:
        """Put a reaction on the message with this label."""
        await self._call("set_msg_emoji_like", message_id=await self._key(pos), emoji_id=emoji_id, set=True)

    async def withdraw(self, pos: int) -> None:
        """Take back an own message sent within the last two minutes."""
        async with self._database.connection() as conn:
            own = await outbox.own_message(conn, self._address.conversation.id, pos, self._address.account_id)
        if own is None:
            raise PlatformError(f"#{pos} 不是你发的，或者已经撤回了")
        if self._clock() - own.sent_at > WITHDRAW_WITHIN:
            raise PlatformError(f"#{pos} 发出超过 2 分钟，不能撤回了")
        await self._call("delete_msg", message_id=own.message_id)

    async def member_info(self, user_id: int) -> MemberInfo:
        """Ask QQ about a member of this group."""
        data = as_object(
            await self._call(
                "get_group_member_info", group_id=self._address.conversation.target_id, user_id=user_id, no_cache=False
            )
        )
        return MemberInfo(
            user_id=user_id,
            name=show_name(as_text(data.get("card")), as_text(data.get("nickname")), user_id),
            role=as_text(data.get("role")) or "unknown",
            title=as_text(data.get("title")),
            level=as_text(data.get("level")),
            joined_at=_moment(data.get("join_time")),
            last_spoke_at=_moment(data.get("last_sent_time")),
        )

    async def notices(self) -> Sequence[Notice]:
        """Read the group's notices, newest first."""
        data = await self._call("_get_group_notice", group_id=self._address.conversation.target_id)
        items = [as_object(item) for item in as_list(data)[:_NOTICES]]
        authors = [as_id(item.get("sender_id")) for item in items]
        async with self._database.connection() as conn:
            names = await outbox.names(conn, self._address.conversation.id, authors)
        return [_notice(item, names) for item in items]

    async def essence(self) -> Sequence[Notice]:
        """Read the group's essence messages, newest first."""
        data = await self._call("get_essence_msg_list", group_id=self._address.conversation.target_id)
        return [_essence(as_object(item)) for item in as_list(data)[:_NOTICES]]

    async def _key(self, pos: int) -> int:
        async with self._database.connection() as conn:
            key = await outbox.key_of(conn, self._address.conversation.id, pos, self._address.account_id)
        if key is None:
            raise PlatformError(f"找不到 #{pos}，或者它已经撤回了")
        return key

    async def _call(self, action: str, **params: Json) -> Json:
        return await self._onebot.call(self._address.account_id, action, seconds=CALL_SECONDS, **params)


def _moment(value: Json) -> datetime | None:
    seconds = as_int(value)
    return datetime.fromtimestamp(seconds, UTC) if seconds is not None and 0 < seconds < 1e11 else None


def _notice(data: JsonObject, names: Mapping[int, str]) -> Notice:
    message = as_object(data.get("message"))
    author = as_id(data.get("sender_id"))
    return Notice(show_name(names.get(author, ""), "", author), as_text(message.get("text")), _moment(data.get("publish_time")))


def _essence(data: JsonObject) -> Notice:
    body = render(read_segments(data.get("content")).parts, lambda _: None).body
    return Notice(as_text(data.get("sender_nick")), body, _moment(data.get("operator_time")))
