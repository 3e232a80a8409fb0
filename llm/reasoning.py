"""Reasoning text out of answers: it is never stored, shown or sent."""

from __future__ import annotations

import re

_TAGS = r"(?:think|thinking|thought|reasoning)"
_CLOSED = re.compile(rf"<\s*({_TAGS})\b[^<>]*>.*?<\s*/\s*\1\s*>", re.IGNORECASE | re.DOTALL)
_UNOPENED = re.compile(rf"^.*<\s*/\s*{_TAGS}\s*>", re.IGNORECASE | re.DOTALL)
_UNCLOSED = re.compile(rf"<\s*{_TAGS}\b[^<>]*>.*$", re.IGNORECASE | re.DOTALL)


def strip_reasoning(text: str) -> str:
    """Drop ``<think>…</think>`` and its kin.

    A closing tag without an opening one ends reasoning that began before the text; an opening tag without a closing
    one begins reasoning that never ended.
    """
    if "<" not in text:
        return text.strip()
    text = _CLOSED.sub("", text)
    text = _UNOPENED.sub("", text)
    return _UNCLOSED.sub("", text).strip()
