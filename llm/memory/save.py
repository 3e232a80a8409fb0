"""The records of saving a memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from db.memory_models import Memory, MemoryKind, MemorySource, Subject
from db.models import ConversationId, TurnId

How = Literal["new", "same", "refines", "supersedes", "contradicts", "refused"]


@dataclass(frozen=True, slots=True)
class SaveRequest:
    """A claim that a model wants to keep. ``labels`` name its evidence; ``shown`` are the labels that its run was shown."""

    conversation_id: ConversationId
    subject: Subject
    kind: MemoryKind
    content: str
    labels: tuple[int, ...]
    shown: frozenset[int]
    source: MemorySource
    turn_id: TurnId | None = None


@dataclass(frozen=True, slots=True)
class Saved:
    """What became of it. ``reason`` says why it was refused, in Chinese; ``memory`` is then None."""

    memory: Memory | None
    how: How
    reason: str = ""


class Refused(Exception):
    """The claim cannot be kept; the text says why, in Chinese."""
