"""Asking the model: the prompt made to fit, the request recorded, one shorter try when it was too long."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from langchain_core.messages import AIMessage, BaseMessage

from agent.prompt.assemble import MESSAGE_TOKENS, Prompt, assemble, turn_blocks
from agent.prompt.ladder import FIRST_SHARE, SECOND_SHARE
from agent.recorder import TurnRecorder
from agent.snapshot import Snapshot
from agent.tools.declaration import Ledger
from agent.tools.registry import Toolbox
from db.memory_models import MemoryId
from db.models import JsonObject
from llm.errors import ContextTooLong
from llm.tokens import estimate
from llm.types import CallContext, ModelRole, Reply

ANSWER_TOKENS = 1000
"""Room left for the answer."""


class ChatModels(Protocol):
    """The part of the models that a turn needs."""

    def route(self, text: str) -> ModelRole:
        """Choose the role for a turn."""
        ...

    def window(self, role: ModelRole) -> int:
        """The context window of a role's model, in tokens."""
        ...

    async def chat(
        self, messages: Sequence[BaseMessage], *, role: ModelRole, tools: Sequence[JsonObject] = (), context: CallContext
    ) -> Reply:
        """Ask once. Raises ModelError."""
        ...


@dataclass(slots=True)
class Progress:
    """How far the model has been shown the conversation by calls that it answered."""

    shown_pos: int | None = None


class Asker:
    """Asks the model for one turn. The prompt stays the same over the turn's calls; only the exchange grows."""

    def __init__(self, models: ChatModels, snapshot: Snapshot, toolbox: Toolbox, context: CallContext) -> None:
        self._models = models
        self._snapshot = snapshot
        self._toolbox = toolbox
        self._context = context
        self._role: ModelRole = models.route(routing_text(snapshot))
        self._rung = 0
        self._calls = 0
        self._prompt: Prompt | None = None
        self._remembered: set[MemoryId] = set()
        self.progress = Progress()

    async def ask(self, exchange: Sequence[BaseMessage], *, ledger: Ledger, recorder: TurnRecorder) -> AIMessage:
        """Make one model call. Raises ModelError, ContextTooLong when the shorter try was too long as well."""
        said = exchange_text(exchange)
        prompt = self._fit(FIRST_SHARE, said, len(exchange))
        try:
            return await self._call(prompt, exchange, ledger, recorder)
        except ContextTooLong:
            self._rung = prompt.rung + 1
            self._prompt = None
            shorter = self._fit(SECOND_SHARE, said, len(exchange))
            if shorter.rung == prompt.rung:
                raise
            return await self._call(shorter, exchange, ledger, recorder)

    def _fit(self, share: float, said: str, messages: int) -> Prompt:
        fixed = estimate(self._toolbox.declared_text) + estimate(said) + MESSAGE_TOKENS * messages + ANSWER_TOKENS
        limit = int(self._models.window(self._role) * share) - fixed
        if self._prompt is None or self._prompt.tokens > limit:
            self._prompt = assemble(self._snapshot, limit, from_rung=self._rung)
        return self._prompt

    async def _call(self, prompt: Prompt, exchange: Sequence[BaseMessage], ledger: Ledger, recorder: TurnRecorder) -> AIMessage:
        self._calls += 1
        recorder.blocks(turn_blocks(prompt, self._calls, tools=self._toolbox.declared_text, exchange=exchange_text(exchange)))
        ledger.shown |= prompt.shown
        ledger.oldest = prompt.oldest
        ledger.memories.update(prompt.memories)
        with recorder.step("model", self._role) as step:
            reply = await self._models.chat(
                (*prompt.messages, *exchange), role=self._role, tools=self._toolbox.declarations, context=self._context
            )
            step.arguments = {
                "model": reply.model,
                "prompt_tokens": reply.usage.prompt_tokens,
                "completion_tokens": reply.usage.completion_tokens,
                "cached_tokens": reply.usage.cached_tokens,
            }
            step.result, step.ok = told(reply.message), True
        self.progress.shown_pos = ledger.shown_pos
        if fresh := [memory for memory in prompt.memories if memory not in self._remembered]:
            self._remembered.update(fresh)
            recorder.memories(fresh)
        return reply.message


def routing_text(snapshot: Snapshot) -> str:
    """What the turn is about: the newest owed message, else the newest that is not the bot's."""
    owed = set(snapshot.owed)
    others = [line for line in snapshot.lines if not line.is_self]
    called = [line for line in others if line.pos in owed]
    newest = max(called or others, key=lambda line: line.pos, default=None)
    return "" if newest is None else newest.body


def exchange_text(messages: Sequence[BaseMessage]) -> str:
    """The exchange as text, for estimates."""
    return "\n".join(told(message) if isinstance(message, AIMessage) else message.text for message in messages)


def told(message: AIMessage) -> str:
    """What a reply says and calls, as text."""
    calls = [f"{call['name']}({json.dumps(call['args'], ensure_ascii=False)})" for call in message.tool_calls]
    calls += [f"{bad['name']}({bad['args']})" for bad in message.invalid_tool_calls]
    return "\n".join([*([message.text] if message.text else []), *calls])
