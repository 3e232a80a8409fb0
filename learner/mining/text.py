"""What people said, as runs of units to count: Chinese in jieba's words, Latin letters and digits in tokens. Pure."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import rjieba

from db.searchtext import fold, paired

TEXT_CHARS = 300
"""What a message says beyond is not counted."""
SHORT = 8
"""A message up to this many letters may be repeated: a cry, not a copy."""
ECHO = 12
"""The same text again within so many messages is an echo."""
COPIES = 3
"""A longer text that comes so often is copied, not said."""
_LINK = re.compile(r"(?:https?://|www\.)\S+|\S+@\S+\.\w+|[\w.-]+\.(?:com|cn|net|org|io|tv|me)(?:/\S*)?", re.ASCII)
_MENTION = re.compile(r"@\S{1,40}")
_FACE = re.compile(r"\[[^\]\n]{1,30}\]")
_COMMAND = re.compile(r"^\s*[/#!.]\s*\S")
_VERSIONED = re.compile(r"v?\d+(?:\.\d+)+", re.ASCII)
_LETTERS = re.compile(r"[\W\d_]+")


@dataclass(frozen=True, slots=True)
class Said:
    """One message of a person. ``day`` is a local day's ordinal."""

    message: int
    speaker: int
    day: int
    text: str


@dataclass(frozen=True, slots=True)
class Runs:
    """A message that counts, cut into runs of units that stand next to each other."""

    said: Said
    runs: tuple[tuple[str, ...], ...]


def read_runs(text: str) -> tuple[tuple[str, ...], ...]:
    """Cut a text into runs: links, mentions, faces, versions and punctuation part them. A command has none."""
    if _COMMAND.match(text):
        return ()
    plain = _clean(fold(text[:TEXT_CHARS]))
    runs: list[tuple[str, ...]] = []
    run: list[str] = []
    words: list[str] = rjieba.cut(plain, False)
    for word in words:
        if word.isalnum():
            run.append(word)
        elif run:
            runs.append(tuple(run))
            run = []
    if run:
        runs.append(tuple(run))
    return tuple(runs)


def _clean(folded: str) -> str:
    for pattern in (_LINK, _MENTION, _FACE, _VERSIONED):
        folded = pattern.sub(" ", folded)
    return folded


def _skeleton(text: str) -> str:
    """What a text and its copies have in common: letters only, without links, mentions and numbers."""
    return _LETTERS.sub("", _clean(fold(text[:TEXT_CHARS])))


def originals(messages: Sequence[Said]) -> list[Said]:
    """Leave out what only repeats: echoes, texts that are copied again and again, the same cry of one person on one day."""
    bones = [_skeleton(said.text) for said in messages]
    times: dict[str, int] = {}
    for bone in bones:
        times[bone] = times.get(bone, 0) + 1
    recent: deque[str] = deque(maxlen=ECHO)
    cried: set[tuple[str, int, int]] = set()
    kept: list[Said] = []
    for said, bone in zip(messages, bones, strict=True):
        if len(bone) > SHORT:
            new = times[bone] < COPIES and bone not in recent
        else:
            cry = (bone or fold(said.text[:SHORT]), said.speaker, said.day)
            new = cry not in cried
            cried.add(cry)
        recent.append(bone)
        if new:
            kept.append(said)
    return kept


def read_messages(messages: Sequence[Said]) -> list[Runs]:
    """Cut the messages that count into runs."""
    return [Runs(said, runs) for said in originals(messages) if (runs := read_runs(said.text))]


def is_han(unit: str) -> bool:
    """Tell whether a unit is Chinese."""
    return paired(unit[0])
