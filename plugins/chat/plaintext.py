"""What the model wrote → what QQ can show: Markdown flattened, cut at sentence ends. Pure."""

from __future__ import annotations

import re

from markdown_it import MarkdownIt
from markdown_it.token import Token

LONGEST = 500
"""Characters of one QQ message; longer text is split."""
MOST_PARTS = 5
# A single * or _ is as often a product or a face as it is emphasis: only clear Markdown is parsed.
_MARKED = re.compile(r"\*\*|__|~~|`|\]\(|^\s{0,3}(?:#{1,6}|[-*+]|>)\s|^\s*\|.*\|\s*$", re.MULTILINE)
_THINKING = re.compile(r"<(think|thinking|reasoning)>.*?(?:</\1>|\Z)", re.DOTALL | re.IGNORECASE)
_ENDS = ("\n", "。", "！", "？", "!", "?", "；", ";", "…", "，", ",", " ")
_MARKDOWN = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])


def plain(text: str) -> str:
    """Flatten Markdown and drop reasoning. Text without markup comes back as it is, at signs and brackets included."""
    said = _THINKING.sub("", text).strip()
    if not _MARKED.search(said):
        return said
    walk = _Lines()
    for token in _MARKDOWN.parse(said):
        walk.take(token)
    return "\n".join(walk.lines).strip() or said


class _Lines:
    """Collects lines while walking block tokens."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._lists: list[int | None] = []  # the next number of each open list; None: bullets
        self._lead = ""
        self._row: list[str] | None = None

    def take(self, token: Token) -> None:
        """Look at the next token."""
        match token.type:
            case "bullet_list_open" | "ordered_list_open" | "bullet_list_close" | "ordered_list_close":
                self._list(token)
            case "list_item_open":
                self._item()
            case "inline":
                self._said(_inline(token))
            case "fence" | "code_block":
                self._said(token.content.rstrip("\n"))
            case "hr":
                self._said("——")
            case "tr_open":
                self._row = []
            case "tr_close":
                row, self._row = self._row or [], None
                self._said(" | ".join(row))
            case _:
                pass

    def _list(self, token: Token) -> None:
        if token.nesting < 0:
            self._lists.pop()
        else:
            self._lists.append(int(token.attrGet("start") or 1) if token.type.startswith("ordered") else None)

    def _item(self) -> None:
        number = self._lists[-1]
        self._lead = "  " * (len(self._lists) - 1) + ("· " if number is None else f"{number}. ")
        if number is not None:
            self._lists[-1] = number + 1

    def _said(self, words: str) -> None:
        if self._row is not None:
            self._row.append(words)
            return
        self.lines.append(self._lead + words)
        self._lead = ""


def _inline(token: Token) -> str:
    """Give the words of inline content; a link keeps its address unless it shows it."""
    words: list[str] = []
    links: list[tuple[str, int]] = []
    for child in token.children or []:
        match child.type:
            case "text" | "code_inline" | "html_inline":
                words.append(child.content)
            case "softbreak" | "hardbreak":
                words.append("\n")
            case "image":
                words.append(child.content)
            case "link_open":
                links.append((str(child.attrGet("href") or ""), len(words)))
            case "link_close":
                address, start = links.pop()
                if address and address != "".join(words[start:]):
                    words.append(f"（{address}）")
            case _:
                pass
    return "".join(words)


def split(text: str, longest: int = LONGEST, most: int = MOST_PARTS) -> list[str]:
    """Cut long text at sentence ends into at most ``most`` parts of ``longest`` characters; the rest is cut with …."""
    parts: list[str] = []
    rest = text.strip()
    while len(rest) > longest and len(parts) < most - 1:
        cut = _cut(rest, longest)
        parts.append(rest[:cut].strip())
        rest = rest[cut:].strip()
    if len(rest) > longest:
        rest = rest[: longest - 1] + "…"
    return [part for part in [*parts, rest] if part]


def _cut(text: str, longest: int) -> int:
    window = text[:longest]
    for end in _ENDS:
        at = window.rfind(end)
        if at >= longest // 2:
            return at + len(end)
    return longest
