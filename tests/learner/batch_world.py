"""Batches over a real database, a scripted model service behind a real socket, and what happens while it thinks."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TypeVar

from pydantic import BaseModel

from db import conversations
from db.history import lines_at
from db.learned_models import LearnTask
from db.models import Json, JsonObject, MessageRow
from learner.task import Batch, Findings, Task
from llm.memory.merge import StructuredModels
from llm.types import CallContext, ModelRole, Prompt
from tests.db.memory_world import ROBOT, MemoryWorld
from tests.llm.conftest import Opener
from tests.llm.fake_service import Answer, FakeService, dig, says, text_at

T = TypeVar("T", bound=BaseModel)


def answers(**fields: Json) -> JsonObject:
    """A structured answer on the wire."""
    return says(json.dumps(fields, ensure_ascii=False))


@dataclass(slots=True)
class Asking:
    """The real models over a service that answers each task from its own list, the last answer for ever.

    ``meanwhile`` runs before each question is asked.
    """

    service: FakeService
    models: StructuredModels
    scripts: dict[str, list[Answer]] = field(default_factory=dict[str, list[Answer]])
    meanwhile: Callable[[str], Awaitable[None]] | None = None

    def script(self, task: str, *given: Answer) -> None:
        """Say what a task is answered."""
        self.scripts[task] = list(given)

    def brain(self, body: JsonObject) -> Answer:
        """Find the answer by the schema's name."""
        left = self.scripts[text_at(body, "response_format", "json_schema", "name")]
        return left.pop(0) if len(left) > 1 else left[0]

    def asked(self, task: str) -> list[str]:
        """The user texts of a task's questions."""
        return [
            text_at(body, "messages", 1, "content")
            for body in self.service.requests
            if dig(body, "response_format", "json_schema", "name") == task
        ]

    async def structured(
        self, task: str, schema: type[T], prompt: Sequence[Prompt], *, role: ModelRole = "learner", context: CallContext
    ) -> T:
        """Ask the real models."""
        if self.meanwhile is not None:
            await self.meanwhile(task)
        return await self.models.structured(task, schema, prompt, role=role, context=context)


@asynccontextmanager
async def asking(open_models: Opener) -> AsyncGenerator[Asking]:
    """Open a service and models over it."""
    async with FakeService() as service, open_models(service) as real:
        made = Asking(service, real)
        service.brain = made.brain
        yield made


async def batch_of(world: MemoryWorld, task: LearnTask, first: int, last: int, *, context: int = 0) -> Batch:
    """The messages of some positions; so many of the first are only context."""
    positions = list(range(first, last + 1))
    async with world.database.connection() as conn:
        [place] = await conversations.some(conn, [world.conversation])
        lines = await lines_at(conn, world.conversation, positions)
    rows: Mapping[int, MessageRow] = {line.pos: await world.row(line.pos) for line in lines}
    fresh = frozenset(line.pos for line in lines if line.pos >= first + context)
    people = frozenset(line.pos for line in lines if line.pos in fresh and not line.is_self and line.sender_id != ROBOT)
    return Batch(place, task, tuple(lines), fresh, people, rows, first + context - 1, last)


async def infer(task: Task, world: MemoryWorld, batch: Batch) -> Findings:
    """What a task finds in a batch."""
    return await task.infer(batch, CallContext(task.name, world.conversation))


async def store(world: MemoryWorld, findings: Findings) -> dict[str, int]:
    """Write findings in a transaction, as the engine does."""
    async with world.database.transaction() as conn:
        return dict(await findings.store(conn))
