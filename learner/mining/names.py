"""Names as keys that are no terms. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable

from db.slang_terms import term_key

_PARTS = re.compile(r"[\W_]+")
SHORTEST = 2


def name_keys(names: Iterable[str]) -> frozenset[str]:
    """Give the keys of names and of their parts: 糖糖·减肥第3天 is 糖糖 too."""
    keys: set[str] = set()
    for name in names:
        keys.add(term_key(name))
        keys.update(term_key(part) for part in _PARTS.split(name))
    return frozenset(key for key in keys if len(key) >= SHORTEST)
