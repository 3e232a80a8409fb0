"""Blocks: the named parts that a prompt is made of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from agent.prompt.history import Chunk
from agent.snapshot import Snapshot
from db.models import BlockState, Stability
from llm.tokens import estimate

Place = Literal["system", "context", "history", "now"]
"""Where a block goes: the system message, user messages before the history, the history, the last user message."""


@dataclass(frozen=True, slots=True)
class Trim:
    """What one rung of the ladder leaves out; the default leaves out nothing."""

    chunks_dropped: int = 0
    newest_lines: int | None = None
    """Keep only so many of the newest lines of the last chunk."""
    without: frozenset[str] = field(default_factory=frozenset[str])


@dataclass(frozen=True, slots=True)
class View:
    """A snapshot as one model call shows it: after trimming."""

    snapshot: Snapshot
    trim: Trim
    chunks: tuple[Chunk, ...]

    @property
    def shown(self) -> frozenset[int]:
        """The labels that the history shows."""
        return frozenset(line.pos for chunk in self.chunks for line in chunk.lines)


@dataclass(frozen=True, slots=True)
class Piece:
    """One rendered text of a block. ``name`` is the block's, with the chunk's number for history."""

    name: str
    place: Place
    stability: Stability
    text: str
    tokens: int
    state: BlockState


@dataclass(frozen=True, slots=True)
class Block:
    """A part of the prompt. ``render`` gives its text, empty when it has nothing to say; ``budget`` is in tokens."""

    name: str
    order: int
    place: Place
    stability: Stability
    budget: int
    render: Callable[[View], str]

    def piece(self, view: View) -> Piece:
        """Render within the budget: what passes it is cut, and counts as trimmed."""
        text = self.render(view)
        if text and self.name in view.trim.without:
            return Piece(self.name, self.place, self.stability, "", 0, "dropped")
        tokens = estimate(text)
        if tokens <= self.budget:
            return Piece(self.name, self.place, self.stability, text, tokens, "kept")
        text = _within(text, self.budget)
        return Piece(self.name, self.place, self.stability, text, estimate(text), "trimmed")


def _within(text: str, budget: int) -> str:
    """Cut a text to at most ``budget`` tokens."""
    while (tokens := estimate(text)) > budget:
        text = text[: min(len(text) - 1, len(text) * budget // tokens)]
    return text.rstrip()
