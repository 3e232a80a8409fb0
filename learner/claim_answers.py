"""What a model answers about memories, and whom each is about. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, Field

from db.history import Line
from db.memory_models import GROUP, MemoryKind, Subject
from db.models import Conversation
from learner.fields import EACH, MOST_LABELS, Labels

MOST_CLAIMS = 10
_GROUP = frozenset({"群", "本群", "群里", "这个群", "大家", "group"})
_NUMBER = re.compile(r".*[\[［(（【]\s*(\d{1,18})\s*[\]］)）】]|@?(\d{1,18})", re.DOTALL)


def _text(value: object) -> object:
    return str(value) if isinstance(value, int) else value


class ClaimItem(BaseModel):
    """One thing worth remembering."""

    subject: Annotated[str, BeforeValidator(_text)] = Field(description="成员的编号，如 3；整个群写“群”")
    kind: MemoryKind = Field(description="哪一类")
    content: str = Field(description="一句话，离开上下文也看得懂")
    evidence: Labels = Field(description="支持它的消息编号")

    @property
    def labels(self) -> tuple[int, ...]:
        """The labels that are looked at."""
        return tuple(self.evidence[:MOST_LABELS])


class ClaimsAnswer(BaseModel):
    """The answer of ``memory_claims``."""

    items: Annotated[list[ClaimItem], EACH] = Field(description="值得记的事，没有就空着")


def read_subject(text: str, speakers: Sequence[Line], conversation: Conversation) -> Subject | None:
    """Find out whom a claim is about: one of the people who spoke, by short or QQ number, or the group; None: nobody known.

    In a private conversation it is always the friend.
    """
    if conversation.kind == "private":
        return Subject("member", conversation.target_id)
    word = text.strip()
    if word.lower() in _GROUP:
        return GROUP
    match = _NUMBER.fullmatch(word)
    if match is None:
        return None
    number = int(match[1] or match[2])
    by_no = {line.member_no: line.sender_id for line in speakers if line.member_no is not None}
    users = {line.sender_id for line in speakers}
    user = by_no.get(number) or (number if number in users else None)
    return None if user is None else Subject("member", user)
