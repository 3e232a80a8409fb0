"""A group's day: two thousand messages of thirty people, every eighth of them to the bot."""

from __future__ import annotations

import random
from dataclasses import dataclass

from bench.data.groups import Group, Person, called, said
from db.models import Json

SEED = 20261130


@dataclass(frozen=True, slots=True)
class Said:
    """One message of the day; ``calls``: it mentions the bot. Numbers are given when it is sent."""

    person: Person
    segments: tuple[Json, ...]
    calls: bool


def make_day(group: Group, count: int, *, every: int) -> list[Said]:
    """Make ``count`` messages, each ``every``-th a mention of the bot.

    Quotes name message ids of the group's numbering, so the day must be sent in this order, by the group as it is now.
    """
    rng = random.Random(SEED)
    double = Group(group.number, group.seq)
    day: list[Said] = []
    for index in range(1, count + 1):
        calls = index % every == 0
        person = double.speaker(rng)
        segments = called(rng) if calls else said(double, rng)
        double.message(person, segments)
        day.append(Said(person, tuple(segments), calls))
    return day
