"""Whether a conversation wants a turn now, and why: rows and rules, no model."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from db import accounts, conversations, members, memberships, owed
from db.models import CallKind, Conversation, ConversationId, MessageRow, OwedCall, Role, Trigger
from db.pool import Connection, Database
from plugins.chat.own import OwnAccounts
from plugins.chat.rules import ambient_chance, daily_calls, is_enabled, is_muted, is_quiet, talk_frequency
from settings import Settings

ALIVE_SECONDS = 45.0
_RANK: dict[CallKind, int] = {"mention": 0, "reply": 1, "name": 2}


@dataclass(frozen=True, slots=True)
class Plan:
    """A turn that should run now."""

    conversation: Conversation
    account_id: int
    trigger: Trigger
    bot_role: Role
    calls: tuple[MessageRow, ...] = ()
    """The open calls that made it."""


@dataclass(frozen=True, slots=True)
class NoTurn:
    """Why there is none."""

    why: str


@dataclass(frozen=True, slots=True)
class _Speaker:
    account_id: int
    role: Role


class Planner:
    """Decides turns. ``spent`` counts today's model calls; ``dice`` gives numbers in [0, 1)."""

    def __init__(
        self,
        database: Database,
        settings: Settings,
        own: OwnAccounts,
        spent: Callable[[ConversationId], Awaitable[int]],
        clock: Callable[[], datetime],
        dice: Callable[[], float] = random.random,
    ) -> None:
        self._database = database
        self._settings = settings
        self._own = own
        self._spent = spent
        self._clock = clock
        self._dice = dice

    async def plan(self, conversation_id: ConversationId, *, poked: bool) -> Plan | NoTurn:
        """Look at a conversation and decide. Rolls the dice at most once for each unread batch."""
        now = self._clock()
        async with self._database.connection() as conn:
            conversation = await conversations.get(conn, conversation_id)
            if conversation is None or not is_enabled(conversation, self._settings):
                return NoTurn("未启用")
            calls = await owed.due(conn, conversation_id, now)
            plan = await self._decide(conn, conversation, calls, poked=poked, now=now)
        if isinstance(plan, Plan) and await self._spent(conversation_id) >= daily_calls(conversation, self._settings):
            return NoTurn("今日模型调用次数已用完")
        return plan

    async def _decide(
        self, conn: Connection, conversation: Conversation, calls: Sequence[OwedCall], *, poked: bool, now: datetime
    ) -> Plan | NoTurn:
        if conversation.left_at is not None:
            return NoTurn("已不在群里")
        speaker = await self._speaker(conn, conversation, calls[-1] if calls else None, now)
        if isinstance(speaker, NoTurn):
            return speaker
        account_id, role = speaker.account_id, speaker.role
        conversation = replace(conversation, muted_until=None)  # another account's mute is not the speaker's
        if calls:
            return Plan(conversation, account_id, _strongest(calls), role, tuple(call.message for call in calls))
        if poked:
            return Plan(conversation, account_id, "poke", role)
        if await self._joins_in(conn, conversation, now):
            return Plan(conversation, account_id, "ambient", role)
        return NoTurn("不插话")

    async def _speaker(
        self, conn: Connection, conversation: Conversation, call: OwedCall | None, now: datetime
    ) -> _Speaker | NoTurn:
        """Choose who speaks: the called account, else the last that heard the group, in any case one that may.

        Whoever was mentioned or replied to answers itself, when its mute is over; any account answers to the name.
        """
        called = None if call is None else call.account_id
        if called is not None and await self._elsewhere(conn, called):
            return NoTurn("由连着那个账号的进程来回应")
        candidates = self._own.speakers(conversation.id, called)
        if call is not None and call.kind != "name" and called in candidates:
            candidates = [call.account_id]
        why = NoTurn("账号不在线")
        standings = await memberships.standings(conn, conversation.id, candidates)
        for account_id in candidates:
            standing = standings.get(account_id)
            if standing is not None and standing.left_at is not None:
                why = NoTurn("已不在群里")
                continue
            role = await members.role_of(conn, conversation.id, account_id)
            own_mute = None if standing is None else standing.muted_until
            if not is_muted(replace(conversation, muted_until=own_mute), role, now):
                return _Speaker(account_id, role)
            why = NoTurn("被禁言")
        return why

    async def _elsewhere(self, conn: Connection, account_id: int) -> bool:
        """A call belongs to the process that holds the called account's socket, while that process lives."""
        if self._own.get(account_id).usable:
            return False
        within = max(ALIVE_SECONDS, 3 * self._settings.scan_seconds)
        return await accounts.elsewhere(conn, account_id, worker=self._own.worker, within=within)

    async def owes(self, conversation_id: ConversationId) -> bool:
        """Tell whether a call is due in a conversation."""
        async with self._database.connection() as conn:
            return bool(await owed.due(conn, conversation_id, self._clock()))

    async def _joins_in(self, conn: Connection, conversation: Conversation, now: datetime) -> bool:
        unread = await conversations.unread(conn, conversation)
        mine = await conversations.claim_dice(conn, conversation.id, conversation.last_pos)
        frequency = talk_frequency(conversation, self._settings)
        if frequency <= 0 or conversation.kind == "private" or is_quiet(conversation, self._settings, now):
            return False
        if not mine or unread.people == 0:
            return False
        return self._dice() < ambient_chance(frequency, unread.own_recent, unread.recent)


def _strongest(calls: Sequence[OwedCall]) -> CallKind:
    return min((call.kind for call in calls), key=_RANK.__getitem__)
