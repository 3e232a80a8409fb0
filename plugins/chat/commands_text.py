"""``/群友 …`` commands, read from what was said. Who may use them is decided elsewhere."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from typing import Final, Literal

CommandKind = Literal["status", "enable", "disable", "stop", "quiet", "unquiet", "persona", "forget", "unlearn", "learn", "help"]

_LONGEST = 7 * 24 * 60
_DEFAULT_QUIET = 30
_PERSONA_LIMIT = 64
_TEXT_LIMIT = 400
_COMMAND = re.compile(r"\s*[/／]\s*群友(?:\s+|$)(.*)", re.DOTALL)
_GLUED = re.compile(r"\s*[/／]\s*群友(\S.*)", re.DOTALL)
_DURATION = re.compile(r"(?:(\d{1,6})(?:d|天))?(?:(\d{1,6})(?:h|小时))?(?:(\d{1,6})(?:m|min|分|分钟)?)?", re.ASCII)
_PLAIN: Final[dict[str, CommandKind]] = {
    "状态": "status",
    "开启": "enable",
    "关闭": "disable",
    "停": "stop",
    "忘记我": "forget",
    "别记我": "unlearn",
    "可以记我": "learn",
    "帮助": "help",
    "安静": "quiet",
    "人格": "persona",
}
USAGE: Final = "/群友 状态｜开启｜关闭｜停｜安静 30m｜安静 取消｜人格 [名]｜忘记我｜别记我｜可以记我｜帮助"


@dataclass(frozen=True, slots=True)
class Command:
    """A command. ``minutes`` belongs to ``quiet``; ``name`` to ``persona`` (empty: only ask which).

    ``help`` with an ``error`` (Chinese) answers a command that could not be understood.
    """

    kind: CommandKind
    minutes: int = 0
    name: str = ""
    error: str = ""


def read_command(text: str) -> Command | None:
    """Read a command from a message's words, a leading mention already left out. None: it is no command."""
    if len(text) > _TEXT_LIMIT:
        return None
    spaced = _COMMAND.fullmatch(text)
    glued = None if spaced else _GLUED.fullmatch(text)
    if spaced:
        words = spaced[1].split()
    elif glued and (words := glued[1].split()) and words[0] in _PLAIN:
        # 「/群友状态」 is a command, 「/群友们好」 is talk.
        pass
    else:
        return None
    if not words:
        return Command("help")
    kind, argument = _PLAIN.get(words[0]), " ".join(words[1:])
    if kind is None:
        return _misunderstood(f"没有「{words[0][:20]}」这个命令")
    if kind == "quiet":
        return _quiet(argument)
    if kind == "persona":
        return Command("persona", name=argument[:_PERSONA_LIMIT])
    if argument:
        return _misunderstood(f"「{words[0]}」后面不用写别的")
    return Command(kind)


def _quiet(argument: str) -> Command:
    if not argument:
        return Command("quiet", minutes=_DEFAULT_QUIET)
    if argument in {"取消", "结束"}:
        return Command("unquiet")
    minutes = read_minutes(argument)
    if minutes is None:
        return _misunderstood("没看懂要安静多久，例如：安静 30m、安静 2h、安静 90（分钟）")
    if not 1 <= minutes <= _LONGEST:
        return _misunderstood("安静的时间要在 1 分钟到 7 天之间")
    return Command("quiet", minutes=minutes)


def read_minutes(text: str) -> int | None:
    """Read a duration in minutes: ``30m``, ``2h``, ``1h30m``, ``1天``, ``半小时``; a bare number is minutes."""
    compact = "".join(unicodedata.normalize("NFKC", text).lower().split())
    if compact == "半小时":
        return 30
    match = _DURATION.fullmatch(compact)
    if match is None or not compact:
        return None
    days, hours, minutes = (int(number or 0) for number in match.groups())
    return days * 24 * 60 + hours * 60 + minutes


def _misunderstood(error: str) -> Command:
    return Command("help", error=error)
