"""What the fake model decides."""

from __future__ import annotations

from random import Random

from bench.data import words
from bench.model import Brain, Speak, StayQuiet


def speaks(seed: int) -> Brain:
    """Always say something, each time something else."""
    rng = Random(seed)
    return lambda number: Speak(f"{words.saying(rng)} {number}")


def speaks_sometimes(seed: int, *, share: float) -> Brain:
    """Say something in a share of the turns, with a fixed seed, and stay quiet in the others."""
    rng = Random(seed)
    return lambda number: Speak(words.saying(rng)) if rng.random() < share else StayQuiet()
