"""The trim ladder: what a call leaves out, step by step, when the prompt is too long. Oldest history goes first."""

from __future__ import annotations

from collections.abc import Iterator

from agent.prompt.block import Trim, View
from agent.prompt.history import Chunk
from agent.snapshot import Snapshot

FIRST_SHARE = 0.8
"""Share of the model's window that a prompt may fill."""
SECOND_SHARE = 0.5
"""The same after the service called the prompt too long."""
FEWEST_LINES = 3


def rungs(snapshot: Snapshot) -> Iterator[Trim]:
    """Yield ever harder trims: whole chunks oldest first, optional blocks, then halves of the last chunk.

    Persona, rules and what is owed are on no rung.
    """
    last = len(snapshot.chunks) - 1
    yield Trim()
    for dropped in range(1, last + 1):
        yield Trim(chunks_dropped=dropped)
    optional = frozenset(
        {"note", "mood", "liking", "memories", "people", "agreement", "topics", "slang", "expressions", "profiles"}
    )
    yield Trim(chunks_dropped=max(0, last), without=optional)
    lines = len(snapshot.chunks[-1].lines) if snapshot.chunks else 0
    while lines > FEWEST_LINES:
        lines = max(FEWEST_LINES, lines // 2)
        yield Trim(chunks_dropped=max(0, last), newest_lines=lines, without=optional)


def apply(snapshot: Snapshot, trim: Trim) -> View:
    """Show a snapshot through a trim."""
    chunks = list(snapshot.chunks[trim.chunks_dropped :])
    if trim.newest_lines is not None and chunks:
        last = chunks[-1]
        newest = sorted(last.lines, key=lambda line: line.pos)[-trim.newest_lines :]
        kept = frozenset(line.pos for line in newest)
        chunks[-1] = Chunk(last.number, last.size, tuple(line for line in last.lines if line.pos in kept))
    return View(snapshot, trim, tuple(chunks))
