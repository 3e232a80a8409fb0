"""Lines out of a stream of bytes: bounded, numbered, whatever the pieces are."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator
from dataclasses import dataclass

BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class Line:
    """A line without its end. ``number`` counts from 1, empty lines included; ``raw`` None: it was too long to keep."""

    number: int
    raw: bytes | None


async def split_lines(pieces: AsyncIterable[bytes], *, longest: int) -> AsyncIterator[Line]:
    """Give the lines that hold more than spaces. A line over ``longest`` bytes is skipped and told, never kept."""
    kept, number, dropping = bytearray(), 1, False
    async for piece in pieces:
        *ended, rest = piece.split(b"\n")
        for part in ended:
            line = _line(number, kept + part, longest, dropped=dropping)
            kept.clear()
            number, dropping = number + 1, False
            if line is not None:
                yield line
        if not dropping:
            kept += rest
            dropping = len(kept) > longest + len(BOM) + 1
        if dropping:
            kept.clear()
    line = _line(number, kept, longest, dropped=dropping)
    if line is not None:
        yield line


def _line(number: int, kept: bytearray, longest: int, *, dropped: bool) -> Line | None:
    text = bytes(kept.removeprefix(BOM) if number == 1 else kept).strip()
    if dropped or len(text) > longest:
        return Line(number, None)
    return Line(number, text) if text else None
