"""The records of model calls."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from langchain_core.messages import AIMessage

from db.models import ConversationId, TurnId

ModelRole = Literal["chat", "fast", "code", "vision", "learner"]
StructuredMode = Literal["json_schema", "json_object", "tool"]


@dataclass(frozen=True, slots=True)
class CallContext:
    """What a call is for. ``daily_limit`` None means: as GROUP_DAILY_CALLS says. No conversation: no budget."""

    task: str
    conversation_id: ConversationId | None = None
    turn_id: TurnId | None = None
    daily_limit: int | None = None


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one call as the service counted them; zeros where it does not say."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Reply:
    """A model's answer, without reasoning text. ``model`` is the one that really answered.

    Broken tool arguments stay raw in ``message.invalid_tool_calls``. ``latency_ms`` includes retries.
    """

    message: AIMessage
    usage: Usage
    model: str
    role: ModelRole
    latency_ms: int


@dataclass(frozen=True, slots=True)
class Prompt:
    """One message of a structured call."""

    role: Literal["system", "user"]
    text: str


@dataclass(frozen=True, slots=True)
class Probe:
    """Whether the service answers. ``detail`` is Chinese and holds no secret."""

    ok: bool
    latency_ms: int
    detail: str
