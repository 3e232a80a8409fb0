"""What a member is called where people or the model read it."""

from __future__ import annotations

from functools import lru_cache

from plugins.chat.hygiene import is_blank, one_line

NAME_LIMIT = 40
UNKNOWN_MEMBER = "未知成员"


@lru_cache(maxsize=4096)
def show_name(card: str, nickname: str, user_id: int) -> str:
    """Choose the name to show: the card, else the nickname, else ``用户`` and the last four digits of the QQ number.

    One line, no control, zero-width or bidi characters, 40 characters at most. A name that draws nothing counts as missing.
    """
    return visible_name(card) or visible_name(nickname) or fallback_name(user_id)


def visible_name(raw: str) -> str:
    """Make one name fit to show; empty when nothing of it can be seen."""
    name = one_line(raw, NAME_LIMIT)
    return "" if is_blank(name) else name


def fallback_name(user_id: int) -> str:
    """Name a member of whom only the QQ number is known; 0 is a member that could not be resolved."""
    return f"用户{abs(user_id) % 10000:04d}" if user_id else UNKNOWN_MEMBER
