"""Mends the arguments that models send before they are validated. Pure."""

from __future__ import annotations

import ast
import json
import re
import types
from typing import Union, cast, get_args, get_origin

from pydantic import BaseModel, ValidationError

from db.models import Json

_WRAPPERS = ("arguments", "parameters", "args", "input", "params")
_DEPTH = 4
_FENCE = re.compile(r"^\s*```\w*\s*|\s*```\s*$")
_TRAILING_COMMA = re.compile(r",(\s*[}\]])")
_CLOSINGS = ("}", "]}", "}}", "]}}")
# A NUL as JSON writes it, behind an even number of backslashes.
_NUL = re.compile(r"(?<!\\)((?:\\\\)*)\\u0000")
MAX_RAW_CHARS = 50_000


class ArgumentsBroken(ValueError):
    """The arguments cannot be read or do not fit; the text is Chinese, for the model."""


def parse_arguments(raw: str) -> Json:
    """Read argument text that should be JSON, also with fences, trailing commas, raw line breaks or Python quotes.

    A text that ends inside a string stays broken: half a message must not be sent. Raises ArgumentsBroken.
    """
    text = _FENCE.sub("", raw[:MAX_RAW_CHARS]).strip()
    if not text:
        return {}
    start, end = text.find("{"), text.rfind("}")
    candidates = [text, _TRAILING_COMMA.sub(r"\1", text)]
    if 0 <= start < end:
        candidates.append(text[start : end + 1])
    candidates += [text + closing for closing in _CLOSINGS]
    for candidate in candidates:
        try:
            return cast(Json, json.loads(candidate, strict=False))
        except (ValueError, RecursionError):
            continue
    try:
        value = cast(object, ast.literal_eval(text))
    except (ValueError, SyntaxError, MemoryError, RecursionError, TypeError):
        value = None
    if isinstance(value, dict):
        return cast(Json, value)
    raise ArgumentsBroken("参数不是完整的 JSON，这次调用没有执行。请重新调用，参数写成一个 JSON 对象。")


def coerce_arguments(raw: Json, model: type[BaseModel]) -> dict[str, Json]:
    """Bring arguments into the shape that the model's fields expect; values are left to validation.

    Undoes wrappers and double encoding, matches names across camelCase and snake_case, wraps single values for lists,
    reads JSON in a text for lists and drops nulls. Raises ArgumentsBroken for what is no object.
    """
    given = _unwrap(raw, model)
    fields = {_plain(name): name for name in model.model_fields}
    mended: dict[str, Json] = {}
    for key, value in given.items():
        name = fields.get(_plain(str(key)))
        if name is None or value is None:
            continue
        field = model.model_fields[name]
        # A required text may well be the word None.
        if _says_null(value) and not field.is_required():
            continue
        mended[name] = scrubbed(_shape(value, field.annotation))
    return mended


def encodable(text: str) -> str:
    """Drop NUL and replace lone surrogates: neither could be stored."""
    return text.replace("\x00", "").encode("utf-8", "replace").decode("utf-8")


def scrubbed(value: Json) -> Json:
    """Drop NUL and replace lone surrogates in all texts of a value."""
    text = _NUL.sub(r"\1", json.dumps(value, ensure_ascii=False))
    return cast(Json, json.loads(encodable(text)))


def explain(error: ValidationError, model: type[BaseModel]) -> str:
    """Say in Chinese which arguments are wrong and what the tool takes."""
    wrong: list[str] = []
    for item in error.errors(include_url=False, include_input=False):
        name = str(item["loc"][0]) if item["loc"] else ""
        wrong.append(f"{name}：{_REASONS.get(item['type'], '格式不对')}")
    return f"参数有误（{'；'.join(dict.fromkeys(wrong))}），这次调用没有执行。可用参数：{'、'.join(model.model_fields)}。"


_REASONS = {
    "missing": "缺少",
    "int_parsing": "应为整数",
    "int_type": "应为整数",
    "string_type": "应为文字",
    "literal_error": "不在可选值里",
    "list_type": "应为列表",
    "greater_than_equal": "太小",
    "less_than_equal": "太大",
    "string_too_short": "不能为空",
}


def _unwrap(raw: Json, model: type[BaseModel]) -> dict[str, Json]:
    value = raw
    for _ in range(_DEPTH):
        if isinstance(value, str):
            value = parse_arguments(value)
            continue
        if not isinstance(value, dict):
            break
        inner = [key for key in value if key.lower() in _WRAPPERS and key not in model.model_fields]
        if len(inner) != 1 or not isinstance(value[inner[0]], str | dict) or _knows(value, model):
            return value
        value = value[inner[0]]
    if isinstance(value, dict):
        return value
    raise ArgumentsBroken("参数应为一个 JSON 对象，这次调用没有执行。")


def _knows(value: dict[str, Json], model: type[BaseModel]) -> bool:
    fields = {_plain(name) for name in model.model_fields}
    return any(_plain(key) in fields for key in value)


def _plain(key: str) -> str:
    return key.replace("_", "").replace("-", "").strip().lower()


def _says_null(value: Json) -> bool:
    return isinstance(value, str) and value.strip().lower() in ("null", "none", "undefined")


def _shape(value: Json, annotation: object) -> Json:
    if not _takes_list(annotation):
        return value
    if isinstance(value, str):
        value = _listed(value.strip())
    return [item for item in value if item is not None] if isinstance(value, list) else [value]


def _listed(text: str) -> Json:
    """Read a list from a text: JSON, or items between commas, with or without brackets and quotes."""
    if text.startswith("[") and text.endswith("]"):
        try:
            return cast(Json, json.loads(text))
        except (ValueError, RecursionError):
            text = text[1:-1]
    items = (part.strip(" \t\n'\"") for part in re.split("[,，、]", text))
    return [item for item in items if item]


def _takes_list(annotation: object) -> bool:
    origin = get_origin(annotation)
    if origin is Union or origin is types.UnionType:
        return any(_takes_list(option) for option in get_args(annotation))
    return origin in (list, tuple)
