"""Makes what people wrote fit for one line of the prompt. Pure text rules."""

from __future__ import annotations

import re

NAME_CHARS = 24
NEWLINE = " ⏎ "

_NEWLINES = re.compile("(?:\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029])+")
_CONTROL = re.compile("[\x00-\x08\x0e-\x1b\x1f\x7f-\x84\x86-\x9f\ud800-\udfff]")
_BIDI = "\u061c\u200e\u200f\u202a-\u202e\u2066-\u206f"
_HIDDEN_IN_TEXT = re.compile(f"[{_BIDI}\u200b\u2060-\u2064\ufeff\U000e0000-\U000e0fff]")
_INVISIBLE = (
    f"{_BIDI}\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200d\u2060-\u2064\u3164\ufe00-\ufe0f\ufeff\uffa0"
    "\U000e0000-\U000e0fff"
)
_HIDDEN_IN_NAME = re.compile(f"[{_INVISIBLE}]")
_NAME_MARKS = str.maketrans("[]【】［］〔〕「」<>:：∶﹕︰꞉#", "()()()()()()······＃")
# Our own notices open with 【 and our own quotes with [; where a member writes the same, the bracket becomes another one.
_GAP = rf"[\s{_INVISIBLE}]*"
_NOTICE_WORDS = "|".join(
    _GAP.join(word) for word in ("待回应", "记得", "系统", "提示", "现在", "规则", "黑话", "表达", "话题", "画像")
)
_MARKER = re.compile(rf"【(?={_GAP}(?:{_NOTICE_WORDS}))|\[(?={_GAP}回{_GAP}复)")


def one_line(text: str) -> str:
    """Put a text on one line: line breaks shown as ⏎, controls and bidi marks gone, our own markers broken."""
    flat = _NEWLINES.sub(NEWLINE, text.strip())
    flat = _HIDDEN_IN_TEXT.sub("", _CONTROL.sub("", flat)).replace("\t", " ")
    return _MARKER.sub("〔", flat).strip()


def plain_name(name: str) -> str:
    """Make a name that cannot look like a label, a tag or a line; ``无名`` when nothing is left."""
    flat = _NEWLINES.sub(" ", name).replace("\t", " ").translate(_NAME_MARKS)
    flat = " ".join(_HIDDEN_IN_NAME.sub("", _CONTROL.sub("", flat)).split())
    return flat[:NAME_CHARS].strip() or "无名"


def cut(text: str, limit: int) -> str:
    """Cut a text to ``limit`` characters and say how long it was."""
    if len(text) <= limit:
        return text
    return f"{text[:limit]}…(共{len(text)}字)"


def guard(text: str) -> str:
    """Break our own markers in a text of many lines."""
    return _MARKER.sub("〔", text)
