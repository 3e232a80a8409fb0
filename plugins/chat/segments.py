"""A message's segments → what was said, and what a reader sees."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from db.models import Json, JsonObject
from plugins.chat.fields import as_int, as_text
from plugins.chat.forwards import read_container
from plugins.chat.hygiene import TEXT_LIMIT
from plugins.chat.keep import bounded_segments
from plugins.chat.names import fallback_name
from plugins.chat.pieces import file_name, read_piece, segment_data, segment_kind, segments_of
from plugins.chat.records import Part

UNSUPPORTED = "[不支持的消息]"
_FORWARDS = 3
"""Forwards in one message that are opened; QQ sends one."""
_CONTAINERS = frozenset({"forward", "json", "xml"})


@dataclass(frozen=True, slots=True)
class Reading:
    """What a message array or CQ string holds. The fields are those of ``Incoming``.

    ``markdown``: it has a markdown segment, which QQ lets only official robots send.
    """

    parts: tuple[Part, ...]
    reply_key: int | None = None
    forward_id: str | None = None
    file_name: str | None = None
    string_format: bool = False
    markdown: bool = False
    segments: tuple[JsonObject, ...] = ()


@dataclass(frozen=True, slots=True)
class Rendered:
    """``text``: what was said in words, faces included, without names of mentioned members and media.

    ``body``: what a reader sees, without the quote.
    """

    text: str
    body: str


def read_segments(message: Json) -> Reading:
    """Read a message in array or CQ-string format. Never raises; an empty message has one part that says so."""
    segments = segments_of(message)
    parts: list[Part] = []
    reply_key: int | None = None
    markdown = False
    forward: str | None = None
    name: str | None = None
    room = TEXT_LIMIT
    opened = 0
    for segment in segments:
        kind, data = segment_kind(segment), segment_data(segment)
        if kind == "reply":
            reply_key = reply_key if reply_key is not None else _reply_key(data)
            continue
        if kind == "forward":
            opened += 1
        if kind in _CONTAINERS and opened <= _FORWARDS:
            part, wanted = read_container(kind, data)
        else:
            part, wanted = read_piece(kind, data), None
        forward = forward or wanted
        markdown = markdown or kind == "markdown"
        if kind == "file":
            name = name or file_name(data) or None
        if room > 0 and (part.kind == "at" or part.shown):
            parts.append(part if len(part.shown) <= room else Part(part.kind, part.shown[:room], part.user_id))
            room -= len(part.shown)
    if not parts and reply_key is None:
        parts.append(Part("other", UNSUPPORTED))
    return Reading(tuple(parts), reply_key, forward, name, isinstance(message, str), markdown, bounded_segments(segments))


def _reply_key(data: JsonObject) -> int | None:
    # 0 is what implementations write when they could not find the quoted message.
    return as_int(as_text(data.get("id"), 32)) or None


def render(parts: Sequence[Part], names: Callable[[int], str | None], quoted_author: int | None = None) -> Rendered:
    """Write a message as text. ``names`` knows members by QQ number; ``quoted_author`` wrote what the message replies to.

    QQ puts an @ of the quoted author before a reply; that first @ is left out of the body, for the quote says it already.
    """
    said = _Said()
    seen = _Seen()
    for at, part in enumerate(parts):
        if part.kind in {"text", "face"}:
            said.add(part.shown)
            seen.add(part.shown)
            continue
        said.gap = True
        if part.kind != "at":
            seen.add(part.shown)
        elif at == 0 and part.user_id and part.user_id == quoted_author:
            seen.swallow = True
        else:
            seen.add(f"@{names(part.user_id) or part.shown or fallback_name(part.user_id)}")
            seen.spaced = False
    return Rendered(said.text, seen.body)


class _Said:
    """Joins words; whatever stood between them (a mention, a picture) leaves one space."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self.gap = False

    def add(self, words: str) -> None:
        if self.gap:
            words = words.lstrip(" ")
            if words and self._pieces:
                self._pieces[-1] = self._pieces[-1].rstrip(" ") + " "
        if words:
            self._pieces.append(words)
            self.gap = False

    @property
    def text(self) -> str:
        text = "".join(self._pieces)
        return text.rstrip(" ") if self.gap else text


class _Seen:
    """Joins what is shown; a mention is parted from the words after it."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self.spaced = True
        self.swallow = False

    def add(self, shown: str) -> None:
        if self.swallow:
            shown = shown.lstrip(" ")
            self.swallow = False
        if not shown:
            return
        if not self.spaced and not shown[0].isspace():
            self._pieces.append(" ")
        self._pieces.append(shown)
        self.spaced = True

    @property
    def body(self) -> str:
        return "".join(self._pieces)
