"""Reading single values out of JSON that others wrote: wrong types become nothing, never an error."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Final, cast

from db.models import Json, JsonObject
from plugins.chat.hygiene import TEXT_LIMIT, clean_text

EMPTY: Final[JsonObject] = {}
_INT64 = 1 << 63
_INNER_JSON_LIMIT = 256 * 1024


def as_int(value: Json) -> int | None:
    """Read a 64-bit number, also from a text; None for everything else."""
    if type(value) is int:
        return value if -_INT64 <= value < _INT64 else None
    if isinstance(value, str):
        text = value.strip()
        digits = text[1:] if text.startswith("-") else text
        if len(digits) <= 19 and digits.isascii() and digits.isdigit():
            return as_int(int(text))
        return None
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return int(value)
    return None


def as_id(value: Json) -> int:
    """Read a QQ or group number; 0 when there is none."""
    number = as_int(value)
    return number if number is not None and number > 0 else 0


def as_text(value: Json, limit: int = TEXT_LIMIT) -> str:
    """Read a storable text; numbers are spelled out, everything else is empty."""
    if isinstance(value, str):
        return clean_text(value, limit)
    number = as_int(value)
    return "" if number is None else str(number)


def as_flag(value: Json) -> bool | None:
    """Read a truth value, also from 0, 1, "true" and "false"; None when it says neither."""
    if isinstance(value, bool):
        return value
    return {"1": True, "true": True, "0": False, "false": False}.get(as_text(value, 8).lower())


def as_object(value: Json) -> JsonObject:
    """Read an object; empty for everything else."""
    return value if isinstance(value, Mapping) else EMPTY


def as_list(value: Json) -> Sequence[Json]:
    """Read a list; empty for everything else (a text is no list)."""
    return value if isinstance(value, list | tuple) else ()


def inner_json(text: str) -> Json:
    """Parse JSON that came inside a text; None when it is no JSON, too long or too deep."""
    if len(text) > _INNER_JSON_LIMIT:
        return None
    try:
        return cast("Json", json.loads(text))
    except (ValueError, RecursionError):
        return None
