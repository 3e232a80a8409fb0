"""Field types of what models answer: forgiving in form, strict in substance. Pure."""

from __future__ import annotations

import re
from typing import Annotated, TypeAlias, cast

from pydantic import AfterValidator, BeforeValidator, Field, ValidationError, ValidatorFunctionWrapHandler, WrapValidator

MOST_LABELS = 20
MOST_ITEMS = 200
_LABEL = re.compile(r"[\s\[【(（#＃]*(\d{1,18})[\s\]】)）]*")
_CJK = re.compile("[\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")
_LETTER = re.compile(r"[^\W\d_]")


def _label(value: object) -> object:
    """Read ``12``, ``"12"``, ``"#12"`` and ``"[#12]"``."""
    if isinstance(value, str) and (match := _LABEL.fullmatch(value)):
        return int(match[1])
    return value


def _labels(value: object) -> object:
    """Read one label, or several in one text, as a list."""
    if isinstance(value, str):
        return re.split(r"[,，、;；\s]+", value.strip()) if value.strip() else []
    return [value] if isinstance(value, int) else value


def _chinese(value: str) -> str:
    text = value.strip()
    if _LETTER.search(text) and not _CJK.search(text):
        raise ValueError("请用中文写")
    return text


Label: TypeAlias = Annotated[int, Field(ge=1), BeforeValidator(_label)]
"""The number of a message as the transcript shows it."""
Labels: TypeAlias = Annotated[list[Label], Field(min_length=1), BeforeValidator(_labels)]
"""Evidence: never empty. Take at most MOST_LABELS of them."""
Chinese: TypeAlias = Annotated[str, AfterValidator(_chinese)]
"""A text for people: refused where it holds letters and no Chinese character."""
Confidence: TypeAlias = Annotated[float, Field(ge=0, le=1)]


def _one_by_one(value: object, handler: ValidatorFunctionWrapHandler) -> object:
    if not isinstance(value, list) or not value:
        return handler(value)
    good: list[object] = []
    refused: ValidationError | None = None
    for item in cast("list[object]", value)[:MOST_ITEMS]:
        try:
            good += cast("list[object]", handler([item]))
        except ValidationError as error:
            refused = refused or error
    if refused is not None and not good:
        raise refused
    return good


EACH = WrapValidator(_one_by_one)
"""For lists: an item that does not fit costs only itself; where none fits, the answer is refused."""
