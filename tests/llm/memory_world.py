"""A memory service over a real database, a scripted judge behind a real socket, and vectors that tests choose."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TypeVar

from pydantic import BaseModel

from db.memory_models import MemoryKind, Subject
from db.models import JsonObject, TurnId
from llm.embedding.types import TextKind, Values, unit
from llm.memory.merge import StructuredModels
from llm.memory.save import Saved, SaveRequest
from llm.memory.service import MemoryService
from llm.types import CallContext, ModelRole, Prompt
from tests.db.memory_world import ABOUT_MING, MemoryWorld
from tests.llm.conftest import Opener
from tests.llm.embedding_world import ToyBackend, opened
from tests.llm.fake_service import Answer, FakeService, says, text_at

T = TypeVar("T", bound=BaseModel)


class Chosen(ToyBackend):
    """A backend that gives each text the direction that the test chose, and any other a direction of its own."""

    def __init__(self, directions: Mapping[str, Sequence[float]]) -> None:
        super().__init__()
        self.directions = dict(directions)
        self._others: dict[str, int] = {}

    async def embed(self, kind: TextKind, texts: Sequence[str]) -> list[Values | None]:
        await super().embed(kind, texts)
        return [unit([*self.directions.get(text, (0.0,) * 4), *self._other(text)]) for text in texts]

    def _other(self, text: str) -> list[float]:
        own = [0.0] * (self.identity.dim - 4)
        if text not in self.directions:
            own[self._others.setdefault(text, len(self._others)) % len(own)] = 1.0
        return own


@dataclass(slots=True)
class Meanwhile:
    """The real models, and what happens while they think: ``before`` runs before each question is asked."""

    models: StructuredModels
    before: Callable[[int], Awaitable[None]] | None = None
    asked: int = 0

    async def structured(
        self, task: str, schema: type[T], prompt: Sequence[Prompt], *, role: ModelRole = "learner", context: CallContext
    ) -> T:
        """Ask the real models."""
        self.asked += 1
        if self.before is not None:
            await self.before(self.asked)
        return await self.models.structured(task, schema, prompt, role=role, context=context)


@dataclass(slots=True)
class Saving:
    """What is under test, and its edges. ``written`` counts calls after new rows."""

    world: MemoryWorld
    service: FakeService
    memory: MemoryService
    models: Meanwhile
    backend: ToyBackend
    written: list[None] = field(default_factory=list[None])

    async def save(
        self,
        content: str,
        *labels: int,
        about: Subject = ABOUT_MING,
        kind: MemoryKind = "fact",
        shown: Sequence[int] | None = None,
        daily_limit: int | None = None,
    ) -> Saved:
        """Save a claim; without ``shown``, its evidence was shown. With a limit, as a turn does."""
        request = SaveRequest(
            self.world.conversation, about, kind, content, labels, frozenset(labels if shown is None else shown), "agent"
        )
        turn = None if daily_limit is None else TurnId(1)
        return await self.memory.save(request, CallContext("memory_merge", self.world.conversation, turn, daily_limit))

    def questions(self) -> list[str]:
        """What the judge was asked."""
        return [text_at(body, "messages", 1, "content") for body in self.service.requests]


@asynccontextmanager
async def saving(
    world: MemoryWorld, open_models: Opener, *answers: Answer, backend: ToyBackend | None = None
) -> AsyncGenerator[Saving]:
    """Open everything. Without a backend there are no vectors."""
    used = backend or ToyBackend()
    async with FakeService(*answers) as service, open_models(service) as real, opened(world.database, used) as embeddings:
        if backend is None:
            await embeddings.aclose()
        models = Meanwhile(real)
        written: list[None] = []
        memory = MemoryService(world.database, models, embeddings, written=lambda: written.append(None))
        yield Saving(world, service, memory, models, used, written)


def verdict(relation: str, which: int, text: str = "") -> JsonObject:
    """A judge's answer on the wire."""
    return says(json.dumps({"relation": relation, "which": which, "text": text}, ensure_ascii=False))
