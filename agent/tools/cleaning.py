"""What is taken out of a reply before it may leave. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from rapidfuzz import fuzz

from llm.hygiene import NEWLINE
from llm.reasoning import strip_reasoning

SAME_RATIO = 90
SHORT_CHARS = 6
"""Replies shorter than this (好、在的) may be said again."""

_COPIED_LINE = re.compile(
    r"^\s*(?:#\d+\s+(?:\d\d-\d\d\s+)?(?:\d{1,2}:\d\d\s+)?(?:[^\s\[\]:：]{1,24}\[[^\[\]]{1,12}\]\s*[:：]\s*)?"
    r"|[^\s\[\]:：]{1,24}\[我\]\s*[:：]\s*)"
)
_UNSENDABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]")
_NOT_WORDS = re.compile(r"[\W_]+")


def clean_reply(content: str, speakers: Iterable[str]) -> str:
    """Strip reasoning, a copied line head and member tags; ``speakers`` are the ``小明[3]`` that the lines showed."""
    text = strip_reasoning(content).replace(NEWLINE, "\n").replace("⏎", "\n")
    text = _COPIED_LINE.sub("", _UNSENDABLE.sub("", text))
    for tagged in speakers:
        text = text.replace(tagged, tagged[: tagged.rindex("[")])
    return text.strip()


def repeats(text: str, said: Sequence[str]) -> bool:
    """Tell whether a text is nearly one of those already said; very short ones never are."""
    words = _words(text)
    return len(words) >= SHORT_CHARS and any(fuzz.ratio(words, _words(other)) >= SAME_RATIO for other in said)


def _words(text: str) -> str:
    return _NOT_WORDS.sub("", text).casefold()
