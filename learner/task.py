"""What the engine and its tasks agree on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from db.history import Line
from db.learned_models import LearnTask
from db.models import Conversation, MessageRow
from db.pool import Connection
from llm.types import CallContext


@dataclass(frozen=True, slots=True)
class Batch:
    """Messages of one conversation for one task, in reading order.

    ``lines`` begin with some that were learned before, for context. ``fresh`` are the labels beyond the cursor;
    ``sources`` those of them that may be evidence: said by a person who may be learned from, no command, no mere picture,
    not withdrawn, not skipped. ``upto`` is where the cursor goes when the batch is stored. ``rows`` are the row ids of the
    lines by label.
    """

    conversation: Conversation
    task: LearnTask
    lines: tuple[Line, ...]
    fresh: frozenset[int]
    sources: frozenset[int]
    rows: Mapping[int, MessageRow]
    from_pos: int
    upto: int

    @property
    def shown(self) -> frozenset[int]:
        """The labels that the model is shown."""
        return frozenset(line.pos for line in self.lines)


class Findings(Protocol):
    """What a task found in a batch, checked for form; not written yet."""

    async def store(self, conn: Connection) -> Mapping[str, int]:
        """Write it; returns counts by name (``memories``, ``slang``, …).

        Runs in the transaction that moves the cursor, so it must check evidence again: a message may have been withdrawn
        while the model thought. Raises StaleFindings when it must be found anew.
        """
        ...


class Task(Protocol):
    """One kind of learning."""

    @property
    def name(self) -> LearnTask:
        """Names the cursor."""
        ...

    @property
    def size(self) -> int:
        """Fresh messages of one batch."""
        ...

    @property
    def after(self) -> LearnTask | None:
        """The task whose cursor this one never passes."""
        ...

    @property
    def needs_model(self) -> bool:
        """Whether it waits while only the demo model is there."""
        ...

    async def infer(self, batch: Batch, call: CallContext) -> Findings:
        """Find what a batch holds, without writing. ``call`` names the conversation; no turn.

        Raises ModelError (StructuredFailed where the batch itself may be at fault) and DatabaseUnavailable.
        """
        ...


class Mender(Protocol):
    """A task with work that no new message brings about: what lost its evidence is made anew."""

    @property
    def name(self) -> LearnTask:
        """Whose failures count."""
        ...

    async def mend(self, place: Conversation, call: CallContext) -> Findings | None:
        """Find what replaces it, without writing; None: nothing waits. Raises ModelError, DatabaseUnavailable."""
        ...


class StaleFindings(Exception):
    """Another process changed what findings were built on; the batch is done again later."""
