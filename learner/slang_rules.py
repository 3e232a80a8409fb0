"""What may be a slang term, whatever a model or a miner says. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection

from db.slang_terms import term_key
from llm.hygiene import NEWLINE, one_line

SHORTEST, LONGEST = 2, 20
MEANING_CHARS = 200
_QUOTES = "「」『』“”‘’\"'《》【】[]（）() "
_FORBIDDEN = re.compile(r"[@＠\ufffd/／\\]|https?:|www\.", re.IGNORECASE)
_COMMAND = re.compile(r"^[#＃!！.。]")
_NUMBER = re.compile(r"[\d.,:：%+-]+")


def read_term(text: str) -> str | None:
    """Read a term as a model writes it: on one line, without quotes around it. None: it cannot be slang."""
    term = one_line(text).strip(_QUOTES)
    key = term_key(term)
    if not SHORTEST <= len(term) <= LONGEST or not SHORTEST <= len(key) <= LONGEST or NEWLINE.strip() in term:
        return None
    if _FORBIDDEN.search(term) or _COMMAND.match(term) or not any(char.isalnum() for char in key):
        return None
    return term


def is_number(key: str) -> bool:
    """Tell whether a key is a plain number, a time or a price: slang only where the miner saw it used as such."""
    return _NUMBER.fullmatch(key) is not None


def name_keys(names: Collection[str]) -> frozenset[str]:
    """The keys of names: no term is one of them."""
    return frozenset(term_key(name) for name in names)


def read_meaning(text: str) -> str:
    """Read a meaning: on one line, at most MEANING_CHARS characters."""
    return one_line(text)[:MEANING_CHARS].strip()
