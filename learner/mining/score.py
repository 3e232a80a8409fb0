"""How much a sequence looks like a term of this group's own. Pure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from learner.mining.common import LOOSE, expected, frequency, is_number
from learner.mining.counts import EDGE, LEAST, Seen, Table
from learner.mining.text import is_han

GAP = 3.0
"""Natural units that any two words of a sentence attract each other by."""
HABIT = 0.65
"""The share of one speaker from which a term is a habit of theirs."""
SMOOTH = 0.5
SHARED = 0.5
"""A sequence that comes here less than 1.6 times as often as in other groups is theirs too."""
TALK = 25
"""Uses from which such a sequence is taken for ordinary talk: seldom said ones may be slang that others know as well."""


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """How many messages of other groups were looked at, and how many hold which sequence. ``own`` is taken off the uses."""

    messages: int
    uses: Mapping[str, int]
    own: Mapping[str, int] = field(default_factory=dict[str, int])

    def used(self, text: str) -> int:
        """How many messages of other groups hold a sequence."""
        return self.uses.get(text, 0) - self.own.get(text, 0)


NOWHERE = Elsewhere(0, {})


class Features(NamedTuple):
    """What the score is made of, each about -3 to 12.

    In natural units: ``novelty`` over common Chinese, ``keyness`` over other groups (0 with none), ``uses``. Shares of 1:
    ``pull`` of all units on each other, ``cohesion`` of the weakest joint, ``freedom`` of the less free side,
    ``alone`` (uses as a whole run), ``spread`` over people, ``days``, ``burst``, ``odd`` units,
    ``empty`` ones. Yes or no: ``known`` to the
    dictionary, ``token`` (Latin), ``number``, ``phrase`` (of several known words),
    ``shared`` with other groups. ``loose`` ends: 0 to 2.
    """

    novelty: float
    pull: float
    cohesion: float
    keyness: float
    shared: float
    uses: float
    freedom: float
    alone: float
    spread: float
    days: float
    burst: float
    odd: float
    known: float
    token: float
    number: float
    phrase: float
    loose: float
    empty: float


def features(text: str, seen: Seen, table: Table, elsewhere: Elsewhere) -> Features:
    """Measure a sequence."""
    units = seen.units
    key = keyness(seen.uses / max(1, table.messages), elsewhere, text)
    single, han = len(units) == 1, is_han(units[0])
    return Features(
        novelty=_between(-3.0, novelty(seen, table), 12.0),
        pull=_between(0.0, pull(units, table), 1.0),
        cohesion=_between(0.0, cohesion(units, table), 1.0),
        keyness=_between(-1.0, key, 5.0),
        shared=float(seen.uses >= TALK and elsewhere.used(text) > 2 and key < SHARED),
        uses=math.log(seen.uses),
        freedom=min(freedom(seen.left), freedom(seen.right)),
        alone=seen.alone / seen.uses,
        spread=spread(seen.speakers),
        days=min(1.0, len(seen.days) / min(seen.uses, 5)),
        burst=burst(seen.days, table.days) if seen.uses > 5 else 0.0,
        odd=0.0 if single else rare_letters(units),
        known=float(single and han),
        token=float(single and not han),
        number=float(single and is_number(text)),
        phrase=float(not single and all(len(unit) > 1 and is_han(unit) for unit in units)),
        loose=float(loose_ends(units)),
        empty=sum(unit in LOOSE for unit in units) / len(units),
    )


def _between(low: float, value: float, high: float) -> float:
    return max(low, min(value, high))


def novelty(seen: Seen, table: Table) -> float:
    """How much more often a sequence comes than common Chinese would have it."""
    rate = math.log(sum(seen.left.values()) / max(1, table.total))
    text = "".join(seen.units)
    if len(seen.units) == 1 or frequency(text):
        return rate - expected(text)
    return rate - sum(map(expected, seen.units)) - GAP * (len(seen.units) - 1)


def pull(units: tuple[str, ...], table: Table) -> float:
    """Pointwise mutual information of all units together; 1: each of them only comes here."""
    whole = table.counts["".join(units)]
    if len(units) == 1 or whole >= table.total:
        return 0.0
    rarest = math.log(table.total / whole)
    return (sum(math.log(table.total / table.counts[unit]) for unit in units) - rarest) / (rarest * (len(units) - 1))


def cohesion(units: tuple[str, ...], table: Table) -> float:
    """Pointwise mutual information of the weakest of the places where a sequence may be parted; 1: its parts only meet."""
    if len(units) == 1:
        return 0.0
    counts, total = table.counts, table.total
    whole = counts["".join(units)]
    if whole >= total:
        return 1.0
    parts = max(math.log(counts["".join(units[:cut])]) + math.log(counts["".join(units[cut:])]) for cut in range(1, len(units)))
    return (math.log(whole) + math.log(total) - parts) / math.log(total / whole)


def freedom(neighbours: Counter[str]) -> float:
    """Entropy of the neighbours on one side, as a share of what it could be. Each edge of a run is a neighbour of its own."""
    total = sum(neighbours.values())
    if total < 2:
        return 0.0
    entropy = 0.0
    for unit, times in neighbours.items():
        share = times / total
        entropy -= times / total * math.log(1 / total) if unit == EDGE else share * math.log(share)
    return entropy / math.log(total)


def keyness(rate: float, elsewhere: Elsewhere, text: str) -> float:
    """How much more often a sequence comes here than in other groups."""
    if not elsewhere.messages:
        return 0.0
    return math.log(rate / ((elsewhere.used(text) + SMOOTH) / elsewhere.messages))


def is_habit(speakers: Counter[int]) -> bool:
    """Tell whether a sequence is a habit of one person, whom others hardly follow."""
    total = sum(speakers.values())
    return total > LEAST and max(speakers.values()) > HABIT * total


def spread(speakers: Counter[int]) -> float:
    """How many people share a term; 1: enough."""
    return min(1.0, len(speakers) / min(sum(speakers.values()), 6))


def burst(days: Counter[int], span: int) -> float:
    """The share of uses in the densest three days, over what even use would give; 0..1."""
    total = sum(days.values())
    densest = max(sum(days.get(day + step, 0) for step in range(3)) for day in days)
    even = min(1.0, 3 / max(3, span))
    return max(0.0, (densest / total - even) / (1 - even)) if even < 1 else 0.0


def loose_ends(units: tuple[str, ...]) -> int:
    """How many of a sequence's two ends are words that stand beside anything."""
    if len(units) == 1:
        return 0
    return (units[0] in LOOSE) + (units[-1] in LOOSE)


def rare_letters(units: tuple[str, ...]) -> float:
    """The share of units that seldom stand alone: letters that jieba could not join, and Latin among Chinese."""
    odd = sum(1 for unit in units if not is_han(unit) or (len(unit) == 1 and frequency(unit) < 8000))
    return odd / len(units)


WEIGHTS = Features(
    novelty=0.1,
    pull=7.2,
    cohesion=1.3,
    keyness=0.6,
    shared=-5.0,
    uses=0.7,
    freedom=5.3,
    alone=2.5,
    spread=0.5,
    days=3.0,
    burst=0.8,
    odd=0.9,
    known=5.5,
    token=12.3,
    number=-0.5,
    phrase=0.0,
    loose=-0.2,
    empty=-0.1,
)
"""Fitted to made-up groups (``bench``, seeds 1 to 3) where that told something, else set by hand, and rounded."""
BIAS = -20.3


def worth(value: Features) -> float:
    """Put the measures together: 0..1."""
    total = BIAS + sum(weight * part for weight, part in zip(WEIGHTS, value, strict=True))
    return 1 / (1 + math.exp(-total))
