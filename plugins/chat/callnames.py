"""Whether somebody is called by name: names are words, not runs of characters."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import rjieba

from plugins.chat.hygiene import fold, one_line

_NAME_LIMIT, _NAMES = 40, 50
_SEARCHED = 20_000
"""Characters of a message that are searched for names."""
_AROUND = 40
"""Characters on both sides of a name that decide whether it is a word there."""
_OCCURRENCES = 50
_HAN = re.compile(
    r"[\u2e80-\u2fdf\u3005-\u3007\u3021-\u3029\u3038-\u303b\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"
)


class NameMatcher:
    """Finds calls by name. Case, width and runs of spaces do not matter; blank names are left out.

    A name counts where it stands alone between spaces and punctuation, or where segmentation makes it a word of its own.
    A name of one character is too common for the second rule.
    """

    def __init__(self, names: Sequence[str]) -> None:
        folded = (fold(one_line(name, _NAME_LIMIT)) for name in names[:_NAMES])
        self._names = tuple(dict.fromkeys(name for name in folded if name and any(map(_in_word, name))))
        self._spaced = any(" " in name for name in self._names)
        for name in self._names:
            # The dictionary is one for the whole process; a name in it only makes that name a word.
            if _HAN.search(name) and len(name) > 1 and not rjieba.has_word(name):
                rjieba.add_word(name, None, None)

    def called_in(self, text: str) -> bool:
        """Tell whether a name is called in what was said (the first 20,000 characters)."""
        if not self._names:
            return False
        said = fold(text[:_SEARCHED])
        if self._spaced:
            said = " ".join(said.split())
        return any(_is_called(said, name) for name in self._names if name in said)


def _is_called(said: str, name: str) -> bool:
    return any(_is_word(said, start, start + len(name)) for start in _occurrences(said, name))


def _occurrences(said: str, name: str) -> Iterator[int]:
    start = said.find(name)
    for _ in range(_OCCURRENCES):
        if start < 0:
            return
        yield start
        start = said.find(name, start + 1)


def _is_word(said: str, start: int, end: int) -> bool:
    before = said[start - 1] if start else " "
    after = said[end] if end < len(said) else " "
    if not _in_word(before) and not _in_word(after):
        return True
    if end - start == 1 or _one_latin_word(before, said[start]) or _one_latin_word(said[end - 1], after):
        return False
    return _cut_out(said, start, end)


def _in_word(char: str) -> bool:
    return char.isalnum() or char == "_"


def _one_latin_word(left: str, right: str) -> bool:
    """Tell whether two neighbours belong to one word of a script that writes words apart."""
    return _in_word(left) and _in_word(right) and not _HAN.match(left) and not _HAN.match(right)


def _cut_out(said: str, start: int, end: int) -> bool:
    """Tell whether segmentation cuts at both ends of a span; next to Latin, digits and punctuation there is a cut anyway."""
    window = max(0, start - _AROUND)
    cuts = {window}
    position = window
    for word in rjieba.cut(said[window : end + _AROUND], hmm=False):
        position += len(word)
        cuts.add(position)
    return _cut_at(said, start, cuts) and _cut_at(said, end, cuts)


def _cut_at(said: str, at: int, cuts: set[int]) -> bool:
    inside_han = 0 < at < len(said) and _HAN.match(said[at - 1]) and _HAN.match(said[at])
    return not inside_han or at in cuts
