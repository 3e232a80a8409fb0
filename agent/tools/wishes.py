"""Whether somebody's own words ask to be forgotten, not to be remembered, or to be remembered again. Pure.

What they set off cannot be undone, so a clause must say it from its first to its last word: a report (他忘了我), a question
(你忘记我了吗) or its opposite (别忘了我) is no wish.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Literal

Wish = Literal["忘记", "别记", "可以记"]

_POLITE = "(?:能不能|可不可以|可以|能|请|麻烦|拜托|帮忙|帮我|求求?你?)"
_BEFORE = (
    f"(?P<first>{_POLITE})?(?:你|您|就|那|又|还是|以后|今后|从此|(?P<wanted>现在|立刻|马上|赶紧|快点?|彻底|永远|给我|希望"
    f"|想让|要你|我(?:想让|要|希望))|(?P<polite>{_POLITE}))*"
)
_AFTER = "(?:啊|呀|哈|哦|喔|啦|(?P<urged>吧|呗|谢谢你?|拜托了?|好吗|好不好|行吗|行不行|可以吗)|(?P<asked>吗|么|嘛))*"
_MINE = "(?:的?(?:一切|所有|全部|事情?|资料|信息|记录|记忆|数据|画像))?"
_THINGS = "(?:资料|信息|记录|记忆|数据|画像)"
_ALL = "(?:所有|全部|一切)?的?"
_WHOLLY = "(?:都|全部?|彻底|给)*"
_WISHES: dict[Wish, tuple[str, ...]] = {
    "忘记": (
        f"(?:忘记|忘了|忘掉)(?:关于)?我(?:这个人)?{_MINE}",
        f"把(?:关于)?我(?:这个人)?{_MINE}{_WHOLLY}(?:忘记|忘了|忘掉)",
        f"(?:删除|删掉|删了|清除|清空|清掉|抹掉|抹去)(?:关于)?我的?{_ALL}{_THINGS}",
        f"把(?:关于)?我的?{_ALL}{_THINGS}{_WHOLLY}(?:删除|删掉|删了|清除|清空|清掉|抹掉|抹去)",
    ),
    "别记": (f"(?:别|不要|不许|不准|不用)再?(?:记得|记住|记录|记着|记下|记)(?:关于)?我(?:的话|{_MINE})了?",),
    "可以记": (
        f"(?:可以|能|允许你?)(?:再|继续|重新)?(?:记得|记住|记录|记着|记下|记)(?:关于)?我{_MINE}了?",
        f"(?:继续|重新|恢复)(?:记得|记住|记录|记着|记下|记)(?:关于)?我{_MINE}",
    ),
}
_PATTERNS: dict[Wish, re.Pattern[str]] = {
    wish: re.compile(f"{_BEFORE}(?:{'|'.join(forms)}){_AFTER}") for wish, forms in _WISHES.items()
}
_CLAUSE = re.compile(r"[^，。！,.!；;、~～…\s]+")
_DONE = re.compile("[忘删]了")
_MENTION = re.compile(r"@\S+")


def asks_for(text: str, wish: Wish, names: Iterable[str]) -> bool:
    """Tell whether one of a text's clauses asks for it; ``names`` are what the bot is called."""
    plain = _MENTION.sub(" ", text[:500])
    for name in names:
        plain = plain.replace(name, " ")
    return any(_asks(clause, wish) for clause in _CLAUSE.findall(plain))


def _asks(clause: str, wish: Wish) -> bool:
    words = clause.rstrip("?？")
    found = _PATTERNS[wish].fullmatch(words)
    if found is None:
        return False
    if found["first"] or found["polite"]:
        return True
    if found["asked"] or (len(words) < len(clause) and not found["urged"]):
        return False
    # 你忘了我 complains; 忘了我吧 asks.
    return not _DONE.search(words) or bool(found["wanted"] or found["urged"])
