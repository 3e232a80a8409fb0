"""The Chinese templates of the prompt, read once."""

from __future__ import annotations

from functools import cache
from pathlib import Path

_FOLDER = Path(__file__).resolve().parent


@cache
def template(name: str) -> str:
    """Give a template's text without the last line break."""
    return (_FOLDER / f"{name}.md").read_text(encoding="utf-8").strip()


@cache
def table(name: str) -> dict[str, str]:
    """Give a template of ``key: text`` lines as a mapping."""
    pairs = (line.partition(": ") for line in template(name).splitlines())
    return {key: text for key, _, text in pairs}
