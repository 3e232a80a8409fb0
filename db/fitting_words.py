"""How well a row's search text fits what is being said: by the words that both hold, rare ones telling more."""

from __future__ import annotations

from collections.abc import Sequence

from db.text_query import read_query

ENOUGH_WORDS = 2
"""Words that a row must share with a text to fit it; one is enough where it is rare."""
RARE = 50
"""A word is rare that stands in fewer than one of so many texts."""

WORDS = """
    stats AS (
        SELECT coalesce(max(documents), 1)::float8 AS documents FROM search_stats
    ), words AS (
        SELECT w.needle, ln(1 + s.documents / (1 + coalesce(t.df, 0))) AS weight,
               coalesce(t.df, 0) * %(rare)s < s.documents AS rare
        FROM unnest(%(words)s::text[], %(needles)s::text[]) AS w (word, needle)
        CROSS JOIN stats s
        LEFT JOIN search_terms t ON t.term = w.word
    )
"""
"""The words of a text as a part of WITH, with what each tells."""
WEIGHT = "CASE WHEN count(*) >= %(enough)s OR bool_or(w.rare) THEN sum(w.weight) END AS weight"
"""How well those of ``words w`` fit that a row holds; null: not well enough."""


def word_values(text: str, most: int) -> dict[str, Sequence[str] | int]:
    """Give the parameters of WORDS and WEIGHT: the first ``most`` words of a text."""
    query = read_query(0, text)
    words = [term for term in query.terms if term.word][:most] if query else []
    return {
        "words": [term.text for term in words],
        "needles": [term.needle for term in words],
        "rare": RARE,
        "enough": ENOUGH_WORDS,
    }
