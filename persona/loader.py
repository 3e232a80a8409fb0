"""Personas: Markdown files with a small front matter, the owner's folder before the built-in one."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

BUILT_IN = Path(__file__).resolve().parent
MAX_CHARS = 20_000
_NAME = re.compile(r"[\w-]{1,40}")
_SPLIT = re.compile(r"[,，、]")


class PersonaMissing(LookupError):
    """No usable persona of that name; the text says so in Chinese and lists what exists."""


@dataclass(frozen=True, slots=True)
class Persona:
    """Who the bot is. ``names`` is what people call it, never empty; ``text`` goes into the system prompt."""

    name: str
    title: str
    names: tuple[str, ...]
    text: str


def load_persona(name: str, data_dir: Path) -> Persona:
    """Read a persona from ``data_dir/persona/`` or, failing that, the built-in ones. Raises PersonaMissing."""
    return _read(name, _find(name, data_dir))


def list_personas(data_dir: Path) -> tuple[str, ...]:
    """Name the personas that exist, the owner's and the built-in ones, sorted."""
    found = {path.stem for folder in (data_dir / "persona", BUILT_IN) for path in folder.glob("*.md")}
    return tuple(sorted(name for name in found if _NAME.fullmatch(name)))


class Personas:
    """Personas kept in memory and read again when their file changes."""

    def __init__(self, data_dir: Path) -> None:
        self._data_dir = data_dir
        self._read: dict[Path, tuple[int, Persona]] = {}

    def get(self, name: str) -> Persona:
        """Give a persona as its file says now. Raises PersonaMissing."""
        path = _find(name, self._data_dir)
        try:
            changed = path.stat().st_mtime_ns
        except OSError as error:
            raise _missing(name, self._data_dir) from error
        known = self._read.get(path)
        if known is not None and known[0] == changed:
            return known[1]
        persona = _read(name, path)
        self._read[path] = (changed, persona)
        return persona

    def names(self) -> tuple[str, ...]:
        """Name the personas that exist."""
        return list_personas(self._data_dir)


def _find(name: str, data_dir: Path) -> Path:
    if _NAME.fullmatch(name):
        for folder in (data_dir / "persona", BUILT_IN):
            path = folder / f"{name}.md"
            if path.is_file():
                return path
    raise _missing(name, data_dir)


def _missing(name: str, data_dir: Path) -> PersonaMissing:
    exist = "、".join(list_personas(data_dir))
    return PersonaMissing(
        f"没有名为“{name[:40]}”的人格；现有：{exist}。自己的人格放在 {data_dir / 'persona'} 里，文件名就是人格名加 .md"
    )


def _read(name: str, path: Path) -> Persona:
    try:
        source = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise PersonaMissing(f"人格文件 {path} 读不出来，应为 UTF-8 编码的 Markdown：{error}") from error
    head, text = _front_matter(source)
    if not text or len(text) > MAX_CHARS:
        raise PersonaMissing(f"人格文件 {path} 的正文应有 1 到 {MAX_CHARS} 个字，现在是 {len(text)} 个")
    names = tuple(part.strip() for part in _SPLIT.split(head.get("names", "")) if part.strip())
    title = head.get("title", "") or name
    return Persona(name=name, title=title, names=names or (title,), text=text)


def _front_matter(source: str) -> tuple[dict[str, str], str]:
    """Split ``---`` front matter of ``key: value`` lines from the text below it."""
    lines = source.strip().splitlines()
    if not lines or lines[0].strip() != "---":
        return {}, source.strip()
    head: dict[str, str] = {}
    for number, line in enumerate(lines[1:], start=1):
        if line.strip() == "---":
            return head, "\n".join(lines[number + 1 :]).strip()
        key, _, value = line.partition(":")
        head[key.strip().lower()] = value.strip()
    return {}, source.strip()
