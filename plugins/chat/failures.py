"""What NapCat says when a message did not go out → why. Pure.

The wordings are those that NapCat passes on from QQ, as its issue tracker shows them (NapCatQQ #182, #600, #808).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from db.models import SendReason

_DETAIL = 300
_RESULT = re.compile(r'"result"\s*:\s*(-?\d+)')
_SAID = re.compile(r'"errMsg"\s*:\s*"((?:[^"\\]|\\.)*)"')

_WORDS: tuple[tuple[SendReason, re.Pattern[str]], ...] = (
    (
        "removed",
        re.compile(
            r"移出|踢出|不在(?:该|本|此)?群|不是(?:该|本)?群成员|退出(?:该|本)群|群(?:聊)?(?:不存在|已解散)"
            r"|not in (?:the )?group",
            re.I,
        ),
    ),
    ("muted", re.compile(r"禁言|\bmuted?\b|shut ?up|\bbanned\b", re.I)),
    ("offline", re.compile(r"离线|掉线|未登录|登录(?:已)?失效|not online|offline|not logged|kicked offline", re.I)),
    ("rich_media", re.compile(r"rich ?media|富媒体|图片上传|upload failed", re.I)),
    (
        "unknown_user",
        re.compile(
            r"uid.*(?:不存在|无效|未找到|undefined)|(?:用户|成员|好友).*(?:不存在|未找到|找不到)|无法获取用户"
            r"|get uid|no such user",
            re.I,
        ),
    ),
)
# QQ's own result codes where the words are missing or in another language.
_CODES: dict[str, SendReason] = {"110": "removed", "120": "muted"}


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a send failed. ``unknown``: nobody knows whether it arrived, so it must not be sent again by itself."""

    status: Literal["refused", "unknown"]
    reason: SendReason
    detail: str


def read_failure(*texts: str) -> Failure:
    """Read the message and wording of a failed answer."""
    words = next((text for text in texts if text.strip()), "")
    said = _SAID.search(words)
    detail = " ".join((said[1] if said and said[1] else words).split())[:_DETAIL]
    for reason, pattern in _WORDS:
        if pattern.search(words):
            return Failure("refused", reason, detail)
    code = _RESULT.search(words)
    if code and code[1] in _CODES:
        return Failure("refused", _CODES[code[1]], detail)
    if re.search(r"timeout|timed out|超时", words, re.IGNORECASE):
        return Failure("unknown", "unconfirmed", detail)
    return Failure("refused", "other", detail or "没有说明原因")


def unconfirmed(detail: str) -> Failure:
    """No answer came: the socket broke or nobody replied in time."""
    return Failure("unknown", "unconfirmed", detail)
