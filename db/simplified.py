"""Traditional Chinese characters to simplified ones, one by one."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Protocol, cast

from opencc import OpenCC

_BLOCKS = ((0x3400, 0xA000), (0xF900, 0xFB00), (0x20000, 0x323B0))
"""Ideographs with their extensions and compatibility forms, half-open."""


class _Converter(Protocol):
    def convert(self, text: str) -> str: ...


def simplified(text: str) -> str:
    """Write every traditional character as its simplified one; a second time changes nothing."""
    return text if text.isascii() else text.translate(_table())


@cache
def _table() -> Mapping[int, str]:
    # By single characters: what a phrase becomes depends on its neighbours, and a query cuts a text elsewhere than its
    # author did. Without the simplified forms that few fonts hold: PostgreSQL may not know them as letters.
    converter = cast("_Converter", OpenCC("t2s", include_tofu_risk_dictionaries=False))
    letters = "".join(chr(code) for start, end in _BLOCKS for code in range(start, end))
    table = {letter: short for letter, short in zip(letters, _convert(converter, letters), strict=True) if letter != short}
    return {ord(letter): _last(table, short) for letter, short in table.items()}


def _convert(converter: _Converter, letters: str) -> list[str]:
    return converter.convert("\n".join(letters)).split("\n")


def _last(table: Mapping[str, str], letter: str) -> str:
    """Follow a chain of conversions to its end."""
    seen = {letter}
    while (after := table.get(letter)) is not None and after not in seen:
        seen.add(after)
        letter = after
    return letter
