"""What may be a trait, whatever a model says: it stands alone, and whom it names is beyond doubt. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence

from db.learned_models import TraitKind
from db.searchtext import content_key, fold
from db.trait_names import Named
from db.traits import CONTENT_CHARS
from llm.hygiene import one_line, plain_name
from llm.memory.claims import ClaimUnfit, read_claim

ALIAS_CHARS = 24
_CJK = re.compile("[\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")
_TAG = re.compile(r"\[\s*(\d{1,9})\s*\]")
_FALSE_TAG = re.compile(r"[\[【〔]\s*(?:我|你|机器人|系统|待回应)")
_QUOTES = "「」『』“”‘’\"'《》 "
# Who runs the group or the bot is not learned from talk.
_RANK = re.compile("(?:是|当|做|担任|身为).{0,8}(?:群主|管理员|超管|主人|开发者|超级用户|系统)")
# Who goes by such a name would be taken for somebody else.
_TITLES = frozenset({"群主", "管理员", "管理", "系统", "主人", "机器人", "大家", "全体成员", "所有人", "群友", "本群"})


def read_content(kind: TraitKind, text: str) -> str | None:
    """Read what a trait says, on one line. None: it is too long, not Chinese, or leans on what was said around it."""
    if kind == "alias":
        return _alias(text)
    try:
        content = one_line(read_claim(text))
    except ClaimUnfit:
        return None
    fit = len(content) <= CONTENT_CHARS and _CJK.search(content) and not (_FALSE_TAG.search(content) or _RANK.search(content))
    return content if fit else None


def _alias(text: str) -> str | None:
    name = one_line(text).strip(_QUOTES)
    fit = 0 < len(name) <= ALIAS_CHARS and plain_name(name) == name and any(char.isalnum() for char in name)
    return name if fit and name not in _TITLES and "@" not in name else None


def tags(text: str) -> list[int]:
    """The short numbers that a text names members by."""
    return [int(found[1]) for found in _TAG.finditer(text)]


def alias_fits(alias: str, user_id: int, said: Collection[str], named: Sequence[Named], own: Collection[str]) -> bool:
    """Tell whether an alias was said by the member, and is nobody's name: not the bot's, not another member's, not theirs."""
    key = content_key(alias)
    taken = {content_key(name) for name in own} | {content_key(item.name) for item in named if item.user_id != user_id}
    known = {content_key(item.name) for item in named if item.user_id == user_id and item.present}
    folded = "".join(fold(alias).split())
    return key not in taken and key not in known and any(folded in "".join(fold(text).split()) for text in said)


def settle_names(
    kind: TraitKind, content: str, user_id: int, named: Sequence[Named], numbered: Mapping[int, Named]
) -> str | None:
    """Write members as ``小明[3]``. None: a number is invented or belongs to another name, or several members have the name.

    Names without a number are looked for in relations only: elsewhere they may be ordinary words.
    """
    settled = _tagged(content, named, numbered)
    if settled is not None and kind == "relation":
        settled = _untagged(settled, user_id, named)
    return None if settled is None or len(settled) > CONTENT_CHARS else settled


def _tagged(content: str, named: Sequence[Named], numbered: Mapping[int, Named]) -> str | None:
    """See that every number belongs to the name before it; a number alone gets its name."""
    told = ""
    at = 0
    for found in _TAG.finditer(content):
        member = numbered.get(int(found[1]))
        if member is None:
            return None
        told += content[at : found.start()]
        at = found.end()
        spoken = [item for item in named if told.lower().endswith(item.name.lower())]
        longest = max((len(item.name) for item in spoken), default=0)
        owners = {item.user_id for item in spoken if len(item.name) == longest}
        if owners and member.user_id not in owners:
            return None
        told += f"[{member.no}]" if owners else f"{plain_name(member.name)}[{member.no}]"
    return told + content[at:]


def _untagged(content: str, user_id: int, named: Sequence[Named]) -> str | None:
    """Give the names of a relation their numbers; the member's own name stays as it is."""
    owners: dict[str, set[int]] = {}
    for item in named:
        owners.setdefault(item.name.lower(), set()).add(item.user_id)
    others = {name: users for name, users in owners.items() if users != {user_id}}
    if not others:
        return content
    numbers = {item.user_id: item.no for item in named}
    doubtful = False

    def number(found: re.Match[str]) -> str:
        nonlocal doubtful
        users = others[found[0].lower()]
        doubtful = doubtful or len(users) > 1
        return f"{found[0]}[{numbers[min(users)]}]"

    names = "|".join(re.escape(name) for name in sorted(others, key=len, reverse=True))
    settled = re.sub(rf"(?:{names})(?!\[\d)", number, content, flags=re.IGNORECASE)
    return None if doubtful else settled
