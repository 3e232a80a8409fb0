"""Filling the gap after a connect: pages of group history, as few as needed, each message stored once."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from typing import TypeAlias

from nonebot.log import logger

from db import history_gap
from db.models import Conversation, Json, JsonObject
from db.pool import Database, DatabaseUnavailable
from plugins.chat.fields import as_int, as_list, as_object
from plugins.chat.inbox import Frame
from plugins.chat.onebot import CallFailed, OneBot
from plugins.chat.own import OwnAccounts

PAGE = 50
PAGES = 10
_HISTORY_SECONDS = 20.0
_Place: TypeAlias = "tuple[int, int]"


class Backfill:
    """Reads history and hands it to the inbox as late frames."""

    def __init__(self, onebot: OneBot, database: Database, own: OwnAccounts, put: Callable[[Frame], None]) -> None:
        self._onebot = onebot
        self._own = own
        self._database = database
        self._put = put

    async def fill(self, account_id: int, where: Conversation) -> int:
        """Fetch what a group said since the newest stored message; returns how many messages were handed over.

        An empty group gets one page, so that the bot knows what the talk is about.
        """
        try:
            async with self._database.connection() as conn:
                first = self._own.first_live(where.id, account_id)
                newest = await history_gap.newest_seq(conn, where.id, below=first)
            messages = await self._fetch(account_id, where.target_id, newest)
        except CallFailed as error:
            logger.warning(f"群 {where.name or where.target_id} 的历史消息没取到：{error}")
            return 0
        except DatabaseUnavailable:
            return 0
        for message in messages:
            payload = as_event(message, account_id, where.target_id)
            self._put(Frame(account_id, time.time(), payload, json.dumps(payload, ensure_ascii=False), late=True))
        return len(messages)

    async def _fetch(self, account_id: int, group_id: int, newest: int | None) -> list[JsonObject]:
        found: dict[_Place, JsonObject] = {}
        page = await self._page(account_id, group_id, None)
        for pages in range(1, PAGES + 1):
            found.update({place: item for item in page if (place := _place(item)) is not None})
            if newest is None or not found or not page or min(found)[0] <= newest + 1 or pages == PAGES:
                break
            page = await self._older(account_id, group_id, found)
        return [found[place] for place in sorted(found) if newest is None or place[0] >= newest]

    async def _older(self, account_id: int, group_id: int, found: dict[_Place, JsonObject]) -> Sequence[JsonObject]:
        """Ask for what lies before the oldest known message, whichever way this version pages."""
        oldest = min(found)
        anchor = as_int(found[oldest].get("message_id"))
        for backwards in (False, True):
            page = await self._page(account_id, group_id, anchor, backwards=backwards)
            if any((place := _place(item)) is not None and place[0] < oldest[0] for item in page):
                return page
        return []

    async def _page(self, account_id: int, group_id: int, anchor: int | None, *, backwards: bool = False) -> list[JsonObject]:
        params: dict[str, Json] = {"group_id": group_id, "count": PAGE}
        if anchor is not None:
            params["message_seq"] = anchor
        if backwards:
            params |= {"reverseOrder": True, "reverse_order": True}
        data = await self._onebot.call(account_id, "get_group_msg_history", seconds=_HISTORY_SECONDS, **params)
        return [as_object(item) for item in as_list(as_object(data).get("messages"))]


def order_key(message: JsonObject) -> int | None:
    """A message's place in its group: real_seq, else its time."""
    return as_int(message.get("real_seq")) or as_int(message.get("time"))


def _place(message: JsonObject) -> _Place | None:
    """Where a message belongs; within one second the ids keep messages apart that have no real_seq."""
    order = order_key(message)
    return None if order is None else (order, as_int(message.get("message_id")) or 0)


def as_event(message: JsonObject, account_id: int, group_id: int) -> JsonObject:
    """Give a history item the shape of an event."""
    return {
        **message,
        "self_id": account_id,
        "post_type": "message",
        "message_type": "group",
        "group_id": group_id,
    }
