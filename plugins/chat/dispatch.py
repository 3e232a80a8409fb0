"""After the commit: what was stored wakes lanes, fetches what is missing, answers commands."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from nonebot.log import logger

from agent.ports import Draft
from db import memberships
from db.models import Conversation
from db.pool import Database
from plugins.chat.apply import remove
from plugins.chat.backfill import Backfill
from plugins.chat.catchup import CatchUp, Sources
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
        self._workers = workers
        self._pokes = PokeLimit()
        sources = Sources(workers.backfill, workers.refresh, lambda where: is_enabled(where, settings), lanes.look)
        self._catch_up = CatchUp(database, own, jobs, sources)

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
        self._catch_up.start(account_id)

    def opened(self, where: Conversation, account_id: int) -> None:
        """A conversation was enabled: read its members, and what was said lately."""
        self._own.saw(where.id, account_id)
        self._catch_up.conversation(account_id, where)

    def parted(self, account_id: int) -> None:
        """An account's last socket closed."""
        state = self._own.get(account_id)
        state.connected = False
        self._jobs.start("记下账号断开", self._catch_up.save(account_id))

    def refused(self, address: Address, failure: Failure) -> None:
        """A send was refused: what that says about the group or the account is remembered. Or nobody knows: look later."""
        if failure.status == "unknown":
            self._catch_up.unconfirmed(address.account_id, address.conversation)
        if failure.reason in {"removed", "muted", "offline"}:
            self._jobs.start("记下发送被拒的原因", self._learn(address, failure), urgent=True)

    def quote_called(self, missing: QuoteMissing) -> None:
        """A reply turned out to be to us."""
        self._lanes.heard(missing.conversation.id)

    def _heard(self, effect: Heard) -> None:
        state = self._own.get(effect.account_id)
        if not state.online and not effect.late:
            self._account(AccountSeen(effect.account_id, True, ""))  # somebody offline hears nothing
        if effect.call is not None or (effect.person and not effect.late):
            self._lanes.heard(effect.conversation.id)

    def _account(self, effect: AccountSeen) -> None:
        state = self._own.get(effect.account_id)
        if effect.online is None or effect.online == state.online:
            return
        state.online, state.note = effect.online, effect.note
        if effect.online:
            logger.success(f"账号 {effect.account_id} 恢复在线")
            self._catch_up.start(effect.account_id)
        else:
            self._own.gap(effect.account_id)
            logger.error(
                f"账号 {effect.account_id} 的 QQ 已离线（{effect.note or '心跳报告离线'}）：暂停发言，请到 NapCat 重新登录"
            )
            self._jobs.start("记下账号状态", self._catch_up.save(effect.account_id))

    async def _order(self, order: Ordered) -> None:
        answer = await self._workers.commands.run(order)
        if answer:
            await self._workers.outbox.send(Address(order.conversation, order.account_id, command=True), Draft(answer))

    async def _learn(self, address: Address, failure: Failure) -> None:
        where = address.conversation
        if failure.reason == "offline" and not self._own.get(address.account_id).connected:
            logger.warning(
                f"账号 {address.account_id} 没有连接：请看 NapCat 是否在运行，「网络配置」里的 WebSocket 客户端是否启用"
            )
            return
        if failure.reason == "offline":
            self._account(AccountSeen(address.account_id, False, failure.detail))
            return
        async with self._database.transaction() as conn:
            if failure.reason == "removed":
                self._own.left(where.id, address.account_id)
                await remove(conn, where.id, address.account_id, at=datetime.now(UTC))
            else:
                await memberships.presume_muted(conn, where.id, address.account_id)
