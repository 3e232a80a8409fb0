"""How people write a term: the miner counts folded letters, people read capitals. Pure."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence


def surface(folded: str, said: Sequence[str]) -> str:
    """Find the most frequent way in which a folded term is written in texts, in letters of common width; else as it is."""
    if not any(char.isascii() and char.isalpha() for char in folded):
        return folded
    pattern = re.compile(re.escape(folded), re.IGNORECASE)
    written = Counter(found[0] for text in said for found in pattern.finditer(unicodedata.normalize("NFKC", text)))
    return max(written, key=lambda form: (written[form], form)) if written else folded
