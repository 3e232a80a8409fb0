"""What the fake model decides."""

from __future__ import annotations

from collections import deque
from random import Random

from rapidfuzz import fuzz

from bench.data import words
from bench.model import Brain, Speak, StayQuiet

_REMEMBERED = 200
_ALIKE = 75.0


class Sayings:
    """Things to say, none of them like another of the last 200: the bot refuses to repeat itself, and asks again."""

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self._said: deque[str] = deque(maxlen=_REMEMBERED)

    def next(self) -> str:
        """Give the next one."""
        while True:
            text = words.saying(self._rng) if self._rng.random() < 0.3 else words.double(self._rng)
            if all(fuzz.ratio(text, other) < _ALIKE for other in self._said):
                self._said.append(text)
                return text


def speaks(seed: int) -> Brain:
    """Always say something, each time something else."""
    sayings = Sayings(Random(seed))
    return lambda _: Speak(sayings.next())


def speaks_sometimes(seed: int, *, share: float) -> Brain:
    """Say something in a share of the turns, with a fixed seed, and stay quiet in the others."""
    rng = Random(seed)
    sayings = Sayings(rng)
    return lambda _: Speak(sayings.next()) if rng.random() < share else StayQuiet()
