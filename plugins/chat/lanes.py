"""One turn at a time in each conversation, many conversations at once; the lane alone ends a turn."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from typing import Literal, Protocol

from nonebot.log import logger

from db.models import ConversationId, TurnId
from db.pool import DatabaseUnavailable
from plugins.chat.debounce import Debounce
from plugins.chat.planner import NoTurn, Plan, Planner

AGAIN_SECONDS = 2.0

Afterwards = Literal["done", "failed", "stopped", "busy"]


class TurnRunner(Protocol):
    """Runs one planned turn to its end."""

    async def run(self, plan: Plan, started: asyncio.Future[TurnId]) -> Afterwards:
        """Run it; ``started`` gets the turn's id as soon as its row is running. Never raises but CancelledError."""
        ...


@dataclass(slots=True)
class _Lane:
    conversation_id: ConversationId
    debounce: Debounce
    wake: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[None] | None = None
    turn: asyncio.Task[Afterwards] | None = None
    turn_id: TurnId | None = None
    at_once: bool = False
    poked: bool = False
    waiting: bool = False
    busy: bool = False
    """Another process has the turn: look again, without a place meanwhile."""


class Lanes:
    """All lanes of this process. ``limit`` turns run at once."""

    def __init__(self, planner: Planner, runner: TurnRunner, *, quiet: float, longest: float, limit: int) -> None:
        self._planner = planner
        self._runner = runner
        self._quiet = quiet
        self._longest = longest
        self._limit = limit
        self._places = asyncio.Semaphore(limit)
        self._lanes: dict[ConversationId, _Lane] = {}
        self._open = True

    @property
    def running(self) -> int:
        """How many turns run now."""
        return sum(lane.turn is not None for lane in self._lanes.values())

    @property
    def waiting(self) -> int:
        """How many lanes wait for a place to run."""
        return sum(lane.waiting for lane in self._lanes.values())

    @property
    def limit(self) -> int:
        """How many turns may run at once."""
        return self._limit

    def heard(self, conversation_id: ConversationId, *, poked: bool = False) -> None:
        """Something was said: look at the conversation when the quiet window closes."""
        lane = self._lane(conversation_id)
        lane.debounce.touch(time.monotonic())
        lane.poked = lane.poked or poked
        self._go(lane)

    def look(self, conversation_id: ConversationId) -> None:
        """Look at the conversation now, unless it is being looked at or its window is open."""
        lane = self._lane(conversation_id)
        if lane.turn is None and not lane.waiting and lane.debounce.first is None:
            lane.at_once = True
            self._go(lane)

    async def interrupt(self, *, conversation_id: ConversationId | None = None, turn_id: TurnId | None = None) -> bool:
        """Stop the running turn of a conversation, or the turn with this id; False when there is none here."""
        for lane in list(self._lanes.values()):
            wanted = lane.conversation_id == conversation_id if turn_id is None else lane.turn_id == turn_id
            if wanted and lane.turn is not None:
                lane.turn.cancel("stopped")
                await asyncio.wait({lane.turn})
                return True
        return False

    async def close(self) -> None:
        """Interrupt everything; what is owed stays owed."""
        self._open = False
        tasks = {lane.task for lane in self._lanes.values() if lane.task is not None}
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=10)

    def _lane(self, conversation_id: ConversationId) -> _Lane:
        lane = self._lanes.get(conversation_id)
        if lane is None:
            lane = _Lane(conversation_id, Debounce(self._quiet, self._longest))
            self._lanes[conversation_id] = lane
        return lane

    def _go(self, lane: _Lane) -> None:
        lane.wake.set()
        if lane.task is None and self._open:
            lane.task = asyncio.create_task(self._live(lane), name=f"lane-{lane.conversation_id}")

    async def _live(self, lane: _Lane) -> None:
        """Serve one conversation until it is still. The lane then goes away; its state is in the database."""
        try:
            while self._open and (lane.at_once or lane.debounce.first is not None):
                await self._window(lane)
                await self._serve(lane)
                if lane.busy:
                    lane.busy = False
                    await asyncio.sleep(AGAIN_SECONDS)
                    lane.at_once = True
        except asyncio.CancelledError:
            raise
        except DatabaseUnavailable as error:
            logger.warning(f"会话 {lane.conversation_id}：数据库连不上，稍后再看：{error}")
        except Exception:  # noqa: BLE001 - the lane
            logger.exception(f"会话 {lane.conversation_id}：处理一轮时出错")
        finally:
            lane.task = None
            self._lanes.pop(lane.conversation_id, None)

    async def _window(self, lane: _Lane) -> None:
        while not lane.at_once and (due := lane.debounce.due()) is not None:
            left = due - time.monotonic()
            if left <= 0:
                return
            lane.wake.clear()
            try:
                await asyncio.wait_for(lane.wake.wait(), left)
            except TimeoutError:
                return

    async def _serve(self, lane: _Lane) -> None:
        lane.waiting = True
        try:
            async with self._places:
                lane.waiting = False
                await self._turns(lane)
        finally:
            lane.waiting = False

    async def _turns(self, lane: _Lane) -> None:
        """Run a turn, and the next at once while something is owed."""
        while True:
            lane.at_once = False
            lane.debounce.reset()
            poked, lane.poked = lane.poked, False
            plan = await self._planner.plan(lane.conversation_id, poked=poked)
            if isinstance(plan, NoTurn):
                logger.debug(f"会话 {lane.conversation_id}：不开始一轮（{plan.why}）")
                return
            afterwards = await self._run(lane, plan)
            if afterwards == "busy":
                lane.busy = True
                return
            if afterwards != "done" or not self._open or not await self._planner.owes(lane.conversation_id):
                return

    async def _run(self, lane: _Lane, plan: Plan) -> Afterwards:
        started: asyncio.Future[TurnId] = asyncio.get_running_loop().create_future()
        started.add_done_callback(lambda done: self._started(lane, done))
        lane.turn = asyncio.create_task(self._runner.run(plan, started))
        try:
            return await lane.turn
        except asyncio.CancelledError:
            if lane.turn.done():  # the turn was stopped, not the lane
                return "stopped"
            lane.turn.cancel()
            await asyncio.wait({lane.turn})
            raise
        finally:
            started.cancel()
            lane.turn = None
            lane.turn_id = None

    @staticmethod
    def _started(lane: _Lane, done: asyncio.Future[TurnId]) -> None:
        if not done.cancelled():
            lane.turn_id = done.result()
