"""Parameters that several routes share: whose, how many, before what."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Generic, TypeAlias, TypeVar

from fastapi import Depends, HTTPException, Path, Query
from pydantic import BaseModel, ConfigDict, Field

from db.memory_models import MemoryKind, SubjectKind
from db.models import ConversationKey
from db.reports import Page
from plugins.admin.subjects import NamedSubject

MAX_ID = 2**63 - 1
MAX_QUESTION = 1000
T = TypeVar("T")

NAME_ONE = "请给出 group_id 或 user_id"
QQNumber: TypeAlias = Annotated[int, Field(ge=1, le=MAX_ID)]
GroupId: TypeAlias = Annotated[int | None, Query(ge=1, le=MAX_ID, description="群号")]
UserId: TypeAlias = Annotated[int | None, Query(ge=1, le=MAX_ID, description="好友的 QQ 号")]
RowId: TypeAlias = Annotated[int, Path(ge=1, le=MAX_ID)]
GroupPath: TypeAlias = Annotated[int, Path(ge=1, le=MAX_ID, description="群号")]
UserPath: TypeAlias = Annotated[int, Path(ge=1, le=MAX_ID, description="成员的 QQ 号")]
Question: TypeAlias = Annotated[str, Query(max_length=MAX_QUESTION, description="要找什么")]


class Items(BaseModel, Generic[T]):
    """A part of a list. ``next_before`` goes into ``before`` for the part that follows; null at the end."""

    items: list[T]
    next_before: int | None = Field(default=None, description="下一页的 before；没有更多为 null")


def key_of(group_id: int | None, user_id: int | None) -> ConversationKey | None:
    """Tell which conversation is meant, if any. Both at once: HTTPException 422."""
    if group_id is not None and user_id is not None:
        raise HTTPException(422, "group_id 和 user_id 只能给一个")
    if group_id is not None:
        return ConversationKey("group", group_id)
    return ConversationKey("private", user_id) if user_id is not None else None


class InConversation(BaseModel):
    """What belongs to a conversation that the caller names."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    group_id: QQNumber | None = Field(default=None, description="群号")
    user_id: QQNumber | None = Field(default=None, description="好友的 QQ 号：私聊里的")

    @property
    def key(self) -> ConversationKey:
        """Where it belongs. Raises HTTPException 422 where none or two places are named."""
        key = key_of(self.group_id, self.user_id)
        if key is None:
            raise HTTPException(422, NAME_ONE)
        return key


async def optional_key(group_id: GroupId = None, user_id: UserId = None) -> ConversationKey | None:
    """Read which conversation is meant, if any. Both at once: 422."""
    return key_of(group_id, user_id)


OptionalKey: TypeAlias = Annotated[ConversationKey | None, Depends(optional_key)]


async def required_key(key: OptionalKey) -> ConversationKey:
    """Read which conversation is meant. None: 422."""
    if key is None:
        raise HTTPException(422, NAME_ONE)
    return key


RequiredKey: TypeAlias = Annotated[ConversationKey, Depends(required_key)]


async def page(
    key: OptionalKey,
    limit: Annotated[int, Query(ge=1, le=1000, description="最多几条")] = 50,
    before: Annotated[int | None, Query(ge=1, le=MAX_ID, description="只要比这个更早的")] = None,
) -> Page:
    """Read which part of a list is wanted."""
    return Page(limit=limit, before=before, key=key)


AnyPage: TypeAlias = Annotated[Page, Depends(page)]


@dataclass(frozen=True, slots=True)
class MemoryFilter:
    """Which memories are meant: of which conversation, about whom, of which kind."""

    key: ConversationKey
    subject: NamedSubject
    kind: MemoryKind | None

    @property
    def kinds(self) -> tuple[MemoryKind, ...] | None:
        """The kinds that are left; None: all."""
        return None if self.kind is None else (self.kind,)


async def memory_filter(
    key: RequiredKey,
    subject: Annotated[SubjectKind | None, Query(description="关于谁：成员、群或机器人")] = None,
    subject_id: Annotated[
        int | None, Query(ge=0, le=MAX_ID, description="成员的 QQ 号；0 或群号：群；机器人自己的号：机器人")
    ] = None,
    kind: Annotated[MemoryKind | None, Query(description="只要这一类")] = None,
) -> MemoryFilter:
    """Read which memories are meant."""
    return MemoryFilter(key, NamedSubject(subject, subject_id), kind)


About: TypeAlias = Annotated[MemoryFilter, Depends(memory_filter)]
