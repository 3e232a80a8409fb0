"""Slang terms as text: when two spellings are one term, and where a term stands in what was said. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from db.searchtext import fold, paired, search_text


def term_key(text: str) -> str:
    """Give the same key to spellings that are one term: width, case, script and spaces do not count."""
    return "".join(fold(text).split())


def needle(term: str) -> str:
    """Write a term as search texts hold it; empty where nothing of it is searched for.

    A single Chinese letter at an end may be part of a pair there, so that end is left open.
    """
    words = search_text(term).split()
    if not words:
        return ""
    head = "" if _lone(words[0]) else " "
    tail = "" if _lone(words[-1]) else " "
    return f"{head}{' '.join(words)}{tail}"


def occurs(term: str, text: str) -> bool:
    """Tell whether a term stands in a text: Latin letters and digits as whole words, Chinese anywhere."""
    return next(_places(term, fold(text)), None) is not None


def find_terms(terms: Sequence[str], text: str) -> list[str]:
    """Find which terms stand in a text outside of longer ones that do, in the order given."""
    folded = fold(text)
    places = [(place, term) for term in dict.fromkeys(terms) for place in _places(term, folded)]
    places.sort(key=lambda item: item[0].start - item[0].stop)
    taken: set[range] = set()
    standing: set[str] = set()
    for place, term in places:
        if place in taken or not any(_inside(place, other) for other in taken):
            taken.add(place)
            standing.add(term)
    return [term for term in dict.fromkeys(terms) if term in standing]


def _places(term: str, folded: str) -> Iterator[range]:
    """Where a term stands in a folded text; spaces in it may be left out or doubled."""
    parts = fold(term).split()
    if not parts:
        return
    for found in re.finditer(r"\s*".join(map(re.escape, parts)), folded):
        start, end = found.span()
        if not (_one_word(folded[start - 1 : start], folded[start]) or _one_word(folded[end - 1], folded[end : end + 1])):
            yield range(start, end)


def _inside(place: range, other: range) -> bool:
    return other.start <= place.start and place.stop <= other.stop


def _one_word(left: str, right: str) -> bool:
    """Tell whether two neighbours belong to one word of a script that writes words apart."""
    return _spaced(left) and _spaced(right)


def _spaced(char: str) -> bool:
    return char.isalnum() and not paired(char)


def _lone(word: str) -> bool:
    return len(word) == 1 and paired(word)
