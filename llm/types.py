"""The records of model calls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from langchain_core.messages import AIMessage, BaseMessage

from db.models import ConversationId, JsonObject, TurnId

ModelRole = Literal["chat", "fast", "code", "vision", "learner"]
StructuredMode = Literal["json_schema", "json_object", "tool"]


@dataclass(frozen=True, slots=True)
class CallContext:
    """What a call is for. ``daily_limit`` None means: as GROUP_DAILY_CALLS says. No conversation: no budget.

    A call of the role ``learner`` without a turn draws on LEARNER_DAILY_TOKENS instead.
    """

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


@dataclass(frozen=True, slots=True)
class Params:
    """How to call a model. None means: not sent, so the service decides.

    ``tools`` are OpenAI function tools; ``forced_tool`` names the one that must be called; ``thinking`` switches
    reasoning on or off where the service has such a switch.
    """

    role: ModelRole = "chat"
    temperature: float | None = None
    thinking: bool | None = None
    tools: tuple[JsonObject, ...] = ()
    forced_tool: str | None = None
    parallel_tool_calls: bool | None = None
    response_format: JsonObject | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """What one model answered: the message without reasoning text, and the tokens."""

    message: AIMessage
    usage: Usage


class Backend(Protocol):
    """Where answers come from: a model service, or the demo model."""

    async def ask(self, model: str, messages: Sequence[BaseMessage], params: Params, *, within: float) -> Answer:
        """Ask a model, retrying for at most ``within`` seconds. Raises ModelError."""
        ...

    def refused_format(self, model: str) -> bool:
        """Tell whether the model's service refused a response format before."""
        ...

    async def reach(self) -> Probe:
        """Find out cheaply whether the service answers; never raises for a service that does not."""
        ...

    async def aclose(self) -> None:
        """Let go of connections."""
        ...
