"""A turn's row from beginning to end: queued → running → done, failed or interrupted, with a lease while it runs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol, TypeVar

from nonebot.log import logger

from agent.ports import Platform, TurnFailed, TurnRequest, TurnResult
from db import outbox, owed, turns
from db.models import ConversationId, TurnId
from db.pool import Connection, Database, DatabaseUnavailable
from db.turns import End
from plugins.chat.lanes import Afterwards
from plugins.chat.planner import Plan
from plugins.chat.workers import is_dead
from settings import Settings

LEASE_SECONDS = 30.0
RENEW_SECONDS = 8.0
RETRY_BASE_SECONDS = 20.0
RETRY_CAP_SECONDS = 600.0
OWED_LONGEST = timedelta(days=1)
"""A call that could not be answered for so long (mute, budget, a dead model) is history."""
END_ATTEMPTS = 8
STOPPED = "stopped"
T = TypeVar("T")


class TurnAgent(Protocol):
    """Thinks for one turn."""

    async def run(self, request: TurnRequest) -> TurnResult:
        """Run one turn. Raises TurnFailed."""
        ...


@dataclass(frozen=True, slots=True)
class Doors:
    """What a turn needs that only the plugin has."""

    platform: Callable[[Plan, TurnId], Platform]
    persona: Callable[[Plan], str]
    clock: Callable[[], datetime]


class Runner:
    """Runs planned turns. The agent decides; this writes the row."""

    def __init__(self, database: Database, settings: Settings, agent: TurnAgent, doors: Doors, worker: str) -> None:
        self._database = database
        self._settings = settings
        self._agent = agent
        self._doors = doors
        self.worker = worker

    async def run(self, plan: Plan, started: asyncio.Future[TurnId]) -> Afterwards:
        """Run a planned turn to its end."""
        turn_id, cancelled = await _unbroken(self._begin(plan))
        if turn_id is None:
            return "busy"
        if cancelled is not None:
            return await self._interrupted(plan, turn_id, cancelled)
        if not started.done():
            started.set_result(turn_id)
        lease = asyncio.create_task(self._keep(turn_id, asyncio.current_task()))
        try:
            result = await self._agent.run(self._request(plan, turn_id))
        except TurnFailed as error:
            logger.error(f"第 {turn_id} 轮没有完成：{error.reason}")
            return await self._failed(plan, turn_id, error.reason)
        except asyncio.CancelledError as error:
            return await self._interrupted(plan, turn_id, error)
        except Exception as error:  # noqa: BLE001 - the lane
            logger.exception(f"第 {turn_id} 轮出错（会话 {plan.conversation.id}）")
            return await self._failed(plan, turn_id, f"内部错误：{type(error).__name__}")
        finally:
            lease.cancel()
        return await self._done(plan, turn_id, result)

    async def recover(self) -> list[ConversationId]:
        """End the turns of processes that are gone, and say which conversations they were in."""
        async with self._database.transaction() as conn:
            live = await turns.running(conn)
            dead = [turn.worker for turn in live if turn.worker != self.worker and is_dead(turn.worker)]
            lost = await turns.interrupt_lost(conn, dead_workers=dead)
            await owed.settle_answered(conn, list(lost))
            await owed.expire(conn, self._doors.clock() - OWED_LONGEST)
            await turns.cancel_queued(conn, older_than=LEASE_SECONDS * 2)
            await outbox.abandon(conn, turns=["interrupted", "failed", "cancelled"])
            await outbox.settle_stored(conn)
        for turn_id, conversation_id in lost.items():
            logger.warning(f"会话 {conversation_id}：第 {turn_id} 轮因进程中断没有完成，还没回应的会重新处理")
        return list(lost.values())

    async def _begin(self, plan: Plan) -> TurnId | None:
        where = plan.conversation
        async with self._database.transaction() as conn:
            await turns.hurry(conn)
            turn_id = await turns.queue(
                conn,
                where.id,
                account_id=plan.account_id,
                trigger=plan.trigger,
                persona=self._doors.persona(plan),
                from_pos=where.watermark,
            )
            if await turns.start(conn, turn_id, worker=self.worker, lease=LEASE_SECONDS):
                return turn_id
            await turns.drop(conn, turn_id, error="另一个进程正在处理这个会话")
            return None

    def _request(self, plan: Plan, turn_id: TurnId) -> TurnRequest:
        return TurnRequest(
            turn_id=turn_id,
            conversation=plan.conversation,
            account_id=plan.account_id,
            trigger=plan.trigger,
            platform=self._doors.platform(plan, turn_id),
            bot_role=plan.bot_role,
            superusers=frozenset(self._settings.superusers),
        )

    async def _keep(self, turn_id: TurnId, turn: asyncio.Task[Afterwards] | None) -> None:
        """Renew the lease. A turn that another process took over must not go on."""
        while True:
            await asyncio.sleep(RENEW_SECONDS)
            try:
                async with self._database.connection() as conn:
                    ours = await turns.renew(conn, turn_id, worker=self.worker, lease=LEASE_SECONDS)
            except DatabaseUnavailable as error:
                logger.warning(f"第 {turn_id} 轮的租约没能续上，稍后再试：{error}")
                continue
            if not ours:
                logger.error(f"第 {turn_id} 轮已被判为中断，停止")
                if turn is not None:
                    turn.cancel()
                return

    async def _done(self, plan: Plan, turn_id: TurnId, result: TurnResult) -> Afterwards:
        where = plan.conversation.id

        async def write(conn: Connection) -> Afterwards:
            async with conn.transaction():
                end = End("done", outcome=result.outcome, shown_pos=result.shown_pos)
                if not await turns.finish(conn, turn_id, worker=self.worker, end=end):
                    return "failed"
                await turns.advance_watermark(conn, where, result.shown_pos)
                await owed.settle_shown(conn, where, turn_id=turn_id, shown_pos=result.shown_pos)
                # What made the turn and is open still was not shown: it waits, or the lane would spin.
                return "failed" if await self._postpone(conn, plan) else "done"

        return await self._end(turn_id, write)

    async def _failed(self, plan: Plan, turn_id: TurnId, reason: str) -> Afterwards:
        async def write(conn: Connection) -> Afterwards:
            async with conn.transaction():
                if await turns.finish(conn, turn_id, worker=self.worker, end=End("failed", error=reason)):
                    await owed.settle_answered(conn, [turn_id])
                    await self._postpone(conn, plan)
            return "failed"

        return await self._end(turn_id, write)

    async def _interrupted(self, plan: Plan, turn_id: TurnId, cancelled: asyncio.CancelledError) -> Afterwards:
        stopped = STOPPED in cancelled.args
        why = "有人叫停" if stopped else "程序退出"

        async def write(conn: Connection) -> Afterwards:
            async with conn.transaction():
                ours = await turns.finish(conn, turn_id, worker=self.worker, end=End("interrupted", error=why))
                await outbox.cancel_turn(conn, turn_id, detail=why)
                if ours and stopped:
                    await owed.settle_all(conn, plan.conversation.id, why="stopped")
                elif ours:
                    await owed.settle_answered(conn, [turn_id])
            return "stopped"

        return await self._end(turn_id, write)

    async def _postpone(self, conn: Connection, plan: Plan) -> int:
        now = self._doors.clock()
        return await owed.postpone(conn, plan.calls, now=now, base=RETRY_BASE_SECONDS, cap=RETRY_CAP_SECONDS)

    async def _end(self, turn_id: TurnId, write: Callable[[Connection], Awaitable[Afterwards]]) -> Afterwards:
        """Write a turn's end, waiting for a database that is away; in the end the lease decides.

        A stop that comes now is too late: an end that was decided is written.
        """
        try:
            return (await _unbroken(self._database.run(write, attempts=END_ATTEMPTS)))[0]
        except DatabaseUnavailable as error:
            logger.error(f"第 {turn_id} 轮的结果没能写入数据库，租约到期后会算作中断：{error}")
            return "failed"


async def _unbroken(work: Coroutine[object, object, T]) -> tuple[T, asyncio.CancelledError | None]:
    """Do work to its end, whoever cancels meanwhile; returns its result and the latest cancellation."""
    task = asyncio.create_task(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError as error:
            if task.done():
                break
            cancelled = error
    return task.result(), cancelled
