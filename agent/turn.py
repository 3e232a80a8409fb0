"""One turn: a snapshot, a prompt, a conversation with the model through tools, an outcome."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from datetime import UTC, datetime

from agent.asking import Asker, ChatModels
from agent.context import TurnContext
from agent.graph import TurnGraph, build_graph, run_graph
from agent.learned import read_learned
from agent.ports import TurnFailed, TurnRequest, TurnResult
from agent.recorder import TurnRecorder
from agent.remembering import remember
from agent.snapshot import Snapshot, take_snapshot
from agent.tools.declaration import CannotSpeak, Ledger, Outcome, ToolContext
from agent.tools.registry import Toolbox, toolboxes
from db.models import Kind
from db.pool import Database, DatabaseUnavailable
from llm.errors import ContextTooLong, ModelError
from llm.memory.search import MessageSearch
from llm.memory.service import MemoryService
from llm.types import CallContext
from persona.loader import Persona, PersonaMissing, Personas
from settings import Settings

logger = logging.getLogger(__name__)

TIMEOUTS_PER_TURN = 3
"""A turn may take so many times LLM_TIMEOUT_SECONDS."""
_CALLED = frozenset({"mention", "reply", "name"})


def utc_now() -> datetime:
    """The moment, in UTC."""
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class Agent:
    """Runs turns, many at once; holds nothing that a turn leaves behind."""

    database: Database
    models: ChatModels
    settings: Settings
    personas: Personas
    _: KW_ONLY
    memory: MemoryService
    search: MessageSearch
    clock: Callable[[], datetime] = utc_now
    graph: TurnGraph = field(init=False, default_factory=build_graph)
    toolboxes: Mapping[Kind, Toolbox] = field(init=False, default_factory=toolboxes)

    async def run(self, request: TurnRequest) -> TurnResult:
        """Run one turn. Raises TurnFailed when nothing was decided, and CancelledError when it is interrupted.

        The record of blocks and steps is written meanwhile; the turn's row and the watermark are the lane's.
        """
        snapshot = await self._snapshot(request)
        if (settled := nothing_to_do(snapshot)) is not None:
            return TurnResult("nothing_new", settled)
        remembered, learned = await asyncio.gather(
            remember(self.memory, self.database, snapshot),
            read_learned(self.database, snapshot, sensitive=self.settings.profile_sensitive),
        )
        snapshot = replace(remembered, learned=learned)
        async with TurnRecorder(self.database, request.turn_id, self.clock) as recorder:
            return await self._run(snapshot, recorder)

    async def _snapshot(self, request: TurnRequest) -> Snapshot:
        persona = self._persona(request.conversation.persona)
        try:
            return await take_snapshot(self.database, self.settings, request, persona, self.clock())
        except DatabaseUnavailable as error:
            raise TurnFailed("数据库暂时不可用，读不到聊天记录") from error
        except LookupError as error:
            raise TurnFailed(str(error)) from error

    def _persona(self, chosen: str | None) -> Persona:
        try:
            return self.personas.get(chosen or self.settings.persona)
        except PersonaMissing as missing:
            if chosen is None or chosen == self.settings.persona:
                raise TurnFailed(str(missing)) from missing
            logger.warning("这个会话的人格用不了，改用默认人格：%s", missing)
            return self._persona(None)

    async def _run(self, snapshot: Snapshot, recorder: TurnRecorder) -> TurnResult:
        context = self._context(snapshot, recorder)
        ledger = context.tools.ledger
        progress = context.asker.progress
        outcome: Outcome = "time_limit"
        try:
            async with asyncio.timeout(TIMEOUTS_PER_TURN * self.settings.llm_timeout_seconds):
                state = await run_graph(self.graph, context)
            outcome = state["outcome"] or "no_tool_call"
        except TimeoutError as error:
            if progress.shown_pos is None:
                raise TurnFailed("模型在时限内没有回答") from error
        except (ModelError, CannotSpeak) as error:
            # What was said cannot be unsaid: a later failure must not make the same calls owed again.
            if not ledger.spoken or progress.shown_pos is None:
                raise TurnFailed(_reason(error)) from error
            logger.warning("第 %s 轮已经发过言，之后没能继续：%s", snapshot.request.turn_id, error)
            outcome = "spoke"
        if ledger.spoken and outcome in ("quiet", "no_tool_call"):
            outcome = "spoke"
        shown = snapshot.last_pos if progress.shown_pos is None else progress.shown_pos
        return TurnResult(outcome, shown, ledger.spoken)

    def _context(self, snapshot: Snapshot, recorder: TurnRecorder) -> TurnContext:
        request = snapshot.request
        conversation = request.conversation
        toolbox = self.toolboxes[conversation.kind]
        limit = self.settings.group_daily_calls if conversation.daily_calls is None else conversation.daily_calls
        call = CallContext("turn", conversation.id, request.turn_id, limit)
        return TurnContext(
            asker=Asker(self.models, snapshot, toolbox, call),
            toolbox=toolbox,
            recorder=recorder,
            tools=ToolContext(
                snapshot=snapshot,
                database=self.database,
                memory=self.memory,
                search=self.search,
                ledger=Ledger(set(), snapshot.last_pos),
                clock=self.clock,
                call=call,
                sensitive=self.settings.profile_sensitive,
            ),
            max_model_calls=self.settings.llm_max_steps,
            must_act=request.trigger == "console" or bool(snapshot.owed),
        )


def nothing_to_do(snapshot: Snapshot) -> int | None:
    """Tell up to where there is nothing to look at; None when the model must look.

    Where nobody wrote, that is the snapshot's end. A call that is no longer owed (withdrawn, settled) is no reason to
    speak: what else is unread stays unread, for the dice.
    """
    trigger = snapshot.request.trigger
    if trigger == "console" or snapshot.owed:
        return None
    if snapshot.first_unread is None:
        return snapshot.last_pos
    return snapshot.rows.watermark if trigger in _CALLED else None


def _reason(error: ModelError | CannotSpeak) -> str:
    if isinstance(error, CannotSpeak):
        return f"现在发不了消息：{error}"
    return "聊天记录太长，缩短之后模型还是装不下" if isinstance(error, ContextTooLong) else error.reason
