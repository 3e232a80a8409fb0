"""The chat plugin's parts, wired: what hears, what stores, what thinks, what speaks."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from nonebot.log import logger

from agent.turn import Agent
from db import accounts, conversations, outbox, owed
from db.models import Conversation, ConversationId, JsonObject, TurnId
from db.pool import Database, DatabaseUnavailable
from db.spool import Spool
from llm.memory.search import MessageSearch
from llm.memory.service import MemoryService
from llm.service import Models
from llm.usage import UsageBook
from persona.loader import Personas
from plugins.chat.backfill import Backfill
from plugins.chat.called import CallNames
from plugins.chat.commands import Commands, Levers
from plugins.chat.dispatch import Dispatch, Workers
from plugins.chat.effects import QuoteMissing
from plugins.chat.enrich import Enrich
from plugins.chat.inbox import Frame, Inbox
from plugins.chat.jobs import Jobs
from plugins.chat.lanes import Lanes
from plugins.chat.onebot import OneBot
from plugins.chat.outbox import Address, Outbox
from plugins.chat.own import OwnAccounts
from plugins.chat.planner import Plan, Planner
from plugins.chat.platform import ConversationPlatform
from plugins.chat.refresh import Refresh
from plugins.chat.rules import is_enabled
from plugins.chat.runner import Doors, Runner
from plugins.chat.workers import is_dead, worker_name
from plugins.chat.writer import Writer
from settings import Settings


def utc_now() -> datetime:
    """The time now."""
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class Ground:
    """What the chat stands on: opened before it, closed after it."""

    settings: Settings
    database: Database
    models: Models
    usage: UsageBook
    spool: Spool
    personas: Personas
    onebot: OneBot
    memory: MemoryService
    search: MessageSearch
    clock: Callable[[], datetime] = utc_now


class Chat:
    """Everything between the socket and the agent, for one process."""

    def __init__(self, ground: Ground) -> None:
        settings, database, clock = ground.settings, ground.database, ground.clock
        self._ground = ground
        self.own = OwnAccounts(worker_name())
        self._jobs = Jobs()
        self._refresh = Refresh(ground.onebot, database, clock)
        self.outbox = Outbox(database, ground.onebot, self.own, clock, settings.typing_chars_per_second)
        agent = Agent(database, ground.models, settings, ground.personas, memory=ground.memory, search=ground.search, clock=clock)
        self.runner = Runner(database, settings, agent, Doors(self._platform, self._persona, clock), self.own.worker)
        planner = Planner(database, settings, self.own, ground.usage.spent_today, clock)
        self.lanes = Lanes(
            planner,
            self.runner,
            quiet=settings.debounce_seconds,
            longest=settings.debounce_max_seconds,
            limit=settings.max_turns,
        )
        self._writer = Writer(database, settings, self.own, CallNames(ground.personas, settings), clock)
        self._dispatch = Dispatch(settings, database, self.own, self.lanes, self._jobs, self._workers())
        self.outbox.refused = self._dispatch.refused
        self.inbox = Inbox(self._writer, ground.spool, self._dispatch.deliver, _rejects(settings.data_dir))
        self._tasks: list[asyncio.Task[None]] = []

    def _workers(self) -> Workers:
        ground = self._ground
        levers = Levers(
            stop=self._stop,
            quit=self._quit,
            opened=self._opened,
            look=lambda where: self.lanes.look(where.id),
            running=lambda: self.lanes.running,
            spent=ground.usage.spent_today,
            clock=ground.clock,
        )
        return Workers(
            backfill=Backfill(ground.onebot, ground.database, self.own, self._late),
            refresh=self._refresh,
            enrich=Enrich(ground.onebot, ground.database, self.own, self._quote_called),
            commands=Commands(ground.database, ground.settings, levers),
            outbox=self.outbox,
        )

    async def start(self) -> None:
        """Take up what an earlier process left, and begin to store and look."""
        async with self._ground.database.connection() as conn:
            known = await accounts.everyone(conn)
            await accounts.gone(conn, [item.worker for item in known if is_dead(item.worker)])
        for account in known:
            self.own.get(account.account_id).nickname = account.nickname
        await self.runner.recover()
        self._tasks = [
            asyncio.create_task(self.inbox.run(), name="inbox"),
            asyncio.create_task(self._scan(), name="scan"),
        ]

    async def close(self) -> None:
        """Stop thinking, then storing; what is owed stays owed, what is in memory goes to disk."""
        await self.lanes.close()
        await self._jobs.close()
        await self.outbox.close()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=10)
        try:
            async with self._ground.database.connection() as conn:
                await accounts.gone(conn, [self.own.worker])
        except DatabaseUnavailable as error:
            logger.debug(f"退出时没能记下账号断开：{error}")

    def heard(self, account_id: int, payload: JsonObject, raw: str) -> None:
        """Take one event frame from the socket."""
        self.inbox.put(Frame(account_id, time.time(), payload, raw))

    @property
    def full(self) -> bool:
        """True while the inbox has no room."""
        return self.inbox.full

    async def room(self) -> None:
        """Wait until the inbox has room."""
        await self.inbox.room()

    def joined(self, account_id: int) -> None:
        """An account's first socket opened."""
        self._dispatch.joined(account_id)

    def parted(self, account_id: int) -> None:
        """An account's last socket closed."""
        self._dispatch.parted(account_id)

    async def interrupt(self, turn_id: TurnId) -> bool:
        """Stop a running turn."""
        return await self.lanes.interrupt(turn_id=turn_id)

    async def changed(self, conversation_id: ConversationId) -> None:
        """A conversation's settings changed: it may talk now, or must not any more."""
        async with self._ground.database.connection() as conn:
            where = await conversations.get(conn, conversation_id)
        if where is not None and not is_enabled(where, self._ground.settings):
            await self._quit(where)
            return
        account_id = self.own.speaker(conversation_id, None)
        if where is not None and account_id is not None:
            self._opened(where, account_id)

    async def refresh_members(self) -> None:
        """Read the member lists that were not read for hours, one after the other."""
        for conversation_id, account_id in self.own.places():
            async with self._ground.database.connection() as conn:
                where = await conversations.get(conn, conversation_id)
            if where is not None and is_enabled(where, self._ground.settings):
                await self._refresh.members(account_id, where)

    async def _stop(self, where: Conversation) -> bool:
        return await self.lanes.interrupt(conversation_id=where.id)

    async def _quit(self, where: Conversation) -> None:
        """Fall silent in a conversation that was disabled, at once and for what it owed."""
        await self.lanes.interrupt(conversation_id=where.id)
        async with self._ground.database.transaction() as conn:
            await owed.settle_all(conn, where.id, why="disabled")
            await outbox.cancel_waiting(conn, where.id, detail="已关闭")

    def _opened(self, where: Conversation, account_id: int) -> None:
        """Catch up with a conversation that was enabled, and look at what it owes."""
        self._dispatch.opened(where, account_id)
        self.lanes.look(where.id)

    def _late(self, frame: Frame) -> None:
        self.inbox.put(frame)

    def _quote_called(self, missing: QuoteMissing) -> None:
        self._dispatch.quote_called(missing)

    def _platform(self, plan: Plan, turn_id: TurnId) -> ConversationPlatform:
        ground = self._ground
        address = Address(plan.conversation, plan.account_id, turn_id)
        return ConversationPlatform(address, self.outbox, ground.onebot, ground.database, ground.clock)

    def _persona(self, plan: Plan) -> str:
        return plan.conversation.persona or self._ground.settings.persona

    async def _scan(self) -> None:
        """Every SCAN_SECONDS look for what nobody woke: due calls, ended mutes, turns of dead processes."""
        while True:
            await asyncio.sleep(self._ground.settings.scan_seconds)
            try:
                await self._look_around()
            except DatabaseUnavailable as error:
                logger.debug(f"扫描时数据库连不上：{error}")
            except Exception:  # noqa: BLE001 - a background job
                logger.exception("扫描会话时出错")

    async def _look_around(self) -> None:
        await self.runner.recover()
        async with self._ground.database.connection() as conn:
            await accounts.touch(conn, self.own.worker)
            self.own.know(await accounts.ids(conn))  # also those that other processes brought
            waiting = await conversations.waiting(conn, self._ground.clock())
        for conversation_id in waiting:
            self.lanes.look(conversation_id)


def _rejects(data_dir: Path) -> Path:
    data_dir.mkdir(parents=True, exist_ok=True)
    return data_dir / "rejected.jsonl"
