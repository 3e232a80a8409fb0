"""Whom a memory is about, as callers name it: a QQ number, or the words member, group and bot. Pure."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from db.memory_models import BOT, GROUP, Subject, SubjectKind
from db.models import ConversationKey


@dataclass(frozen=True, slots=True)
class NamedSubject:
    """A subject as a caller names it. ``number`` None: not given."""

    kind: SubjectKind | None = None
    number: int | None = None

    @property
    def given(self) -> bool:
        """Whether the caller named anybody."""
        return self.kind is not None or self.number is not None


def read_subject(named: NamedSubject, key: ConversationKey, own: Collection[int]) -> Subject:
    """Read who is meant in a conversation. ``own`` are the bot's accounts; nobody named means the group.

    0 and the group's own number are the group, a number of the bot is the bot, any other number a member.
    Raises ValueError with a Chinese reason where word and number contradict each other.
    """
    number = named.number
    meant = GROUP if number is None else _by_number(number, key, own)
    if named.kind is None or named.kind == meant.kind:
        return meant
    if named.kind == "member":
        raise ValueError("subject 为 member 时，subject_id 应为成员的 QQ 号")
    if number in {None, 0}:
        return BOT if named.kind == "bot" else GROUP
    raise ValueError(f"subject 为 {named.kind} 时，不用给 subject_id，或者给对应的号码")


def _by_number(number: int, key: ConversationKey, own: Collection[int]) -> Subject:
    if number == 0 or (key.kind == "group" and number == key.target_id):
        return GROUP
    return BOT if number in own else Subject("member", number)
