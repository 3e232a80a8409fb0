"""Counting sequences of units: how often, by whom, on which days, between which neighbours. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from learner.mining.common import is_ordinary
from learner.mining.text import Runs, is_han

LEAST = 3
"""Messages in which a term stands at least."""
LEAST_SPEAKERS = 2
MOST_UNITS = 6
MOST_LETTERS = 6
EDGE = ""
"""The neighbour at the edge of a run."""


@dataclass(slots=True)
class Seen:
    """How one sequence of units is used. Neighbours count by unit.

    ``messages`` are row ids in order; ``alone``: uses as a whole run.
    """

    units: tuple[str, ...]
    uses: int = 0
    alone: int = 0
    speakers: Counter[int] = field(default_factory=Counter[int])
    days: Counter[int] = field(default_factory=Counter[int])
    left: Counter[str] = field(default_factory=Counter[str])
    right: Counter[str] = field(default_factory=Counter[str])
    messages: list[int] = field(default_factory=list[int])


@dataclass(frozen=True, slots=True)
class Table:
    """All that was counted. ``total``: units; ``days``: from the first to the last.

    ``counts`` holds every sequence that came often enough, and every unit.
    """

    total: int
    messages: int
    days: int
    counts: Mapping[str, int]
    seen: Mapping[str, Seen]


def fits(units: Sequence[str]) -> bool:
    """Tell whether a sequence is short enough for a term."""
    return sum(len(unit) if is_han(unit) else 1 for unit in units) <= MOST_LETTERS


def sequences(messages: Sequence[Runs], least: int) -> dict[str, int]:
    """Count sequences of up to MOST_UNITS units that come ``least`` times, and all units.

    A longer one is only looked at where its beginning and its end come so often themselves.
    """
    counts: Counter[str] = Counter(unit for item in messages for run in item.runs for unit in run)
    frequent = {unit for unit, times in counts.items() if times >= least}
    for size in range(2, MOST_UNITS + 1):
        level: Counter[str] = Counter()
        for item in messages:
            for run in item.runs:
                for start in range(len(run) - size + 1):
                    end = start + size
                    if "".join(run[start : end - 1]) in frequent and "".join(run[start + 1 : end]) in frequent:
                        level["".join(run[start:end])] += 1
        frequent = {text for text, times in level.items() if times >= least}
        if not frequent:
            break
        for text in frequent:
            counts[text] = max(counts[text], level[text])
    return counts


def count(messages: Sequence[Runs]) -> Table:
    """Count what comes in at least LEAST messages, and look closer at it."""
    counts = sequences(messages, LEAST)
    seen: dict[str, Seen] = {}
    for item in messages:
        here: set[str] = set()
        for text, units, left, right in _places(item.runs, counts):
            found = seen.get(text)
            if found is None:
                found = seen[text] = Seen(units)
            found.left[left] += 1
            found.right[right] += 1
            if text not in here:
                here.add(text)
                found.uses += 1
                found.alone += left == EDGE == right
                found.speakers[item.said.speaker] += 1
                found.days[item.said.day] += 1
                found.messages.append(item.said.message)
    often = {text: found for text, found in seen.items() if found.uses >= LEAST and len(found.speakers) >= LEAST_SPEAKERS}
    days = [item.said.day for item in messages]
    total = sum(len(run) for item in messages for run in item.runs)
    return Table(total, len(messages), max(days) - min(days) + 1 if days else 0, counts, often)


def _places(runs: Sequence[tuple[str, ...]], counts: Mapping[str, int]) -> Iterator[tuple[str, tuple[str, ...], str, str]]:
    """Give every frequent sequence with its neighbours. Single letters and common words are none."""
    for run in runs:
        for start in range(len(run)):
            for end in range(start + 1, min(start + MOST_UNITS, len(run)) + 1):
                units = run[start:end]
                text = "".join(units)
                if counts.get(text, 0) < LEAST or not fits(units):
                    break
                if len(text) > 1 and not (len(units) == 1 and is_ordinary(text)):
                    yield text, units, run[start - 1] if start else EDGE, run[end] if end < len(run) else EDGE
