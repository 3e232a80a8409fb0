"""Lines that people wrote, for load: from the folder of public test data, or made up where there is none."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from bench.data import words
from settings import ROOT

DATA = ROOT.parent / "shared" / "recall"
FILES = ("LCCC-base_valid.json", "LCCC-base_test.json")
_MADE_UP = 20_000


@dataclass(frozen=True, slots=True)
class Lines:
    """Different lines, and in one sentence where they come from."""

    texts: Sequence[str]
    source: str


def chat_lines() -> Lines:
    """Read public chat lines from RECALL_DATA or its usual place; without them, make some up."""
    folder = Path(os.environ.get("RECALL_DATA") or DATA)
    found = {line for name in FILES for line in _read(folder / name)}
    if found:
        return Lines(sorted(found), f"句子是 LCCC 公开语料里的 {len(found):,} 句。")
    rng = random.Random(7)
    made = {words.line(rng) for _ in range(_MADE_UP)}
    return Lines(sorted(made), f"没有找到 LCCC 语料（RECALL_DATA），句子是造的 {len(made):,} 句。")


def _read(path: Path) -> list[str]:
    if not path.exists():
        return []
    talks = cast("list[list[str]]", json.loads(path.read_text("utf-8")))
    return [line for talk in talks for turn in talk if len(line := "".join(turn.split())[:200]) >= 4]


def question(lines: Lines, rng: random.Random) -> str:
    """Ask for a piece of two to four letters of some line, or with a whole line, as often one as the other."""
    line = rng.choice(lines.texts)
    if rng.random() < 0.5:
        return line
    size = min(len(line), rng.choice((2, 2, 3, 4)))
    start = rng.randrange(len(line) - size + 1)
    return line[start : start + size]
