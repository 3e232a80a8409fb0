"""After the commit: what was stored wakes lanes, fetches what is missing, answers commands."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from nonebot.log import logger

from agent.ports import Draft
from db import accounts, memberships
from db.models import Conversation
from db.pool import Database
from plugins.chat.apply import remove
from plugins.chat.backfill import Backfill
from plugins.chat.commands import Commands
from plugins.chat.effects import (
    AccountSeen,
    Effect,
    ForwardMissing,
    Heard,
    MayNotTalk,
    MayTalk,
    MembersStale,
    Ordered,
    PokedUs,
    QuoteMissing,
)
from plugins.chat.enrich import Enrich
from plugins.chat.failures import Failure
from plugins.chat.jobs import Jobs
from plugins.chat.lanes import Lanes
from plugins.chat.outbox import Address, Outbox
from plugins.chat.own import OwnAccounts
from plugins.chat.pokes import PokeLimit
from plugins.chat.refresh import Refresh
from plugins.chat.rules import is_enabled
from settings import Settings


@dataclass(frozen=True, slots=True)
class Workers:
    """Those who do what takes time."""

    backfill: Backfill
    refresh: Refresh
    enrich: Enrich
    commands: Commands
    outbox: Outbox


class Dispatch:
    """Hands effects to those who act on them. Nothing here waits."""

    def __init__(
        self, settings: Settings, database: Database, own: OwnAccounts, lanes: Lanes, jobs: Jobs, workers: Workers
    ) -> None:
        self._settings = settings
        self._database = database
        self._own = own
        self._lanes = lanes
        self._jobs = jobs
        self._orders = Jobs()  # 停 must not queue behind histories and member lists
        self._workers = workers
        self._pokes = PokeLimit()
        self._behind: set[int] = set()
        self._catching: set[int] = set()

    def deliver(self, effects: Sequence[Effect]) -> None:
        """Act on what a batch brought about, in order."""
        for effect in effects:
            self._act(effect)

    def _act(self, effect: Effect) -> None:
        match effect:
            case Heard():
                self._heard(effect)
            case PokedUs(conversation=where):
                if self._pokes.allows(where.id, effect.user_id, time.monotonic()):
                    self._lanes.heard(where.id, poked=True)
            case Ordered():
                self._jobs.start("执行命令", self._order(effect), urgent=True)
            case QuoteMissing() | ForwardMissing() | MembersStale():
                self._fetch(effect)
            case MayTalk(conversation=where):
                self._lanes.look(where.id)
            case MayNotTalk(conversation=where):
                logger.warning(f"群 {where.name or where.target_id}：{effect.why}，暂停发言")
            case AccountSeen():
                self._account(effect)

    def _fetch(self, effect: QuoteMissing | ForwardMissing | MembersStale) -> None:
        match effect:
            case QuoteMissing():
                self._jobs.start("补取引用的消息", self._workers.enrich.quote(effect))
            case ForwardMissing():
                self._jobs.start("补取合并转发", self._workers.enrich.forward(effect))
            case MembersStale():
                refresh, where = self._workers.refresh, effect.conversation
                self._jobs.start_after(
                    refresh.rest(where.id),
                    f"刷新群 {where.target_id} 的成员列表",
                    lambda: refresh.members(effect.account_id, where, stale=True),
                )

    def joined(self, account_id: int) -> None:
        """An account's socket opened."""
        self._own.joined(account_id)
        self._jobs.start("接上账号", self._catch_up_once(account_id))

    def opened(self, where: Conversation, account_id: int) -> None:
        """A conversation was enabled: read its members, and what was said lately."""
        self._own.saw(where.id, account_id, None)
        self._jobs.start("补历史消息", self._workers.backfill.fill(account_id, where))
        self._jobs.start("刷新成员列表", self._workers.refresh.members(account_id, where))

    def parted(self, account_id: int) -> None:
        """An account's last socket closed."""
        state = self._own.get(account_id)
        state.connected = False
        self._jobs.start("记下账号断开", self._save(account_id))

    def refused(self, address: Address, failure: Failure) -> None:
        """A send was refused: what that says about the group or the account is remembered."""
        if failure.reason in {"removed", "muted", "offline"}:
            self._jobs.start("记下发送被拒的原因", self._learn(address, failure), urgent=True)

    def quote_called(self, missing: QuoteMissing) -> None:
        """A reply turned out to be to us."""
        self._lanes.heard(missing.conversation.id)

    def _heard(self, effect: Heard) -> None:
        state = self._own.get(effect.account_id)
        if not state.online and not effect.late:
            state.online, state.note = True, ""  # somebody offline hears nothing
            self._jobs.start("记下账号状态", self._save(effect.account_id))
        if effect.call is not None or (effect.person and not effect.late):
            self._lanes.heard(effect.conversation.id)

    def _account(self, effect: AccountSeen) -> None:
        state = self._own.get(effect.account_id)
        if effect.online is None or effect.online == state.online:
            return
        state.online, state.note = effect.online, effect.note
        if effect.online:
            logger.success(f"账号 {effect.account_id} 恢复在线")
            self._jobs.start("接上账号", self._catch_up_once(effect.account_id))
        else:
            logger.error(
                f"账号 {effect.account_id} 的 QQ 已离线（{effect.note or '心跳报告离线'}）：暂停发言，请到 NapCat 重新登录"
            )
            self._jobs.start("记下账号状态", self._save(effect.account_id))

    async def _save(self, account_id: int) -> None:
        state = self._own.get(account_id)
        async with self._database.connection() as conn:
            await accounts.save(
                conn,
                account_id,
                connected=state.connected,
                online=state.online,
                note=state.note,
                worker=self._own.worker,
            )

    async def _catch_up_once(self, account_id: int) -> None:
        """Catch up, one run at a time: what a storm of reconnects asks for meanwhile is one more run."""
        self._behind.add(account_id)
        if account_id in self._catching:
            return
        self._catching.add(account_id)
        try:
            while account_id in self._behind:
                self._behind.discard(account_id)
                await self._catch_up(account_id)
        finally:
            self._catching.discard(account_id)

    async def _catch_up(self, account_id: int) -> None:
        """Learn who the account is and where, fill gaps, and look at what is owed."""
        await self._save(account_id)
        state = self._own.get(account_id)
        state.nickname = await self._workers.refresh.account(account_id) or state.nickname
        groups = [where for where in await self._workers.refresh.groups(account_id) if is_enabled(where, self._settings)]
        for where in groups:
            self._own.saw(where.id, account_id, None)
            self._jobs.start("补历史消息", self._workers.backfill.fill(account_id, where))
            self._jobs.start("刷新成员列表", self._workers.refresh.members(account_id, where))
        for where in groups:
            self._lanes.look(where.id)

    async def _order(self, order: Ordered) -> None:
        answer = await self._workers.commands.run(order)
        if answer:
            await self._workers.outbox.send(Address(order.conversation, order.account_id, command=True), Draft(answer))

    async def _learn(self, address: Address, failure: Failure) -> None:
        where = address.conversation
        if failure.reason == "offline":
            self._account(AccountSeen(address.account_id, False, failure.detail))
            return
        async with self._database.transaction() as conn:
            if failure.reason == "removed":
                self._own.left(where.id, address.account_id)
                await remove(conn, where.id, address.account_id, at=datetime.now(UTC))
            else:
                await memberships.presume_muted(conn, where.id, address.account_id)
