"""History in fixed chunks: a chunk's bytes stay the same from turn to turn, so that the prefix survives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from zoneinfo import ZoneInfo

from db.history import Line
from llm.lines import WEEKDAYS, clock, day_clock, render_line


@dataclass(frozen=True, slots=True)
class Chunk:
    """The visible messages with positions ``number·size <= pos < (number+1)·size``, in reading order."""

    number: int
    size: int
    lines: tuple[Line, ...]

    @property
    def start(self) -> int:
        """The lowest position that belongs to the chunk."""
        return self.number * self.size


def reading_order(lines: Sequence[Line]) -> list[Line]:
    """Order by QQ's sequence, then time, then arrival.

    A message without a sequence stands after all that had arrived before it, so that later ones do not move it.
    """
    seen = 0
    keyed: list[tuple[tuple[int, bool, float, int], Line]] = []
    for line in sorted(lines, key=lambda item: item.pos):
        unnumbered = line.real_seq is None
        place = seen if line.real_seq is None else line.real_seq
        seen = max(seen, place)
        keyed.append(((place, unnumbered, line.sent_at.timestamp(), line.pos), line))
    return [line for _, line in sorted(keyed, key=lambda item: item[0])]


def split_chunks(lines: Sequence[Line], size: int) -> list[Chunk]:
    """Divide visible messages into chunks by position, oldest chunk first; empty chunks are left out."""
    by_number: dict[int, list[Line]] = {}
    for line in lines:
        by_number.setdefault(line.pos // size, []).append(line)
    return [Chunk(number, size, tuple(reading_order(by_number[number]))) for number in sorted(by_number)]


def render_chunk(chunk: Chunk, zone: ZoneInfo) -> str:
    """Render a chunk: its first line carries the date, a heading stands where the local day changes."""
    out: list[str] = []
    day = None
    for line in chunk.lines:
        local = line.sent_at.astimezone(zone)
        if day is None:
            moment = day_clock(line.sent_at, zone)
        else:
            moment = clock(line.sent_at, zone)
            if local.date() != day:
                out.append(f"—— {local:%m-%d} 周{WEEKDAYS[local.weekday()]} ——")
        day = local.date()
        out.append(render_line(line, moment, chunk_start=chunk.start))
    return "\n".join(out)
