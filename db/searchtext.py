"""Text as the search column holds it: words that trigrams can find, in Chinese too.

Trigrams see words. Chinese has no spaces, so a run of Chinese letters is written as its overlapping pairs:
今天去吃火锅 becomes 今天 天去 去吃 吃火 火锅, and 火锅 is found in it. A space stands before and after every
word, so that LIKE '% 火锅 %' finds whole words through the trigram index, several times faster than ``<%`` does.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterable, Iterator

from db.simplified import simplified

SEARCH_CHARS = 12_000
"""The longest search text; what a text says beyond is not found."""
QUERY_WORDS = 128
"""Words of a question that count."""
WORD_CHARS = 64
KEY_CHARS = 160

# Ideographs with 々 and 〇, kana, Korean syllables: scripts whose words are not told apart by spaces alone.
_PAIRED = (
    r"\u3005\u3007\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff"
    r"\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3\uf900-\ufaff\U00020000-\U000323af"
)
_WORD = re.compile(rf"[{_PAIRED}]+|[^\W_{_PAIRED}]+")
_PAIRED_LETTER = re.compile(rf"[{_PAIRED}]")
# c++, a+ and c#: what trigrams would drop is spelled out.
_PLUS = re.compile(r"(?<=[a-z])(?:\+\+|\+(?![a-z0-9+]))")
_SHARP = re.compile(r"(?<![^\W_])([a-z])#(?!\w)")
# Format characters (zero width, bidi) and variation selectors stand inside words without being seen.
_UNSEEN = re.compile(
    "[\u00ad\u115f\u1160\u3164\uffa0\u034f\u061c\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff\U000e0000-\U000e0fff]"
)
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_FOLDS = 4
_MINUS = "-\u2212\u2013"
_FILLERS = "~\u223c"  # 好呀~


def search_text(text: str) -> str:
    """Write a text as the words it can be found by, each between two spaces; empty where there are none.

    Never raises, and a second time changes nothing. At most SEARCH_CHARS characters.
    """
    return _join(_words(fold(text[:SEARCH_CHARS])), SEARCH_CHARS)


def query_words(text: str) -> tuple[str, ...]:
    """Read the words of a question, as search_text writes them: each once, at most QUERY_WORDS."""
    return tuple(dict.fromkeys(search_text(text).split()))[:QUERY_WORDS]


def content_key(text: str) -> str:
    """Give the same short key to texts that say the same, letter for letter.

    Width, case, script, punctuation and spaces do not count; symbols, a minus and what parts two numbers do.
    At most KEY_CHARS characters, never empty unless the text is blank.
    """
    folded = fold(text)
    key = "".join(_said(folded)) or "".join(folded.split())
    return key if len(key) <= KEY_CHARS else hashlib.md5(key.encode(), usedforsecurity=False).hexdigest()


def _said(folded: str) -> Iterator[str]:
    """Give what counts in a folded text, character by character."""
    before = dropped = ""
    for char in folded:
        if not _counts(char):
            dropped = char
            continue
        if dropped and char.isdigit():
            if before.isdigit():
                yield " "  # 3.5 is not 35
            elif dropped in _MINUS:
                yield "-"
        yield char
        before, dropped = char, ""


def _counts(char: str) -> bool:
    kind = unicodedata.category(char)
    return kind[0] in "LMN" or (kind[0] == "S" and kind != "Sk" and char not in _FILLERS)


def fold(text: str) -> str:
    """Make texts comparable: one width, one case, simplified, without unseen characters. Idempotent."""
    text = clean(text)
    for _ in range(_FOLDS):
        folded = simplified(unicodedata.normalize("NFKC", _UNSEEN.sub("", text).casefold()))
        if folded == text:
            break
        text = folded
    return text


def clean(text: str) -> str:
    """Replace what PostgreSQL cannot take: NUL and lone surrogates."""
    return _UNSTORABLE.sub("\ufffd", text)


def paired(char: str) -> bool:
    """Tell whether a character belongs to a script that is searched by pairs of letters."""
    return _PAIRED_LETTER.fullmatch(char) is not None


def _words(folded: str) -> Iterator[str]:
    spelled = _SHARP.sub(r"\1sharp", _PLUS.sub(lambda found: "plus" * len(found[0]), folded))
    for found in _WORD.finditer(spelled):
        run = found[0]
        if not paired(run[0]):
            yield run[:WORD_CHARS]
        elif len(run) == 1:
            yield run
        else:
            yield from (run[at : at + 2] for at in range(len(run) - 1))


def _join(words: Iterable[str], limit: int) -> str:
    """Put every word between spaces, as many as fit."""
    kept: list[str] = []
    size = 1
    for word in words:
        size += len(word) + 1
        if size > limit:
            break
        kept.append(word)
    return f" {' '.join(kept)} " if kept else ""
