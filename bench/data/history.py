"""A month of a made-up group with a known truth: planted slang, what only looks like it, and other groups beside it."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from bench.data import slang, talk
from bench.data.groups import Group, Person

FIRST_DAY = datetime(2026, 10, 1, tzinfo=UTC)
DAYS = 30
PLANTED = 60
DECOYS = 60
LEAST, MOST = 3, 200
"""Uses of one planted term."""
OTHER_GROUPS = 8
KNOWN_ELSEWHERE = 0.3
"""The share of planted terms that other groups use too: general slang."""

FRAMED = 0.08
"""The share of ordinary talk that is in the phrases which slang is used in."""

Line = Callable[[random.Random], str]
"""Makes one line of ordinary talk."""


@dataclass(frozen=True, slots=True)
class Sent:
    """One message of the history."""

    person: Person
    at: datetime
    text: str


@dataclass(frozen=True, slots=True)
class Planted:
    """A term with its spellings (the term first) and how often it was put in."""

    spellings: tuple[str, ...]
    uses: int


@dataclass(frozen=True, slots=True)
class History:
    """A group's month in order, what is true of it, and the ordinary talk of other groups."""

    people: tuple[Person, ...]
    messages: tuple[Sent, ...]
    planted: tuple[Planted, ...]
    decoys: tuple[str, ...]
    rejected: Planted
    others: tuple[tuple[Sent, ...], ...]


def make_history(seed: int, count: int = 20_000, *, line: Line = talk.line) -> History:
    """Make a history of ``count`` messages by 30 people over DAYS days; the same seed makes the same."""
    rng = random.Random(seed)
    group = Group(seed)
    *planted, rejected = _choose(rng)
    decoys = _decoys(rng, group)
    elsewhere = [item for item in planted if rng.random() < KNOWN_ELSEWHERE]
    sent = [message for item in (*planted, rejected) for message in _use(rng, group, item, line)]
    for kind, names in decoys.items():
        for name in names:
            sent += _pretend(rng, group, kind, name, line)
    sent += [Sent(group.speaker(rng), _moment(rng), _ordinary(rng, line)) for _ in range(count - len(sent))]
    others = tuple(_other(rng, number, elsewhere, decoys["game"], line) for number in range(1, OTHER_GROUPS + 1))
    return History(
        group.people,
        tuple(sorted(sent, key=lambda message: message.at)),
        tuple(planted),
        tuple(name for names in decoys.values() for name in names),
        rejected,
        others,
    )


def _choose(rng: random.Random) -> list[Planted]:
    """Choose the terms: of all forms, most of them Chinese; the last one is for the rejected."""
    chosen = [
        *rng.sample(slang.LATIN, 14),
        *rng.sample(slang.DIGITS, 5),
        *rng.sample(slang.MIXED, 7),
        *rng.sample(slang.CHINESE, PLANTED + 1 - 26),
    ]
    *planted, rejected = chosen
    rng.shuffle(planted)
    return [Planted(item, round(LEAST * (MOST / LEAST) ** rng.random())) for item in planted] + [Planted(rejected, 50)]


def _decoys(rng: random.Random, group: Group) -> dict[str, list[str]]:
    each = DECOYS // 6
    return {
        "burst": rng.sample(slang.BURSTS, each),
        "member": [person.nickname for person in rng.sample(group.people, each)],
        "outsider": rng.sample(slang.OUTSIDERS, each),
        "game": rng.sample(slang.GAMES, each),
        "habit": rng.sample(slang.HABITS, each),
        "spam": rng.sample(slang.SPAM, each),
    }


def _moment(rng: random.Random, day: float | None = None) -> datetime:
    """Some time of a day, mostly in the evening; ``day`` None: of any."""
    start = rng.randrange(DAYS) if day is None else min(DAYS - 1, max(0, int(day)))
    hour = min(23.9, max(0.0, rng.gauss(13, 3.5)))
    return FIRST_DAY + timedelta(days=start, hours=hour - 8, seconds=rng.random() * 60)


def _use(rng: random.Random, group: Group, item: Planted, line: Line) -> list[Sent]:
    """People use a term: some of them only, more and more once it has come up."""
    circle = rng.sample(group.people, min(30, max(3, round(item.uses**0.6))))
    born = rng.random() * DAYS * 0.5
    sent: list[Sent] = []
    for number in range(item.uses):
        person = circle[number % len(circle)] if number < 3 else circle[int(len(circle) * rng.random() ** 1.5)]
        day = born + (DAYS - born) * rng.random() ** 0.8
        spelling = item.spellings[0] if rng.random() < 0.75 else rng.choice(item.spellings)
        sent.append(Sent(person, _moment(rng, day), _put(rng, slang.CARRIERS, _written(rng, spelling), line)))
    return sent


def _written(rng: random.Random, spelling: str) -> str:
    """Type a term as people do: now and then in capitals, in fullwidth letters, or drawn out."""
    luck = rng.random()
    if luck < 0.1:
        return spelling.upper()
    if luck < 0.14:
        return "".join(chr(ord(char) + 0xFEE0) if "!" <= char <= "~" else char for char in spelling)
    if luck < 0.2 and spelling.isdigit() and spelling[-1] == spelling[-2]:
        return spelling + spelling[-1] * rng.randint(1, 3)
    return spelling


def _put(rng: random.Random, patterns: Sequence[str], term: str, line: Line) -> str:
    words = {"s": term, "line": line(rng).strip(), "who": rng.choice(talk.WHO), "when": rng.choice(talk.WHEN)}
    return rng.choice(patterns).format(**words, how=rng.choice(talk.HOW), degree=rng.choice(talk.DEGREE))


def _ordinary(rng: random.Random, line: Line) -> str:
    """Ordinary talk; a part of it in the same phrases in which slang and games are spoken of."""
    if rng.random() > FRAMED:
        return line(rng)
    return _put(rng, rng.choice((slang.CARRIERS, slang.TALKED_OF)), rng.choice(rng.choice((talk.THING, talk.HOW, talk.DO))), line)


def _pretend(rng: random.Random, group: Group, kind: str, name: str, line: Line) -> list[Sent]:
    """Use what only looks like slang."""
    uses = rng.randint(15, 70)
    speakers = [group.speaker(rng) for _ in range(uses)]
    match kind:
        case "burst":
            day = rng.randrange(DAYS)
            return [Sent(who, _moment(rng, day + rng.random() * 2), _put(rng, slang.TALKED_OF, name, line)) for who in speakers]
        case "habit":
            one = rng.choice(group.people)
            lone = [one if rng.random() < 0.95 else who for who in speakers]
            return [Sent(who, _moment(rng), _put(rng, slang.CARRIERS, name, line)) for who in lone]
        case "spam":
            senders = rng.sample(group.people, rng.choice((1, 1, 3, 12)))
            return [
                Sent(rng.choice(senders), _moment(rng), name.format(n=rng.randint(1, 300)) + rng.choice(("", "", "！", " 👍")))
                for _ in range(uses // 2)
            ]
        case _:
            return [Sent(who, _moment(rng), _put(rng, slang.TALKED_OF, name, line)) for who in speakers]


def _other(rng: random.Random, number: int, known: Sequence[Planted], games: Sequence[str], line: Line) -> tuple[Sent, ...]:
    """Another group of the bot's: ordinary talk, general slang here and there, and some of the same games."""
    group = Group(1000 + number)
    sent = [Sent(group.speaker(rng), _moment(rng), _ordinary(rng, line)) for _ in range(2_400)]
    for item in known:
        if rng.random() < 0.5:
            sent += rng.choices(_use(rng, group, Planted(item.spellings, max(LEAST, item.uses // 10)), line), k=3)
    for game in games:
        if rng.random() < 0.4:
            sent += _pretend(rng, group, "game", game, line)[:12]
    return tuple(sorted(sent, key=lambda message: message.at))


def ordinary(number: int, count: int, *, terms: int = 20) -> list[Sent]:
    """A group's month without a truth to find: ordinary talk and some slang, for load."""
    rng = random.Random(number)
    group = Group(number)
    known = [Planted(item, max(LEAST, count // 500)) for item in rng.sample(slang.CHINESE, terms)]
    sent = [message for item in known for message in _use(rng, group, item, talk.line)]
    sent += [Sent(group.speaker(rng), _moment(rng), _ordinary(rng, talk.line)) for _ in range(count - len(sent))]
    return sorted(sent, key=lambda message: message.at)
