"""Vectors by text, so that what was just embedded is not embedded again."""

from __future__ import annotations

from collections import OrderedDict

from llm.embedding.types import TextKind, Values

ENTRIES = 1000


class VectorCache:
    """The latest vectors of each kind of text; the least recently used go first.

    The kinds have room of their own, so that a long background run does not push out what people ask.
    """

    def __init__(self, entries: int = ENTRIES) -> None:
        self._entries = entries
        self._kept: dict[TextKind, OrderedDict[str, Values]] = {"query": OrderedDict(), "passage": OrderedDict()}

    def get(self, kind: TextKind, text: str) -> Values | None:
        """Find a text's vector."""
        kept = self._kept[kind]
        values = kept.get(text)
        if values is not None:
            kept.move_to_end(text)
        return values

    def put(self, kind: TextKind, text: str, values: Values) -> None:
        """Keep a text's vector."""
        kept = self._kept[kind]
        kept[text] = values
        kept.move_to_end(text)
        if len(kept) > self._entries:
            kept.popitem(last=False)
