"""Spellings that are one term: lengthened ones, and Latin initials of a Chinese phrase. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache

from pypinyin import Style, lazy_pinyin

from learner.mining.text import is_han

_DOUBLED = re.compile(r"(.{2,}?)\1+")
_TAIL = re.compile(r"(.)\1{2,}$")
_INITIALS = re.compile(r"[a-z]{3,6}", re.ASCII)


@lru_cache(maxsize=20_000)
def initials(phrase: str) -> str:
    """The first Latin letters of a phrase's syllables; empty where it is not Chinese only."""
    if not all(map(is_han, phrase)):
        return ""
    letters: list[str] = lazy_pinyin(phrase, style=Style.FIRST_LETTER, errors="ignore")
    return "".join(letters)


def shortened(text: str) -> str:
    """Write a spelling that is drawn out or said twice as short as that gets: 6666 and 666 are one, awslawsl and awsl."""
    doubled = _DOUBLED.fullmatch(text)
    if doubled is not None and len(set(doubled[1])) > 1:
        text = doubled[1]
    return _TAIL.sub(lambda found: found[1] * 3, text)


def group(scores: Mapping[str, float], uses: Mapping[str, int], phrases: Iterable[str]) -> dict[str, str]:
    """Say for each spelling which term it belongs to: the one used most. ``phrases`` may be no candidates themselves."""
    by_initials: dict[str, list[str]] = {}
    for phrase in {*phrases, *scores}:
        if len(phrase) >= 3 and (letters := initials(phrase)):
            by_initials.setdefault(letters, []).append(phrase)
    families: dict[str, list[str]] = {}
    for text in scores:
        short = shortened(text)
        families.setdefault(short if short in scores or (short.isascii() and short in uses) else text, []).append(text)
    for short, family in families.items():
        if short not in family:
            family.append(short)
    for letters in [name for name in families if _INITIALS.fullmatch(name)]:
        full = by_initials.get(letters, [])
        if full:
            phrase = max(full, key=lambda name: (scores.get(name, 0.0), uses.get(name, 0), name))
            families[letters] += families.pop(shortened(phrase), [phrase])
    heads: dict[str, str] = {}
    for family in families.values():
        head = max(family, key=lambda name: (uses.get(name, 0), name))
        heads.update(dict.fromkeys(family, head))
    return heads
