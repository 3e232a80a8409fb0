"""The miner: from messages to terms with a score, best first. Pure, and slow enough to run beside the event loop."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from learner.mining import variants
from learner.mining.common import BEFORE_NUMBERS, MEASURES, is_number, is_ordinary, is_plain_token
from learner.mining.counts import EDGE, Seen, Table, count, sequences
from learner.mining.score import NOWHERE, Elsewhere, features, is_habit, worth
from learner.mining.text import Said, is_han, read_messages

DEPTH = 200
"""Terms that one run gives at most."""
LEAST_SCORE = 0.1
PART_OF = 0.7
"""A sequence that mostly stands inside one longer one is part of it."""
ADDED = 0.5
"""A longer sequence that takes less than this of a shorter candidate's uses only adds a neighbour to it."""
ALONE = 0.5
"""The share of a number's uses in which it counts nothing."""
EVIDENCE = 10


@dataclass(frozen=True, slots=True)
class Mined:
    """A term as it was counted, folded. ``variants`` are its other spellings; ``messages`` are its newest."""

    term: str
    variants: tuple[str, ...]
    score: float
    uses: int
    speakers: int
    messages: tuple[int, ...]


def mine(messages: Sequence[Said], *, elsewhere: Elsewhere = NOWHERE, names: Collection[str] = ()) -> list[Mined]:
    """Find terms in messages (in order), best first, at most DEPTH. ``names`` are keys that are no terms."""
    read = read_messages(messages)
    table = count(read)
    taken = frozenset(names)
    scores: dict[str, float] = {}
    for text, seen in table.seen.items():
        if may_be_term(text, seen, table) and not named(seen.units, taken):
            score = worth(features(text, seen, table, elsewhere))
            if score >= LEAST_SCORE:
                scores[text] = score
    scores = without_overlaps(scores, table)
    return _grouped(scores, table)[:DEPTH]


def elsewhere_of(messages: Sequence[Said]) -> Elsewhere:
    """Count what other groups say."""
    read = read_messages(messages)
    return Elsewhere(len(read), {text: times for text, times in sequences(read, 2).items() if times >= 2})


def may_be_term(text: str, seen: Seen, table: Table) -> bool:
    """Tell whether a sequence may be a term at all."""
    units = seen.units
    if is_ordinary(units) or len(text) < 2 or is_habit(seen.speakers):
        return False
    if len(units) == 1 and not is_han(text):
        return not is_plain_token(text) and not (is_number(text) and counts_something(seen))
    if any(is_number(unit) for unit in units[1:]) or not any(map(is_han, units)):
        return False
    return not is_number(units[0]) or (len(units[0]) == 1 and seen.uses >= PART_OF * table.counts.get("".join(units[1:]), 0))


def named(units: tuple[str, ...], names: frozenset[str]) -> bool:
    """Tell whether a name of at least two letters stands in a sequence."""
    return any("".join(units[a:b]) in names for a in range(len(units)) for b in range(a + 1, len(units) + 1) if names)


def counts_something(seen: Seen) -> bool:
    """Tell whether a number mostly counts something: a measure follows it, or a word that numbers follow stands before."""
    total = sum(seen.left.values())
    counted = sum(times for unit, times in seen.right.items() if unit[:1] in MEASURES and unit != EDGE)
    counted += sum(times for unit, times in seen.left.items() if unit[-1:] in BEFORE_NUMBERS and unit != EDGE)
    return total - counted < ALONE * total


def without_overlaps(scores: Mapping[str, float], table: Table) -> dict[str, float]:
    """Of candidates that overlap keep one: the longer where it takes most uses, else the shorter; Latin parts likewise."""
    dropped: set[str] = set()
    for text in sorted(scores, key=len, reverse=True):
        seen = table.seen[text]
        for part in _parts(seen.units):
            if part not in scores:
                if _parts_from_token(part, text, table):
                    dropped.add(text)
                continue
            inside, alone = seen.uses, table.seen[part].uses
            if inside >= PART_OF * alone:
                if text not in dropped:
                    dropped.add(part)
            elif inside < ADDED * alone or scores[part] >= scores[text]:
                dropped.add(text)
    return {text: score for text, score in scores.items() if text not in dropped}


def _parts(units: tuple[str, ...]) -> list[str]:
    size = len(units)
    return ["".join(units[a:b]) for a in range(size) for b in range(a + 1, size + 1) if 0 < b - a < size]


def _parts_from_token(part: str, text: str, table: Table) -> bool:
    """Tell whether a Latin token inside a sequence mostly stands elsewhere: then the sequence is no word of its own."""
    return not is_han(part) and part.isascii() and table.seen[text].uses < ADDED * table.counts.get(part, 0)


def _grouped(scores: Mapping[str, float], table: Table) -> list[Mined]:
    uses = {text: seen.uses for text, seen in table.seen.items()}
    heads = variants.group(scores, uses, ())
    families: dict[str, list[str]] = {}
    for text, head in heads.items():
        families.setdefault(head, []).append(text)
    found = [_mined(head, family, scores, table) for head, family in families.items()]
    return sorted(found, key=lambda item: (-item.score, item.term))


def _mined(head: str, family: Sequence[str], scores: Mapping[str, float], table: Table) -> Mined:
    seen = [table.seen[text] for text in family if text in table.seen]
    people = {speaker for item in seen for speaker in item.speakers}
    messages = sorted({message for item in seen for message in item.messages}, reverse=True)
    return Mined(
        head,
        tuple(sorted(text for text in family if text != head)),
        max(scores.get(text, 0.0) for text in family),
        len(messages),
        len(people),
        tuple(messages[:EVIDENCE]),
    )
