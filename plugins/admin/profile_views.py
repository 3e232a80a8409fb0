"""Profiles as the API shows them: members by QQ's numbers, their traits, and the messages that support one."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from pydantic import BaseModel, Field

from db import conversations, trait_lists
from db.learned_models import TraitKind
from db.models import Conversation
from db.pool import Connection
from db.trait_lists import Owner
from db.traits import Trait, TraitSource
from plugins.admin.slang_views import EvidenceItem, show_evidence


class TraitItem(BaseModel):
    """A trait of one member in one group."""

    id: int
    group_id: int = Field(description="群号")
    user_id: int = Field(description="成员的 QQ 号")
    kind: TraitKind = Field(description="alias 别名、interest 兴趣、style 说话、relation 关系、fact 情况")
    content: str
    sensitive: bool = Field(description="涉及健康、性取向、宗教、政治或真实身份")
    locked: bool = Field(description="人改过，机器人不再动它")
    source: TraitSource
    evidence_count: int = Field(description="还在的依据条数")
    dropped_at: datetime | None = Field(description="不再用了；null：在用")
    dropped_why: str | None = Field(description="changed 变了、contradicted 不成立了、withdrawn 依据撤回了、person 人删的")
    version: int = Field(description="改的时候带上它，别人先改过就是 409")
    created_at: datetime
    updated_at: datetime


class TraitDetail(TraitItem):
    """A trait with the messages that support it, oldest first."""

    evidence: list[EvidenceItem]


class ProfileItem(BaseModel):
    """One member in one group, and what is known of them, newest first."""

    group_id: int = Field(description="群号")
    user_id: int = Field(description="成员的 QQ 号")
    no: int | None = Field(description="提示词里的短号")
    name: str
    left_at: datetime | None = Field(description="什么时候退的群；null：还在")
    traits: list[TraitItem]


async def show_profiles(conn: Connection, found: Sequence[Owner]) -> list[ProfileItem]:
    """Show members with their current traits, in the same order."""
    if not found:
        return []
    rows = await trait_lists.of_owners(conn, found)
    places = {place.id: place for place in await conversations.some(conn, {owner.conversation_id for owner in found})}
    return [_profile(owner, places[owner.conversation_id], rows) for owner in found if owner.conversation_id in places]


async def show_trait(conn: Connection, row: Trait) -> TraitItem:
    """Show one trait."""
    [place] = await conversations.some(conn, {row.conversation_id})
    return _item(row, place)


async def show_detail(conn: Connection, row: Trait) -> TraitDetail:
    """Show one trait in full."""
    item = await show_trait(conn, row)
    return TraitDetail(**item.model_dump(), evidence=show_evidence(await trait_lists.evidence_of(conn, row.id)))


def _profile(owner: Owner, place: Conversation, rows: Sequence[Trait]) -> ProfileItem:
    return ProfileItem(
        group_id=place.target_id,
        user_id=owner.user_id,
        no=owner.no,
        name=owner.name,
        left_at=owner.left_at,
        traits=[_item(row, place) for row in rows if (row.conversation_id, row.user_id) == (place.id, owner.user_id)],
    )


def _item(row: Trait, place: Conversation) -> TraitItem:
    return TraitItem(
        id=row.id,
        group_id=place.target_id,
        user_id=row.user_id,
        kind=row.kind,
        content=row.content,
        sensitive=row.sensitive,
        locked=row.locked,
        source=row.source,
        evidence_count=row.evidence,
        dropped_at=row.dropped_at,
        dropped_why=row.dropped_why,
        version=row.version,
        created_at=row.created_at,
        updated_at=row.updated_at,
    )
