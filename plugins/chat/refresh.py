"""What QQ knows about groups and members, read in the background and written in one go."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from nonebot.log import logger

from db import accounts, conversations, members, memberships
from db.conversations import KnownConversation
from db.members import SeenMember
from db.models import Conversation, ConversationId, ConversationKey, JsonObject, Role
from db.pool import Database
from plugins.chat.fields import as_flag, as_id, as_int, as_list, as_object, as_text
from plugins.chat.hygiene import one_line
from plugins.chat.names import show_name
from plugins.chat.onebot import CallFailed, OneBot

MEMBERS_EVERY = timedelta(hours=6)
MEMBERS_SOON = timedelta(minutes=1)
MUTE_SETTLED_SECONDS = 300.0
"""A list may be so much older than the notice of a mute."""
_LIST_SECONDS = 30.0
_NAME = 60
_ROLES: dict[str, Role] = {"owner": "owner", "admin": "admin", "member": "member"}


class Refresh:
    """Keeps group names, member lists and the account's own name fresh."""

    def __init__(self, onebot: OneBot, database: Database, clock: Callable[[], datetime]) -> None:
        self._onebot = onebot
        self._database = database
        self._clock = clock
        self._done: dict[ConversationId, datetime] = {}

    async def account(self, account_id: int) -> str:
        """Read the account's own name; empty when QQ does not say."""
        try:
            data = as_object(await self._onebot.call(account_id, "get_login_info"))
        except CallFailed as error:
            logger.warning(f"没有读到账号 {account_id} 的昵称：{error}")
            return ""
        nickname = show_name("", as_text(data.get("nickname")), account_id)
        async with self._database.connection() as conn:
            await accounts.set_nickname(conn, account_id, nickname)
        return nickname

    async def groups(self, account_id: int) -> list[Conversation] | None:
        """Read which groups the account is in, and give them rows with their names. None: QQ did not say."""
        asked_at = self._clock()
        try:
            data = await self._onebot.call(account_id, "get_group_list", seconds=_LIST_SECONDS)
        except CallFailed as error:
            logger.warning(f"没有读到账号 {account_id} 的群列表：{error}")
            return None
        found = [_group(as_object(item)) for item in as_list(data)]
        known = [item for item in found if item.key.target_id > 0]
        if not known:
            return []
        async with self._database.transaction() as conn:
            rows = await conversations.ensure(conn, known)
            await memberships.arrive(conn, [(row.id, account_id) for row in rows], known_at=asked_at)
        return rows

    def rest(self, conversation_id: ConversationId) -> float:
        """Seconds until a member list may be read again; 0: now."""
        last = self._done.get(conversation_id)
        return 0.0 if last is None else max(0.0, (last + MEMBERS_SOON - self._clock()).total_seconds())

    async def members(self, account_id: int, where: Conversation, *, stale: bool = False) -> bool:
        """Read a group's member list, unless it was read lately. ``stale``: something changed since. False: it failed."""
        now = self._clock()
        last = self._done.get(where.id)
        if where.kind != "group" or (last is not None and now - last < (MEMBERS_SOON if stale else MEMBERS_EVERY)):
            return True
        self._done[where.id] = now
        done = False
        try:
            done = await self._members(account_id, where, now)
        finally:
            if not done:  # what counts is when it was read before
                self._done.pop(where.id)
                self._done |= {} if last is None else {where.id: last}
        return done

    async def _members(self, account_id: int, where: Conversation, now: datetime) -> bool:
        try:
            data = await self._onebot.call(account_id, "get_group_member_list", seconds=_LIST_SECONDS, group_id=where.target_id)
        except CallFailed as error:
            logger.warning(f"没有读到群 {where.name or where.target_id} 的成员列表：{error}")
            return False
        rows = [as_object(item) for item in as_list(data)]
        seen = [_member(row, where.id, now) for row in rows if as_id(row.get("user_id")) > 0]
        if not seen:
            return True
        async with self._database.transaction() as conn:
            await conversations.ensure(conn, [KnownConversation(where.key)])
            await members.save(conn, seen)
            await members.mark_absent(conn, where.id, [item.user_id for item in seen], now)
            shut_up = _shut_up(rows, account_id)
            until = _moment(shut_up)
            if until is not None and until > now:
                await memberships.mute(conn, where.id, account_id, until=until)
            elif shut_up is not None:
                await memberships.free(conn, where.id, account_id, settled=MUTE_SETTLED_SECONDS)
        return True


def _group(item: JsonObject) -> KnownConversation:
    name = one_line(as_text(item.get("group_name")), _NAME)
    return KnownConversation(ConversationKey("group", as_id(item.get("group_id"))), name)


def _member(row: JsonObject, conversation_id: ConversationId, now: datetime) -> SeenMember:
    user_id = as_id(row.get("user_id"))
    nickname, card = as_text(row.get("nickname"), _NAME), as_text(row.get("card"), _NAME)
    return SeenMember(
        conversation_id=conversation_id,
        user_id=user_id,
        name=show_name(card, nickname, user_id),
        nickname=nickname,
        card=card,
        role=_ROLES.get(as_text(row.get("role")), "unknown"),
        title=as_text(row.get("title"), _NAME),
        is_robot=as_flag(row.get("is_robot")) or False,
        seen_at=now,
        spoke=False,
        joined_at=_moment(as_int(row.get("join_time"))),
    )


def _shut_up(rows: list[JsonObject], account_id: int) -> int | None:
    """Until when the account is muted, in seconds since 1970; 0: it is not; None: the list does not say."""
    own = next((row for row in rows if as_id(row.get("user_id")) == account_id), None)
    return as_int(own.get("shut_up_timestamp")) if own is not None else None


def _moment(seconds: int | None) -> datetime | None:
    return datetime.fromtimestamp(seconds, UTC) if seconds is not None and 0 < seconds < 1e11 else None
