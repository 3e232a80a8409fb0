"""The one door to the models: by role, with budgets, usage, retries and fallback behind it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from langchain_core.messages import BaseMessage
from pydantic import BaseModel

from db.models import JsonObject
from llm.types import CallContext, ModelRole, Probe, Prompt, Reply
from llm.usage import UsageBook
from settings import Settings

T = TypeVar("T", bound=BaseModel)


class Models:
    """Chat models by role. One instance a process; close it with ``aclose``."""

    @classmethod
    def from_settings(cls, settings: Settings, usage: UsageBook) -> Models:
        """Build the models that the settings name, or the demo model while none is set."""
        raise NotImplementedError

    @property
    def is_demo(self) -> bool:
        """True while the demo model answers."""
        raise NotImplementedError

    def model_name(self, role: ModelRole) -> str:
        """The model that serves a role; empty for ``vision`` when none is set."""
        raise NotImplementedError

    def window(self, role: ModelRole) -> int:
        """The context window of a role's model, in tokens."""
        raise NotImplementedError

    async def chat(
        self, messages: Sequence[BaseMessage], *, role: ModelRole, tools: Sequence[JsonObject] = (), context: CallContext
    ) -> Reply:
        """Ask a model once. ``tools`` are OpenAI function tools.

        Raises BudgetExhausted, ContextTooLong, ModelRefused, ModelUnavailable.
        """
        raise NotImplementedError

    async def structured(
        self, task: str, schema: type[T], prompt: Sequence[Prompt], *, role: ModelRole = "learner", context: CallContext
    ) -> T:
        """Ask for one instance of a schema, named after the task; one repair attempt.

        Raises StructuredFailed, and what ``chat`` raises.
        """
        raise NotImplementedError

    async def probe(self) -> Probe:
        """Tell whether the service answers; asked at most once a minute, bounded to a few seconds."""
        raise NotImplementedError

    async def aclose(self) -> None:
        """Close the connections to the service. The usage book is closed by its owner."""
        raise NotImplementedError
