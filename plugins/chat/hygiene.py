"""Text as it comes in, made safe to store, to show and to compare."""

from __future__ import annotations

import re
import unicodedata

TEXT_LIMIT = 1_000_000
"""Characters of one message that are stored; QQ itself allows a few thousand."""

_UNSTORABLE = re.compile(r"[\x00\r\ud800-\udfff]")
# Controls that are not white space, format characters (zero width, bidi, tags), and letters that draw nothing.
_INVISIBLE = re.compile(
    r"[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\xad\u034f\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2"
    r"\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u2800\u3164\ufeff\uffa0\ufff0-\ufffc"
    r"\ud800-\udfff\U000110bd\U000110cd\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    r"\U000e0000-\U000e0fff]"
)


def clean_text(text: str, limit: int = TEXT_LIMIT) -> str:
    """Make a text storable: lone surrogates and NUL become U+FFFD, CRLF and CR become LF, ``limit`` characters at most."""
    if len(text) > limit:
        text = text[:limit]
    if _UNSTORABLE.search(text) is None:
        return text
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return _UNSTORABLE.sub("\ufffd", text)


def one_line(text: str, limit: int) -> str:
    """Fit a name, title or label on one line: invisible characters out, white space collapsed, ``limit`` characters at most."""
    # Cut before the work: a hostile text may be very long, and little of it is shown.
    line = " ".join(_INVISIBLE.sub("", text[: limit * 4]).split())
    return line if len(line) <= limit else line[: limit - 1] + "…"


def is_blank(text: str) -> bool:
    """Tell whether a line draws nothing: no letter, number, punctuation or symbol in it."""
    return not any(unicodedata.category(char)[0] in "LNPS" for char in text)


def fold(text: str) -> str:
    """Bring a text into the form used for matching, never for display: NFKC, case-folded."""
    return unicodedata.normalize("NFKC", text).casefold()
