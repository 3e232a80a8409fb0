"""The miner: from messages to terms with a score, best first. Pure, and slow enough to run beside the event loop."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from learner.mining import variants
from learner.mining.common import BEFORE_NUMBERS, MEASURES, is_number, is_ordinary, is_person, is_plain_token
from learner.mining.counts import EDGE, Seen, Table, count
from learner.mining.score import NOWHERE, Elsewhere, features, is_habit, worth
from learner.mining.text import Said, is_han, read_messages, read_runs

DEPTH = 200
"""Terms that one run gives at most."""
LEAST_SCORE = 0.05
PHRASE_SCORE = 0.005
"""A phrase that may be what initials stand for."""
SHORT_PHRASE = 3
"""Up to this many letters initials agree by chance too often: the phrase must be a candidate itself."""
PART_OF = 0.7
"""A sequence that mostly stands inside one longer one is part of it."""
ADDED = 0.5
"""A longer sequence that takes less than this of a shorter candidate's uses only adds a neighbour to it."""
ALONE = 0.5
"""The share of a number's uses in which it counts nothing."""
NUMBERS = 6
EVIDENCE = 10
ELSEWHERE_UNITS = 4


@dataclass(frozen=True, slots=True)
class Mined:
    """A term as it was counted, folded. ``variants`` are its other spellings; ``messages`` are its newest."""

    term: str
    variants: tuple[str, ...]
    score: float
    uses: int
    speakers: int
    messages: tuple[int, ...]


def mine(
    messages: Sequence[Said], *, elsewhere: Elsewhere = NOWHERE, names: Collection[str] = (), known: Collection[str] = ()
) -> list[Mined]:
    """Find terms in messages (in order), best first, at most DEPTH.

    ``names`` are keys that are no terms; ``known`` are keys of terms, which a term may turn out to be a spelling of.
    """
    read = read_messages(messages)
    table = count(read)
    taken = frozenset(names).union(filter(is_person, table.seen))
    scores: dict[str, float] = {}
    for text, seen in table.seen.items():
        if may_be_term(text, seen, table) and not named(seen.units, taken):
            score = worth(features(text, seen, table, elsewhere))
            if score >= PHRASE_SCORE:
                scores[text] = score
    phrases = {*known, *(text for text, score in scores.items() if len(text) > SHORT_PHRASE or score >= LEAST_SCORE)}
    scores = {text: score for text, score in scores.items() if score >= LEAST_SCORE}
    scores = without_overlaps(without_pieces(scores, table, taken), table)
    return _grouped(scores, table, phrases)[:DEPTH]


def count_uses(texts: Sequence[str]) -> Counter[str]:
    """Count in how many of a group's texts which sequences of units stand."""
    uses: Counter[str] = Counter()
    for text in texts:
        here: set[str] = set()
        for run in read_runs(text):
            for start in range(len(run)):
                here.update("".join(run[start:end]) for end in range(start + 1, min(start + ELSEWHERE_UNITS, len(run)) + 1))
        uses.update(here)
    return uses


def may_be_term(text: str, seen: Seen, table: Table) -> bool:
    """Tell whether a sequence may be a term at all."""
    units = seen.units
    if is_ordinary(text) or len(text) < 2 or is_habit(seen.speakers):
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
    """Tell whether a number mostly counts something: by what stands beside it, or as it is rare and all digits differ."""
    [text] = seen.units
    if seen.uses < NUMBERS and len(set(text)) == len(text):
        return True
    total = sum(seen.left.values())
    counted = sum(times for unit, times in seen.right.items() if unit[:1] in MEASURES and unit != EDGE)
    counted += sum(times for unit, times in seen.left.items() if unit[-1:] in BEFORE_NUMBERS and unit != EDGE)
    return total - counted < ALONE * total


def without_pieces(scores: Mapping[str, float], table: Table, names: Collection[str]) -> dict[str, float]:
    """Leave out what mostly stands inside a name."""
    pieces = {
        part
        for name in names
        if (whole := table.seen.get(name)) is not None
        for part in _parts(whole.units)
        if part in scores and whole.uses >= PART_OF * table.seen[part].uses
    }
    return {text: score for text, score in scores.items() if text not in pieces}


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


def _grouped(scores: Mapping[str, float], table: Table, phrases: Collection[str]) -> list[Mined]:
    uses = {text: seen.uses for text, seen in table.seen.items()}
    heads = variants.group(scores, uses, phrases)
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
