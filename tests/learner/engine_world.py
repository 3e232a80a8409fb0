"""A learner with scripted tasks over real groups: what a task finds is one row in ``happenings`` for each batch."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from db.learned_models import LearnTask
from db.models import ConversationId
from db.pool import Connection, Database
from learner.service import Crew, Learner
from learner.task import Batch, Mender, Task
from llm.types import CallContext
from settings import Settings
from tests.db.memory_world import MemoryWorld

NOW = datetime(2026, 11, 25, 20, tzinfo=UTC)
GROUPS = (5700000001, 5700000002, 5700000003)


@dataclass(frozen=True, slots=True)
class Note:
    """What a scripted task found: which labels it was asked about."""

    conversation: ConversationId
    task: LearnTask
    labels: tuple[int, ...]
    refuse: Exception | None = None

    async def store(self, conn: Connection) -> Mapping[str, int]:
        """Write it down, then fail where the script says so: the transaction takes the row back."""
        await conn.execute(
            """
            INSERT INTO happenings (conversation_id, kind, detail, happened_at)
            VALUES (%(conversation)s, %(task)s, %(labels)s, now())
            """,
            {"conversation": self.conversation, "task": self.task, "labels": " ".join(map(str, self.labels))},
        )
        if self.refuse is not None:
            raise self.refuse
        return {self.task: len(self.labels)}


@dataclass(slots=True)
class Scripted:
    """A task that finds all sources, unless its script objects. ``asked``: what each call was shown of what was said."""

    name: LearnTask = "topics"
    size: int = 50
    after: LearnTask | None = None
    needs_model: bool = True
    objects: Callable[[Sequence[str]], Exception | None] = lambda _: None
    refuses: list[Exception] = field(default_factory=list[Exception])
    asked: list[list[str]] = field(default_factory=list[list[str]])
    batches: list[Batch] = field(default_factory=list[Batch])
    gate: asyncio.Event | None = None
    entered: asyncio.Event = field(default_factory=asyncio.Event)

    async def infer(self, batch: Batch, call: CallContext) -> Note:
        """Find everything, or object."""
        assert (call.conversation_id, call.turn_id) == (batch.conversation.id, None)
        shown = [line.body for line in batch.lines]
        self.asked.append(shown)
        self.batches.append(batch)
        self.entered.set()
        if self.gate is not None:
            await self.gate.wait()
        error = self.objects(shown)
        if error is not None:
            raise error
        refuse = self.refuses.pop(0) if self.refuses else None
        return Note(batch.conversation.id, self.name, tuple(sorted(batch.sources)), refuse)


@dataclass(slots=True)
class Tokens:
    """The models' service as far as budgets go."""

    is_demo: bool = False
    left: dict[ConversationId, int] = field(default_factory=dict[ConversationId, int])

    async def learner_left(self, conversation_id: ConversationId) -> int:
        """Tokens that may still be used; plenty where nothing is said."""
        return self.left.get(conversation_id, 1000)

    async def usage_written(self) -> bool:
        """Nothing waits."""
        return True


@dataclass(slots=True)
class Clock:
    """A clock that a test turns."""

    now: datetime = NOW

    def __call__(self) -> datetime:
        """Tell the time."""
        return self.now


@dataclass(slots=True)
class Learning:
    """Groups and a learner over them."""

    database: Database
    worlds: list[MemoryWorld]
    clock: Clock = field(default_factory=Clock)
    tokens: Tokens = field(default_factory=Tokens)
    commits: int = 0
    mender: Mender | None = None

    @classmethod
    async def create(cls, database: Database, groups: int = 1) -> Learning:
        """Make groups that are enabled by the settings."""
        return cls(database, [await MemoryWorld.create(database, number) for number in GROUPS[:groups]])

    @property
    def world(self) -> MemoryWorld:
        """The first group."""
        return self.worlds[0]

    def learner(self, *tasks: Task, **settings: object) -> Learner:
        """A learner with these tasks."""

        def committed() -> None:
            self.commits += 1

        chosen = Settings.model_validate({"enabled_groups": GROUPS, **settings})
        return Learner(self.database, self.tokens, Crew(tasks, self.mender, committed), chosen, clock=self.clock)

    async def chat(self, count: int, world: MemoryWorld | None = None, **texts: str) -> None:
        """Say so many things; ``p3="…"`` says what the third of them is."""
        for number in range(1, count + 1):
            await (world or self.world).say(texts.get(f"p{number}", f"第{number}句"))

    async def found(self, world: MemoryWorld | None = None) -> list[tuple[str, list[int]]]:
        """What was stored: task and labels, in order."""
        rows = await (world or self.world).rows("SELECT kind, detail FROM happenings WHERE conversation_id = %(c)s ORDER BY id")
        return [(str(row[0]), [int(label) for label in str(row[1]).split()]) for row in rows]

    async def cursor(self, task: LearnTask = "topics", world: MemoryWorld | None = None) -> tuple[int, int, str | None]:
        """Position, failures in a row, last error."""
        rows = await (world or self.world).rows(
            "SELECT pos, failures, last_error FROM learner_cursors WHERE conversation_id = %(c)s AND task = %(task)s", task=task
        )
        return (rows[0][0], rows[0][1], rows[0][2]) if rows else (0, 0, None)

    async def skipped(self) -> list[int]:
        """The positions of messages that are left out."""
        rows = await self.world.rows("SELECT m.pos FROM learner_skipped s JOIN messages m ON m.id = s.message ORDER BY m.pos")
        return [row[0] for row in rows]
