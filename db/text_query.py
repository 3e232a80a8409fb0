"""What the text leg looks for: a question read as words. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from db.searchtext import clean, fold, paired, query_words

KEYWORDS = 4
"""Up to so many words are keywords: whole texts like them are looked for when few hold them exactly."""
FUZZY_CHARS = 4
"""Latin words from this length on are also found when they are spelled a little differently."""
FUZZY_WORDS = 3
FUZZY_THRESHOLD = 0.6
"""The word similarity from which a text is like a keyword (for whole sentences it would have to be 0.15)."""
NAME_CHARS = 1_000
"""How much of a question is searched for members' names."""


@dataclass(frozen=True, slots=True)
class TextQuery:
    """One question: its words, what of it may be spelled differently, and its text, folded and not, to find names in."""

    no: int
    words: tuple[str, ...]
    fuzzy: tuple[str, ...]
    plain: str
    raw: str

    @property
    def text(self) -> str:
        """The words as one text."""
        return " ".join(self.words)

    @property
    def letter(self) -> str | None:
        """The one letter that is all of the question; letters are looked for inside words."""
        return self.words[0] if len(self.words) == 1 and len(self.words[0]) == 1 and paired(self.words[0]) else None


def read_query(no: int, text: str) -> TextQuery | None:
    """Read a question; None when it holds no word (only punctuation, emoji or nothing)."""
    words = query_words(text)
    if not words:
        return None
    latin = [word for word in words if len(word) >= FUZZY_CHARS and not paired(word[0])]
    fuzzy = (" ".join(words),) if len(words) <= KEYWORDS else tuple(latin[:FUZZY_WORDS])
    return TextQuery(no, words, fuzzy, fold(text[:NAME_CHARS]), clean(text[:NAME_CHARS]))


def arrays(queries: Sequence[TextQuery]) -> dict[str, list[int] | list[str]]:
    """Lay questions out as parallel arrays for ``unnest``."""
    return {
        "asks": [query.no for query in queries],
        "texts": [query.text for query in queries],
        "plains": [query.plain for query in queries],
        "raws": [query.raw for query in queries],
        "word_asks": [query.no for query in queries for _ in query.words],
        "words": [word for query in queries for word in query.words],
        "fuzzy_asks": [query.no for query in queries for _ in query.fuzzy],
        "fuzzy": [text for query in queries for text in query.fuzzy],
        "letter_asks": [query.no for query in queries if query.letter is not None],
        "letters": [query.letter for query in queries if query.letter is not None],
    }
