"""Whom the model means: short numbers, ``小明[3]``, QQ numbers and names become QQ numbers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from agent.tools.declaration import ToolContext
from db.history import KnownMember, find_members
from llm.hygiene import plain_name

SMALLEST_QQ = 10000
MOST = 10
_TAGGED = re.compile(r"^(.*?)[\[［(（]\s*(?:机器人\s*)?(\d{1,9})\s*[\]］)）]$")
_EVERYBODY = {"all", "全体成员", "所有人", "everyone"}


@dataclass(frozen=True, slots=True)
class Resolved:
    """QQ numbers in the order asked, and a Chinese note for each token that names nobody (or several)."""

    user_ids: tuple[int, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Wanted:
    token: str
    number: int | None
    name: str


def _read(token: str) -> _Wanted:
    text = token.strip().lstrip("@＠").strip()
    tagged = _TAGGED.match(text)
    if tagged:
        return _Wanted(text, int(tagged.group(2)), tagged.group(1).strip())
    if text.isascii() and text.isdigit() and len(text) <= 18:
        return _Wanted(text, int(text), "")
    return _Wanted(text, None, text)


async def resolve(ctx: ToolContext, tokens: Sequence[str]) -> Resolved:
    """Find out whom tokens mean, among the members of this conversation; an unknown QQ number stays as it is."""
    wanted = [_read(token) for token in tokens[:MOST] if token.strip()]
    numbers = [item.number for item in wanted if item.number is not None]
    names = [item.name for item in wanted if item.number is None]
    async with ctx.database.connection() as conn:
        known = await find_members(conn, ctx.snapshot.request.conversation.id, numbers=numbers, names=names)
    found: list[int] = []
    notes: list[str] = []
    for item in wanted:
        user_id = _choose(ctx, item, known)
        if item.name.lower() in _EVERYBODY:
            notes.append("不能 @ 全体成员")
        elif user_id is None:
            notes.append(f"认不出成员“{item.token[:20]}”，请用成员号")
        elif user_id == ctx.snapshot.request.account_id:
            notes.append("不用 @ 自己")
        elif user_id not in found:
            found.append(user_id)
    return Resolved(tuple(found), tuple(notes))


def _choose(ctx: ToolContext, item: _Wanted, known: Sequence[KnownMember]) -> int | None:
    if item.number is not None:
        for member in known:
            if member.no == item.number:
                return member.user_id
        return item.number if item.number >= SMALLEST_QQ else None
    named = {member.user_id for member in known if member.name == item.name}
    named = named or ctx.snapshot.names_to_ids().get(plain_name(item.name), set())
    return next(iter(named)) if len(named) == 1 else None
