"""Expressions as the API shows them: by QQ's numbers, with the messages that support them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from pydantic import BaseModel, ConfigDict, Field

from db import conversations, expression_lists
from db.expressions import Expression, ExpressionSource
from db.learned_models import ReviewStatus
from db.models import Conversation
from db.pool import Connection
from plugins.admin.slang_views import EvidenceItem, show_evidence


class ExpressionItem(BaseModel):
    """An expression. ``group_id`` or ``user_id`` says where it belongs: it does not leave its conversation."""

    model_config = ConfigDict(frozen=True)

    id: int
    group_id: int | None = Field(description="群号；私聊里的为 null")
    user_id: int | None = Field(description="好友的 QQ 号；群里的为 null")
    situation: str = Field(description="什么情况下说")
    phrase: str = Field(description="怎么说")
    note: str = Field(description="管理的人写的备注，机器人看不到")
    status: ReviewStatus = Field(description="candidate 候选、approved 通过、rejected 拒绝；只有通过的进提示词")
    locked: bool = Field(description="人写过或改过，机器人不再动它的文字")
    decided_by: str | None = Field(description="谁决定的：api 或 QQ 号；null：还没人看过")
    source: ExpressionSource = Field(description="model 模型发现、person 人写的")
    confidence: float | None = Field(description="模型的把握，0 到 1")
    first_seen: datetime | None
    last_seen: datetime | None
    evidence_count: int = Field(description="还在的依据条数")
    merged_into: int | None = Field(description="并入了哪一条")
    version: int = Field(description="改的时候带上它，别人先改过就是 409")
    created_at: datetime
    updated_at: datetime


class ExpressionDetail(ExpressionItem):
    """An expression with the messages that support it, newest last."""

    evidence: list[EvidenceItem]


async def show_all(conn: Connection, found: Sequence[Expression]) -> list[ExpressionItem]:
    """Show expressions, in the same order."""
    if not found:
        return []
    places = {place.id: place for place in await conversations.some(conn, {row.conversation_id for row in found})}
    return [_item(row, places[row.conversation_id]) for row in found if row.conversation_id in places]


async def show_detail(conn: Connection, row: Expression) -> ExpressionDetail | None:
    """Show one expression in full; None where it went meanwhile."""
    shown = await show_all(conn, [row])
    if not shown:
        return None
    evidence = show_evidence(await expression_lists.evidence_of(conn, row.id))
    return ExpressionDetail(**shown[0].model_dump(), evidence=evidence)


def _item(row: Expression, place: Conversation) -> ExpressionItem:
    group = place.kind == "group"
    return ExpressionItem(
        id=row.id,
        group_id=place.target_id if group else None,
        user_id=None if group else place.target_id,
        situation=row.situation,
        phrase=row.phrase,
        note=row.note,
        status=row.status,
        locked=row.locked,
        decided_by=row.decided_by,
        source=row.source,
        confidence=row.confidence,
        first_seen=row.first_seen,
        last_seen=row.last_seen,
        evidence_count=row.evidence,
        merged_into=row.merged_into,
        version=row.version,
        created_at=row.created_at,
        updated_at=row.updated_at,
    )
