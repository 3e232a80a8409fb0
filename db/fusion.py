"""How rankings become one: reciprocal rank fusion. Pure; every number that weighs a ranking stands here."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

Leg = Literal["text", "vector"]

RRF_K = 60
"""A first place counts 1/61, a second 1/62: what two rankings find beats what one ranks first."""
TEXT_WEIGHT = 1.0
VECTOR_WEIGHT = 1.0
PER_LEG = 30
"""How many rows each leg gives for each question."""
PER_LEG_DEEP = 200
"""The same for somebody who turns pages beyond PER_LEG."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where one leg put a row for one question; ``rank`` counts from 1."""

    row: int
    rank: int


@dataclass(frozen=True, slots=True)
class Fused:
    """A row with its score over all legs and questions, and its best rank in each leg."""

    row: int
    score: float
    vector_rank: int | None
    text_rank: int | None


def depth(wanted: int) -> int:
    """How many rows a leg must give so that ``wanted`` can be shown. Two depths only, so that pages do not shift."""
    return PER_LEG if wanted <= PER_LEG else PER_LEG_DEEP


def fuse(text: Iterable[Place], vector: Iterable[Place]) -> list[Fused]:
    """Add up ``weight / (RRF_K + rank)`` over all places of a row. Best first, ties by the higher row number."""
    scores: dict[int, float] = {}
    text_ranks, vector_ranks = _add(text, TEXT_WEIGHT, scores), _add(vector, VECTOR_WEIGHT, scores)
    rows = sorted(scores, key=lambda row: (-scores[row], -row))
    return [Fused(row, scores[row], vector_ranks.get(row), text_ranks.get(row)) for row in rows]


def _add(places: Iterable[Place], weight: float, scores: dict[int, float]) -> dict[int, int]:
    """Add one leg to the scores; returns each row's best rank in it."""
    best: dict[int, int] = {}
    for place in places:
        scores[place.row] = scores.get(place.row, 0.0) + weight / (RRF_K + place.rank)
        best[place.row] = min(place.rank, best.get(place.row, place.rank))
    return best
