"""Puts the blocks together: from what never changes to what always does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from langchain_core.messages import BaseMessage, HumanMessage, SystemMessage

from agent.prompt import expressions, feelings, memories, profiles, slang, system, topics, volatile
from agent.prompt.block import Block, Piece, View
from agent.prompt.history import render_chunk
from agent.prompt.ladder import apply, rungs
from agent.snapshot import Snapshot
from db.memory_models import MemoryId
from db.models import TurnBlock
from llm.tokens import estimate

MESSAGE_TOKENS = 4
"""What a message costs beside its text."""
_UNBOUNDED = 1_000_000

BLOCKS: tuple[Block, ...] = (
    Block("persona", 10, "system", "static", _UNBOUNDED, system.persona),
    Block("rules", 20, "system", "static", _UNBOUNDED, system.rules),
    Block("agreement", 30, "context", "static", 2000, system.agreement),
    # 40: the history, in chunks
    Block("topics", 32, "now", "volatile", 400, topics.topics),
    Block("slang", 34, "now", "volatile", 350, slang.slang),
    Block("expressions", 36, "now", "volatile", 150, expressions.expressions),
    Block("profiles", 38, "now", "volatile", 350, profiles.profiles),
    Block("note", 42, "now", "volatile", 230, feelings.note),
    Block("liking", 44, "now", "volatile", 120, feelings.liking),
    Block("mood", 46, "now", "volatile", 40, feelings.mood),
    Block("memories", 48, "now", "volatile", memories.BUDGET, memories.memories),
    Block("time", 50, "now", "volatile", 60, volatile.time),
    Block("people", 60, "now", "volatile", 300, volatile.people),
    Block("standing", 70, "now", "volatile", 60, volatile.standing),
    Block("owed", 80, "now", "volatile", _UNBOUNDED, volatile.owed),
    Block("task", 90, "now", "volatile", 100, volatile.task),
)


@dataclass(frozen=True, slots=True)
class Prompt:
    """One request's messages, and how each block went into them. ``rung`` is the ladder's step, 0 for untrimmed."""

    messages: tuple[BaseMessage, ...]
    pieces: tuple[Piece, ...]
    tokens: int
    rung: int
    shown: frozenset[int]
    """Labels in the history or quoted as owed."""
    oldest: int
    """The lowest label in the history; the snapshot's end where it shows none."""
    memories: tuple[MemoryId, ...]
    """The memories that it holds."""


def assemble(snapshot: Snapshot, limit: int, *, from_rung: int = 0) -> Prompt:
    """Build the fullest prompt of at most ``limit`` tokens, beginning at a rung; the last rung stands as it is."""
    steps = list(rungs(snapshot))
    first = min(from_rung, len(steps) - 1)
    for number in range(first, len(steps) - 1):
        prompt = _build(apply(snapshot, steps[number]), number)
        if prompt.tokens <= limit:
            return prompt
    return _build(apply(snapshot, steps[-1]), len(steps) - 1)


def _build(view: View, rung: int) -> Prompt:
    pieces = [block.piece(view) for block in sorted(BLOCKS, key=lambda block: block.order)]
    before = [piece for piece in pieces if piece.place in ("system", "context")]
    after = [piece for piece in pieces if piece.place == "now"]
    history = _history(view)
    messages: list[BaseMessage] = [SystemMessage(_joined(before, "system", "\n\n"))]
    messages += [HumanMessage(piece.text) for piece in before if piece.place == "context" and piece.text]
    messages += [HumanMessage(piece.text) for piece in history if piece.text]
    messages.append(HumanMessage(_joined(after, "now", "\n")))
    every = (*before, *history, *after)
    tokens = sum(piece.tokens for piece in every) + MESSAGE_TOKENS * len(messages)
    oldest = min(view.shown, default=view.snapshot.last_pos + 1)
    told = any(piece.name == "memories" and piece.text for piece in after)
    ids = tuple(item.memory.id for item in memories.fitting(view.snapshot)) if told else ()
    return Prompt(tuple(messages), every, tokens, rung, view.shown | frozenset(view.snapshot.owed), oldest, ids)


def _joined(pieces: Sequence[Piece], place: str, glue: str) -> str:
    return glue.join(piece.text for piece in pieces if piece.place == place and piece.text)


def _history(view: View) -> list[Piece]:
    dropped = view.snapshot.chunks[: view.trim.chunks_dropped]
    gone = [Piece(f"history:{chunk.number}", "history", "chunk", "", 0, "dropped") for chunk in dropped]
    shown: list[Piece] = []
    for chunk in view.chunks:
        text = render_chunk(chunk, view.snapshot.zone)
        whole = view.trim.newest_lines is None or chunk is not view.chunks[-1]
        shown.append(Piece(f"history:{chunk.number}", "history", "chunk", text, estimate(text), "kept" if whole else "trimmed"))
    return [*gone, *shown]


def turn_blocks(prompt: Prompt, call_no: int, *, tools: str, exchange: str) -> list[TurnBlock]:
    """Tell how one model call was made up: the tools, the blocks that had something to say, the turn's own exchange."""
    rows = [TurnBlock(call_no, 0, "tools", "static", estimate(tools), len(tools), "kept")]
    for piece in prompt.pieces:
        if piece.text or piece.state == "dropped":
            rows.append(TurnBlock(call_no, len(rows), piece.name, piece.stability, piece.tokens, len(piece.text), piece.state))
    if exchange:
        rows.append(TurnBlock(call_no, len(rows), "exchange", "volatile", estimate(exchange), len(exchange), "kept"))
    return rows
