"""The CQ string format: a message as one text with ``[CQ:type,key=value]`` codes in it."""

from __future__ import annotations

import re

from db.models import JsonObject

# Some senders put an unescaped ``[object Object]`` into a value; any other bracket inside a code makes it plain text.
_CODE = re.compile(r"\[CQ:([A-Za-z0-9_.\-]{1,40})((?:,(?:[^\[\]]|\[object Object\])*)?)\]")
_ENTITY = re.compile(r"&(?:amp|#91|#93|#44);")
_MEANING = {"&amp;": "&", "&#91;": "[", "&#93;": "]", "&#44;": ","}


def decode_cq(message: str, limit: int = 1000) -> list[JsonObject]:
    """Split a CQ string into about ``limit`` segments in the array format; the rest is dropped. Malformed codes stay text."""
    segments: list[JsonObject] = []
    end = 0
    for match in _CODE.finditer(message):
        if len(segments) >= limit:
            return segments
        if match.start() > end:
            segments.append(_text(message[end : match.start()]))
        segments.append({"type": match[1], "data": _parameters(match[2])})
        end = match.end()
    if end < len(message):
        segments.append(_text(message[end:]))
    return segments


def _text(escaped: str) -> JsonObject:
    return {"type": "text", "data": {"text": _unescape(escaped)}}


def _parameters(listed: str) -> dict[str, str]:
    pairs = (pair.partition("=") for pair in listed.split(",") if pair)
    return {key.strip(): _unescape(value) for key, equals, value in pairs if equals}


def _unescape(text: str) -> str:
    if "&" not in text:
        return text
    # One pass: "&amp;#91;" is the text "&#91;", not a bracket.
    return _ENTITY.sub(lambda entity: _MEANING[entity[0]], text)
