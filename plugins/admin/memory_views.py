"""A memory as the API shows it: by QQ's numbers and names, with its evidence and its history."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from pydantic import BaseModel, ConfigDict, Field

from db import accounts, conversations, members, memory_lists
from db.memory_models import Memory, MemoryKind, MemorySource, MemoryStatus, Relation, SubjectKind
from db.models import Conversation, ConversationId
from db.pool import Connection
from plugins.chat.names import show_name

BOT_NAME = "机器人"


class MemoryItem(BaseModel):
    """A memory. ``group_id`` or ``user_id`` says where it belongs: memories do not leave their conversation."""

    model_config = ConfigDict(frozen=True)

    id: int
    group_id: int | None = Field(description="群号；私聊里的为 null")
    user_id: int | None = Field(description="好友的 QQ 号；群里的为 null")
    subject_kind: SubjectKind = Field(description="关于谁：成员、群或机器人")
    subject_id: int = Field(description="成员的 QQ 号；群和机器人为 0")
    subject_name: str
    kind: MemoryKind
    content: str
    status: MemoryStatus
    archived_why: str | None = Field(description="为什么归档：refined、superseded、withdrawn、agent、person")
    archived_at: datetime | None
    locked: bool = Field(description="人写过或改过，机器人不再动它")
    source: MemorySource
    turn_id: int | None = Field(description="哪一轮记下的")
    version: int = Field(description="改的时候带上它，别人先改过就是 409")
    uses: int = Field(description="在多少轮里用过")
    used_at: datetime | None
    created_at: datetime
    updated_at: datetime


class EvidenceItem(BaseModel):
    """A message that supports a memory. A withdrawn one has no text."""

    model_config = ConfigDict(from_attributes=True)

    pos: int = Field(description="在会话里的编号")
    sender_id: int
    sender_name: str
    text: str
    sent_at: datetime
    withdrawn: bool


class HistoryItem(BaseModel):
    """A memory that this one came from, or that came from it."""

    model_config = ConfigDict(from_attributes=True)

    id: int
    relation: Relation = Field(description="新的对旧的：refines 补充、supersedes 取代、contradicts 矛盾")
    newer: bool = Field(description="true：在这一条之后")
    content: str
    status: MemoryStatus
    archived_why: str | None
    created_at: datetime


class MemoryDetail(MemoryItem):
    """A memory with the messages that support it and the memories that it is linked to, oldest first."""

    evidence: list[EvidenceItem]
    history: list[HistoryItem]


async def show_all(conn: Connection, found: Sequence[Memory]) -> list[MemoryItem]:
    """Show memories, in the same order."""
    if not found:
        return []
    places = {place.id: place for place in await conversations.some(conn, {memory.conversation_id for memory in found})}
    about = {(memory.conversation_id, memory.subject_id) for memory in found if memory.subject_kind == "member"}
    names = {
        (member.conversation_id, member.user_id): show_name(member.card, member.nickname, member.user_id)
        for member in await members.some(conn, sorted(about))
    }
    bot = next((account.nickname for account in await accounts.everyone(conn) if account.nickname), BOT_NAME)
    return [_item(memory, places[memory.conversation_id], names, bot) for memory in found if memory.conversation_id in places]


async def show_detail(conn: Connection, memory: Memory) -> MemoryDetail | None:
    """Show one memory in full; None where it went meanwhile."""
    shown = await show_all(conn, [memory])
    if not shown:
        return None
    evidence = await memory_lists.evidence_of(conn, memory.id)
    history = await memory_lists.history_of(conn, memory.id)
    return MemoryDetail(
        **shown[0].model_dump(),
        evidence=[EvidenceItem.model_validate(line) for line in evidence],
        history=[HistoryItem.model_validate(line) for line in history],
    )


def _item(memory: Memory, place: Conversation, names: dict[tuple[ConversationId, int], str], bot: str) -> MemoryItem:
    group = place.kind == "group"
    match memory.subject_kind:
        case "member":
            key = (memory.conversation_id, memory.subject_id)
            name = names.get(key) or show_name("", "", memory.subject_id)
        case "group":
            name = place.name
        case "bot":
            name = bot
    return MemoryItem(
        id=memory.id,
        group_id=place.target_id if group else None,
        user_id=None if group else place.target_id,
        subject_kind=memory.subject_kind,
        subject_id=memory.subject_id,
        subject_name=name,
        kind=memory.kind,
        content=memory.content,
        status=memory.status,
        archived_why=memory.archived_why,
        archived_at=memory.archived_at,
        locked=memory.locked,
        source=memory.source,
        turn_id=memory.turn_id,
        version=memory.version,
        uses=memory.uses,
        used_at=memory.used_at,
        created_at=memory.created_at,
        updated_at=memory.updated_at,
    )
