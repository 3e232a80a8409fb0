"""What may be an expression, and whether its phrase was really said. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable

from db.searchtext import fold
from llm.hygiene import NEWLINE, one_line

SITUATION_CHARS = 40
PHRASE_CHARS = 40
SHORTEST_PHRASE = 2
_QUOTES = "「」『』“”‘’\"'《》 "
_FORBIDDEN = re.compile(r"[@＠]|https?:|www\.|\[[^\[\]]{1,20}\]", re.IGNORECASE)
_COMMAND = re.compile(r"^[/／#＃.。!！](?=\w)")
# What a phrase leaves open: 又是……的一天, 我真的会X, ___警告.
_SLOT = re.compile(
    r"…+|\.{3,}|。{3,}|[_＿]{2,}|某某|(?<![a-z0-9])x{1,3}(?![a-z0-9])|〇〇|○○|~{2,}|\{[^{}]*\}|[(（][^()（）]*[)）]"
)


def read_situation(text: str) -> str | None:
    """Read a situation on one line, without quotes around it. None: it cannot be one."""
    line = _line(text).strip(_QUOTES + "，。、；：,.;:")
    return line if _fit(line, SITUATION_CHARS) and len(line) >= SHORTEST_PHRASE else None


def read_phrase(text: str) -> str | None:
    """Read a phrase on one line, without quotes around it. None: it cannot be one."""
    line = _line(text).strip(_QUOTES)
    if not _fit(line, PHRASE_CHARS) or _COMMAND.match(line):
        return None
    return line if sum(map(len, _fixed(line))) >= SHORTEST_PHRASE else None


def _line(text: str) -> str:
    """Put a text on one line, without what stands for half an emoji."""
    return one_line(text.replace("\ufffd", ""))


def _fit(line: str, limit: int) -> bool:
    return 0 < len(line) <= limit and NEWLINE.strip() not in line and not _FORBIDDEN.search(line)


def stands(phrase: str, text: str) -> bool:
    """Tell whether a phrase, or all its fixed parts in their order, was said: width, case, script and spaces do not count."""
    said = _said(fold(text))
    at = 0
    for part in _fixed(phrase):
        found = said.find(part, at)
        if found < 0:
            return False
        at = found + len(part)
    return at > 0


def holds_name(text: str, names: Iterable[str]) -> bool:
    """Tell whether a text holds one of some names, of two characters or more."""
    said = _said(fold(text))
    keys = (_said(fold(name)) for name in names)
    return any(len(key) >= 2 and key in said for key in keys)


def _fixed(phrase: str) -> list[str]:
    """The parts of a phrase that do not change."""
    return [part for piece in _SLOT.split(fold(phrase)) if (part := _said(piece))]


def _said(folded: str) -> str:
    """What counts of a folded text: all but spaces and commas; where that is nothing, all but spaces."""
    return "".join(char for char in folded if not char.isspace() and char not in "，,、。.~～\"'“”‘’")
