"""What models want before a text. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

from llm.embedding.types import TextKind

_TASK = "Given a line of a group chat, retrieve what was said or is remembered about it"


@dataclass(frozen=True, slots=True)
class Prefixes:
    """What stands before a question and before a passage."""

    query: str = ""
    passage: str = ""

    def put(self, kind: TextKind, text: str) -> str:
        """Put the prefix before a text."""
        return (self.query if kind == "query" else self.passage) + text


# As the models' own pages say; the first pattern that fits counts.
_TABLE: tuple[tuple[re.Pattern[str], Prefixes], ...] = (
    (re.compile(r"e5-.*instruct|qwen3-embedding"), Prefixes(f"Instruct: {_TASK}\nQuery: ")),
    (re.compile(r"(^|[/_-])(multilingual-)?e5-(small|base|large)"), Prefixes("query: ", "passage: ")),
    (re.compile(r"bge-(small|base|large)-zh"), Prefixes("为这个句子生成表示以用于检索相关文章：")),
    (re.compile(r"bge-(small|base|large)-en"), Prefixes("Represent this sentence for searching relevant passages: ")),
    (re.compile(r"nomic-embed-text"), Prefixes("search_query: ", "search_document: ")),
    (re.compile(r"mxbai-embed-large"), Prefixes("Represent this sentence for searching relevant passages: ")),
)


def prefixes_of(model: str) -> Prefixes:
    """Look up a model's prefixes by its name; none for a model that is not known to want any."""
    name = model.lower()
    return next((prefixes for pattern, prefixes in _TABLE if pattern.search(name)), Prefixes())
