"""Filling the gap after a connect: pages of history, as few as needed, each message stored once."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from nonebot.log import logger

from db import history_gap
from db.history_gap import Newest
from db.models import Conversation, Json, JsonObject
from db.pool import Database, DatabaseUnavailable
from plugins.chat.fields import as_id, as_int, as_list, as_object
from plugins.chat.inbox import Frame
from plugins.chat.onebot import CallFailed, OneBot
from plugins.chat.own import OwnAccounts

PAGE = 50
PAGES = 10
_HISTORY_SECONDS = 20.0
_MILLISECONDS = 100_000_000_000
_Place: TypeAlias = "tuple[int, int]"


class Backfill:
    """Reads history and hands it to the inbox as late frames."""

    def __init__(self, onebot: OneBot, database: Database, own: OwnAccounts, put: Callable[[Frame], None]) -> None:
        self._onebot = onebot
        self._own = own
        self._database = database
        self._put = put

    async def fill(self, account_id: int, where: Conversation) -> bool:
        """Fetch what a group said since the newest message that was stored before the gap. False: it could not be read.

        An empty group gets one page, so that the bot knows what the talk is about.
        """
        try:
            async with self._database.connection() as conn:
                heard = self._own.first_live(where.id, account_id)
                newest = await history_gap.newest(conn, where.id, below=heard.seq, before=heard.at)
            messages = await self._fetch(account_id, where, newest)
        except CallFailed as error:
            logger.warning(f"群 {where.name or where.target_id} 的历史消息没取到：{error}")
            return False
        except DatabaseUnavailable:
            return False
        self._hand_over(account_id, where, messages)
        self._own.filled(where.id, account_id)
        return True

    async def seek_own(self, account_id: int, where: Conversation) -> None:
        """Fetch the latest page for the account's own messages: one that was sent without an answer may be among them."""
        try:
            page = await self._page(account_id, where, None)
        except CallFailed as error:
            logger.debug(f"会话 {where.id} 的历史消息没取到：{error}")
            return
        self._hand_over(account_id, where, (item for item in page if _sender(item) == account_id))

    def _hand_over(self, account_id: int, where: Conversation, messages: Iterable[JsonObject]) -> None:
        for message in messages:
            payload = as_event(message, account_id, where)
            self._put(Frame(account_id, time.time(), payload, json.dumps(payload, ensure_ascii=False), late=True))

    async def _fetch(self, account_id: int, where: Conversation, newest: Newest) -> list[JsonObject]:
        page = await self._page(account_id, where, None)
        found = _Found(page, newest)
        for _ in range(PAGES - 1):
            if not found.reaches_back or not page:
                break
            page = await self._older(account_id, where, found)
            found.put(page)
        return found.missing()

    async def _older(self, account_id: int, where: Conversation, found: _Found) -> Sequence[JsonObject]:
        """Ask for what lies before the oldest known message, whichever way this version pages."""
        for backwards in (False, True):
            page = await self._page(account_id, where, found.anchor, backwards=backwards)
            if found.has_older(page):
                return page
        return []

    async def _page(
        self, account_id: int, where: Conversation, anchor: int | None, *, backwards: bool = False
    ) -> list[JsonObject]:
        group = where.kind == "group"
        params: dict[str, Json] = {"group_id" if group else "user_id": where.target_id, "count": PAGE}
        if anchor is not None:
            params["message_seq"] = anchor
        if backwards:
            params |= {"reverseOrder": True, "reverse_order": True}
        action = "get_group_msg_history" if group else "get_friend_msg_history"
        data = await self._onebot.call(account_id, action, seconds=_HISTORY_SECONDS, **params)
        return [as_object(item) for item in as_list(as_object(data).get("messages"))]


@dataclass(frozen=True, slots=True)
class _Measure:
    """What orders a history: the number that NapCat gives, else the second. ``newest`` is the last known one."""

    numbered: bool
    newest: int | None

    def of(self, message: JsonObject) -> int | None:
        """A message's place in its group; None: this is no message."""
        return _number(message) if self.numbered else _second(message)

    def reached(self, oldest: int) -> bool:
        """Tell whether a page with this oldest message meets what is known."""
        if self.newest is None:
            return True
        # Of one second a page may hold the later half.
        return oldest <= self.newest + 1 if self.numbered else oldest < self.newest


class _Found:
    """The messages read so far, the oldest first; those of one second in the order of their page."""

    def __init__(self, page: Sequence[JsonObject], newest: Newest) -> None:
        messages = [item for item in page if _second(item) is not None]
        numbered = any(_number(item) for item in page) and all(_number(item) for item in messages)
        if numbered and (newest.seq is not None or newest.at is None):
            self._measure = _Measure(True, newest.seq)
        else:
            self._measure = _Measure(False, None if newest.at is None else int(newest.at.timestamp()))
        self._items: dict[_Place, JsonObject] = {}
        self.put(page)

    @property
    def reaches_back(self) -> bool:
        """True while there is a hole between what was read and what is known."""
        return bool(self._items) and not self._measure.reached(min(self._items)[0])

    @property
    def anchor(self) -> int | None:
        """The id of the oldest message, to ask for what came before it."""
        order = min(self._items)[0]
        return next(as_int(item.get("message_id")) for place, item in self._items.items() if place[0] == order)

    def put(self, page: Sequence[JsonObject]) -> None:
        """Put an older page before what is there."""
        places = [(place, item) for item in page if (place := self._place(item)) is not None]
        if places and places[0][0][0] > places[-1][0][0]:
            places.reverse()
        self._items = dict(places) | self._items

    def has_older(self, page: Sequence[JsonObject]) -> bool:
        """Tell whether a page brings anything from before."""
        oldest = min(self._items)[0]
        places = (self._place(item) for item in page)
        return any(place is not None and place[0] <= oldest and place not in self._items for place in places)

    def missing(self) -> list[JsonObject]:
        """What is not older than the newest known message, in order."""
        edge = self._measure.newest
        items = sorted(self._items.items(), key=lambda pair: pair[0][0])
        return [item for place, item in items if edge is None or place[0] >= edge]

    def _place(self, message: JsonObject) -> _Place | None:
        order = self._measure.of(message)
        return None if order is None else (order, as_int(message.get("message_id")) or 0)


def _number(message: JsonObject) -> int | None:
    return as_id(message.get("real_seq")) or None


def _second(message: JsonObject) -> int | None:
    value = as_id(message.get("time"))
    return (value // 1000 if value > _MILLISECONDS else value) or None


def _sender(message: JsonObject) -> int:
    return as_id(message.get("user_id")) or as_id(as_object(message.get("sender")).get("user_id"))


def as_event(message: JsonObject, account_id: int, where: Conversation) -> JsonObject:
    """Give a history item the shape of an event."""
    event = {**message, "self_id": account_id, "post_type": "message", "message_type": where.kind}
    if where.kind == "group":
        return event | {"group_id": where.target_id}
    return event | {"target_id": where.target_id}
