"""What an event did not bring: quoted messages and forwards, fetched after the row is stored."""

from __future__ import annotations

from collections.abc import Callable

from nonebot.log import logger

from db import history_gap, members, message_index, owed
from db.models import Json
from db.pool import Database
from plugins.chat.compose import quote_line
from plugins.chat.effects import ForwardMissing, QuoteMissing
from plugins.chat.fields import as_id, as_object, as_text
from plugins.chat.forwards import render_forward
from plugins.chat.names import show_name
from plugins.chat.onebot import CallFailed, OneBot
from plugins.chat.own import OwnAccounts
from plugins.chat.segments import read_segments, render

FORWARD_PLACEHOLDER = "[聊天记录]"


class Enrich:
    """Fetches and fills in. ``called``: a reply turned out to be to us."""

    def __init__(self, onebot: OneBot, database: Database, own: OwnAccounts, called: Callable[[QuoteMissing], None]) -> None:
        self._onebot = onebot
        self._database = database
        self._own = own
        self._called = called

    async def quote(self, missing: QuoteMissing) -> None:
        """Ask NapCat what a reply quotes. What QQ no longer has stays a message that cannot be seen."""
        try:
            data = as_object(await self._onebot.call(missing.account_id, "get_msg", message_id=missing.message_key))
        except CallFailed as error:
            logger.debug(f"引用的消息没取到：{error}")
            return
        sender = as_object(data.get("sender"))
        author = as_id(sender.get("user_id")) or as_id(data.get("user_id"))
        if author <= 0:
            return
        name = show_name(as_text(sender.get("card")), as_text(sender.get("nickname")), author)
        body = render(read_segments(data.get("message")).parts, lambda _: None).body
        ours = author in self._own.connected
        async with self._database.transaction() as conn:
            await history_gap.set_quote(conn, missing.row, sender_id=author, name=name, text=quote_line(body))
            sender_id = await history_gap.may_call(conn, missing.row) if ours and not missing.late else None
            known = sender_id is not None and sender_id not in self._own.ids
            ignored = known and (missing.conversation.id, sender_id) in await members.ignored(conn, [missing.conversation.id])
            called = known and not ignored and await owed.add(conn, missing.row, account_id=author, kind="reply")
        if called:
            self._called(missing)

    async def forward(self, missing: ForwardMissing) -> None:
        """Ask NapCat for the lines of a merged forward."""
        try:
            data = await self._onebot.call(missing.account_id, "get_forward_msg", message_id=missing.forward_id)
        except CallFailed as error:
            logger.debug(f"合并转发的内容没取到：{error}")
            return
        lines = render_forward(_nodes(data))
        if lines and lines != FORWARD_PLACEHOLDER:
            async with self._database.connection() as conn:
                await message_index.set_body(conn, missing.row, old=FORWARD_PLACEHOLDER, new=lines)


def _nodes(data: Json) -> Json:
    found = as_object(data)
    return found.get("messages") or found.get("message") or data
