"""The original segments of a message, bounded, as they are stored beside what was read from them."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence

from db.models import Json, JsonObject
from plugins.chat.fields import as_int, as_text
from plugins.chat.hygiene import clean_text

SEGMENTS_BYTES = 65_536
_SEGMENTS, _STRING, _DEPTH, _ITEMS = 500, 16_384, 12, 200
# However it is escaped, a character takes at most six bytes of JSON: below this nothing needs to be measured.
_SURELY_SMALL = SEGMENTS_BYTES // 6 - 100
_PAYLOADS = ("base64://", "data:")


def bounded_segments(segments: Sequence[JsonObject]) -> tuple[JsonObject, ...]:
    """Copy segments for storing: payloads cut out, long texts cut, 64 KiB of UTF-8 JSON in all.

    What is larger is kept as bare types. The result can be stored as jsonb: no NUL, no lone surrogate, no NaN.
    """
    keeper = _Keeper()
    kept = tuple(keeper.object(segment, 1) for segment in segments[:_SEGMENTS])
    if keeper.size <= _SURELY_SMALL:
        return kept
    if not keeper.full and len(json.dumps(kept, ensure_ascii=False).encode()) <= SEGMENTS_BYTES:
        return kept
    return tuple({"type": as_text(segment.get("type"), 40)} for segment in segments[:_SEGMENTS])


class _Keeper:
    """Copies values and counts what the copy will take, so that a hostile message is given up on early."""

    def __init__(self) -> None:
        self.size = 0

    @property
    def full(self) -> bool:
        return self.size > SEGMENTS_BYTES

    def object(self, value: JsonObject, depth: int) -> JsonObject:
        kept: dict[str, Json] = {}
        for key, inner in value.items():
            if self.full or len(kept) >= _ITEMS:
                break
            self.size += len(key) + 6
            kept[clean_text(key, 200)] = self._value(inner, depth + 1)
        return kept

    def _value(self, value: Json, depth: int) -> Json:
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, bool) or value is None:
            self.size += 5
            return value
        if isinstance(value, int):
            self.size += 20
            return as_int(value)
        if isinstance(value, float):
            self.size += 24
            return value if math.isfinite(value) else None
        if self.full or depth > _DEPTH:
            return None
        if isinstance(value, Mapping):
            return self.object(value, depth)
        self.size += 2 * len(value)
        return [self._value(inner, depth + 1) for inner in value[:_ITEMS]]

    def _text(self, value: str) -> str:
        if value.startswith(_PAYLOADS):
            value = value[: value.index(":") + 1] + "…"
        text = clean_text(value, _STRING)
        self.size += len(text) + 4
        return text
