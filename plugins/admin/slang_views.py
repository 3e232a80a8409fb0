"""Slang as the API shows it: by QQ's numbers, with the messages that support it and what its meaning was."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Generic, Literal, TypeAlias, TypeVar

from fastapi import Depends, Query
from pydantic import BaseModel, ConfigDict, Field

from db import conversations, slang_lists
from db.learned_models import ReviewStatus
from db.models import Conversation
from db.pool import Connection
from db.slang import Slang, SlangSource
from db.slang_lists import MeaningLine, UseLine

MAX_OFFSET = 1_000_000
T = TypeVar("T")


class Slice(BaseModel, Generic[T]):
    """A part of a ranked list. ``next_offset`` goes into ``offset`` for the part that follows; null at the end."""

    items: list[T]
    next_offset: int | None = Field(default=None, description="下一页的 offset；没有更多为 null")


@dataclass(frozen=True, slots=True)
class Window:
    """Which part of a ranked list is wanted."""

    limit: int
    offset: int


async def window(
    limit: Annotated[int, Query(ge=1, le=200, description="最多几条")] = 50,
    offset: Annotated[int, Query(ge=0, le=MAX_OFFSET, description="跳过前几条")] = 0,
) -> Window:
    """Read which part of a ranked list is wanted."""
    return Window(limit, offset)


SlicePage: TypeAlias = Annotated[Window, Depends(window)]


class SlangItem(BaseModel):
    """A term. ``group_id`` or ``user_id`` says where it belongs: slang does not leave its conversation."""

    model_config = ConfigDict(frozen=True)

    id: int
    group_id: int | None = Field(description="群号；私聊里的为 null")
    user_id: int | None = Field(description="好友的 QQ 号；群里的为 null")
    term: str
    variants: list[str] = Field(description="别的写法")
    meaning: str = Field(description="在这个群里的意思")
    meaning_without_context: str = Field(description="只看字面的意思")
    note: str = Field(description="管理的人写的备注，机器人看不到")
    status: ReviewStatus = Field(description="candidate 候选、approved 通过、rejected 拒绝；只有通过的进提示词")
    locked: bool = Field(description="人写过或改过，机器人不再动它的文字")
    decided_by: str | None = Field(description="谁决定的：api、QQ 号、auto（自动通过）；null：还没人看过")
    source: SlangSource = Field(description="miner 统计发现、model 模型发现、person 人写的")
    score: float = Field(description="统计的得分，0 到 1")
    confidence: float | None = Field(description="模型的把握，0 到 1；null：模型还没看过")
    denied: int = Field(description="模型看过而没有认可的次数")
    occurrences: int = Field(description="有它的消息条数")
    speakers: int = Field(description="说过它的人数")
    days: int = Field(description="说过它的天数")
    first_seen: datetime | None
    last_seen: datetime | None
    evidence_count: int = Field(description="还在的依据条数")
    merged_into: int | None = Field(description="并入了哪一条")
    version: int = Field(description="改的时候带上它，别人先改过就是 409")
    created_at: datetime
    updated_at: datetime


class ContextItem(BaseModel):
    """A message as a reader sees it."""

    model_config = ConfigDict(from_attributes=True)

    pos: int = Field(description="在会话里的编号")
    sender_id: int
    sender_name: str
    text: str
    sent_at: datetime


class EvidenceItem(ContextItem):
    """A message that supports a term, with up to two before and after it. Withdrawn ones are not shown."""

    before: list[ContextItem]
    after: list[ContextItem]


class MeaningItem(BaseModel):
    """What a term meant after one inference or edit."""

    occurrences: int = Field(description="推断时有它的消息条数")
    meaning: str
    meaning_without_context: str
    confidence: float | None
    change: str = Field(description="和前一次有什么不同")
    source: Literal["model", "person"]
    made_at: datetime


class SlangDetail(SlangItem):
    """A term with the messages that support it, newest last, and what its meaning was, oldest first."""

    evidence: list[EvidenceItem]
    history: list[MeaningItem]


async def show_all(conn: Connection, found: Sequence[Slang]) -> list[SlangItem]:
    """Show terms, in the same order."""
    if not found:
        return []
    places = {place.id: place for place in await conversations.some(conn, {row.conversation_id for row in found})}
    return [_item(row, places[row.conversation_id]) for row in found if row.conversation_id in places]


async def show_detail(conn: Connection, row: Slang) -> SlangDetail | None:
    """Show one term in full; None where it went meanwhile."""
    shown = await show_all(conn, [row])
    if not shown:
        return None
    lines = await slang_lists.evidence_of(conn, row.id)
    meanings = await slang_lists.meanings_of(conn, row.id)
    return SlangDetail(**shown[0].model_dump(), evidence=show_evidence(lines), history=[_meaning(line) for line in meanings])


def show_evidence(lines: Sequence[UseLine]) -> list[EvidenceItem]:
    """Put hits together with what stands around them."""
    shown: list[EvidenceItem] = []
    for hit in (line for line in lines if line.side == 0):
        around = [line for line in lines if line.hit == hit.hit]
        shown.append(
            EvidenceItem(
                **ContextItem.model_validate(hit).model_dump(),
                before=[ContextItem.model_validate(line) for line in around if line.side < 0],
                after=[ContextItem.model_validate(line) for line in around if line.side > 0],
            )
        )
    return shown


def _meaning(line: MeaningLine) -> MeaningItem:
    return MeaningItem(
        occurrences=line.occurrences,
        meaning=line.meaning,
        meaning_without_context=line.meaning_plain,
        confidence=line.confidence,
        change=line.change,
        source=line.source,
        made_at=line.made_at,
    )


def _item(row: Slang, place: Conversation) -> SlangItem:
    group = place.kind == "group"
    return SlangItem(
        id=row.id,
        group_id=place.target_id if group else None,
        user_id=None if group else place.target_id,
        term=row.term,
        variants=row.variants,
        meaning=row.meaning,
        meaning_without_context=row.meaning_plain,
        note=row.note,
        status=row.status,
        locked=row.locked,
        decided_by=row.decided_by,
        source=row.source,
        score=row.score,
        confidence=row.confidence,
        denied=row.denied,
        occurrences=row.occurrences,
        speakers=row.speakers,
        days=row.days,
        first_seen=row.first_seen,
        last_seen=row.last_seen,
        evidence_count=row.evidence,
        merged_into=row.merged_into,
        version=row.version,
        created_at=row.created_at,
        updated_at=row.updated_at,
    )
