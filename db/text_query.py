"""What the text leg looks for: a question read as words. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from db.searchtext import clean, fold, paired, query_words

KEYWORDS = 4
"""Up to so many words are keywords: nothing is taken from them, and texts like them as a whole are looked for."""
FUZZY_CHARS = 4
"""Latin words from this length on are also found when they are spelled a little differently."""
FUZZY_WORDS = 3
FUZZY_THRESHOLD = 0.6
"""The word similarity from which a text is like a keyword."""
NAME_CHARS = 1_000
"""How much of a question is searched for members' names."""
WORD_WEIGHT = 0.5
LETTER_WEIGHT = 1.0
"""A pair of letters that a text holds counts half of what a letter counts, each times its rarity: tuned on Chinese questions.
Words of other scripts are both."""

_ASKING = re.compile(
    "为什么|什么时候|什么|怎么样|怎么|怎样|怎|哪里|哪儿|哪些|哪个|哪几|哪(?!吒|怕)|多少|几(?!何|乎)|谁|如何|何时|何地|是否|请问|吗|呢|吧|啊"
)
"""What asks tells nothing about the answer."""


@dataclass(frozen=True, slots=True)
class Term:
    """A part of a question that a text may hold. ``needle`` is how it stands in a search text; only words fetch texts."""

    text: str
    needle: str
    weight: float
    word: bool


@dataclass(frozen=True, slots=True)
class TextQuery:
    """One question: its terms, what of it may be spelled differently, and its text, folded and not, to find names in."""

    no: int
    words: tuple[str, ...]
    terms: tuple[Term, ...]
    fuzzy: tuple[str, ...]
    folded: str
    raw: str

    @property
    def letter(self) -> str | None:
        """The one letter that is all of the question; it is looked for inside words."""
        return self.words[0] if len(self.words) == 1 and len(self.words[0]) == 1 and paired(self.words[0]) else None


def read_query(no: int, text: str) -> TextQuery | None:
    """Read a question; None when it holds no word (only punctuation, emoji or nothing)."""
    words = query_words(text)
    if not words:
        return None
    if len(words) > KEYWORDS:
        words = query_words(_ASKING.sub(" ", fold(text))) or words
        fuzzy = tuple(word for word in words if len(word) >= FUZZY_CHARS and not paired(word[0]))[:FUZZY_WORDS]
    else:
        fuzzy = (" ".join(words),)
    return TextQuery(no, words, _terms(words), fuzzy, fold(text[:NAME_CHARS]), clean(text[:NAME_CHARS]))


def _terms(words: Sequence[str]) -> tuple[Term, ...]:
    """Words, and the letters of those that are pairs. Words hold letters and digits only, nothing that LIKE reads."""
    letters = dict.fromkeys(letter for word in words if paired(word[0]) for letter in word)
    return (
        *(_word(word) for word in words),
        *(Term(letter, letter, LETTER_WEIGHT, word=False) for letter in letters),
    )


def _word(word: str) -> Term:
    if not paired(word[0]):
        return Term(word, f" {word} ", WORD_WEIGHT + LETTER_WEIGHT, word=True)
    # A pair before a space is a whole word, and one trigram to look up; a letter alone is one between two spaces.
    return Term(word, f"{word} " if len(word) == 2 else f" {word} ", WORD_WEIGHT, word=True)


ArrayValue = list[int] | list[str] | list[float] | list[bool]


def arrays(queries: Sequence[TextQuery]) -> dict[str, ArrayValue]:
    """Lay questions out as parallel arrays for ``unnest``."""
    terms = [(query.no, term) for query in queries for term in query.terms]
    fuzzy = [(query.no, text) for query in queries for text in query.fuzzy]
    letters = [(query.no, query.letter) for query in queries if query.letter is not None]
    return {
        "asks": [query.no for query in queries],
        "folded": [query.folded for query in queries],
        "raw": [query.raw for query in queries],
        "term_asks": [no for no, _ in terms],
        "terms": [term.text for _, term in terms],
        "needles": [term.needle for _, term in terms],
        "weights": [term.weight for _, term in terms],
        "are_words": [term.word for _, term in terms],
        "fuzzy_asks": [no for no, _ in fuzzy],
        "fuzzy": [text for _, text in fuzzy],
        "letter_asks": [no for no, _ in letters],
        "letters": [letter for _, letter in letters],
    }
