"""``/api/recall``: what the bot would remember at these words."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import BaseModel, Field

from db.memory_models import MemoryKind, Recalled, Scope, SubjectKind, Wish
from plugins.admin.access import View
from plugins.admin.errors import ChineseRoute
from plugins.admin.params import About, Question
from plugins.admin.places import find_place

router = APIRouter(route_class=ChineseRoute, prefix="/recall", tags=["记忆"])

WITHIN_SECONDS = 3.0
"""A caller waits longer for the question's vector than a turn does."""


class RecallItem(BaseModel):
    """A memory that recall found, and how. A rank of null: that leg did not find it."""

    id: int
    content: str
    score: float
    vector_rank: int | None = Field(description="在向量那条腿里排第几")
    text_rank: int | None = Field(description="在文字那条腿里排第几")
    kind: MemoryKind
    subject_kind: SubjectKind
    subject_id: int = Field(description="成员的 QQ 号；群和机器人为 0")


class RecallItems(BaseModel):
    """What recall found, best first."""

    items: list[RecallItem]


@router.get("", summary="召回：按一句话找记忆")
async def recall(
    about: About,
    view: View,
    q: Question,
    limit: Annotated[int, Query(ge=1, le=50, description="最多几条")] = 10,
    prior: Annotated[bool, Query(description="新近和常用的略微靠前；false：只看相似")] = True,
) -> RecallItems:
    """Find the active memories of one conversation that fit a question, best first."""
    place = await find_place(view, about.key)
    if place is None:
        return RecallItems(items=[])
    scope = Scope((place.id,), subjects=place.only(about.subject), kinds=about.kinds)
    found = await view.memory.recall([q], scope, Wish(limit=limit, prior=prior), within=WITHIN_SECONDS)
    return RecallItems(items=[_item(one) for one in found])


def _item(found: Recalled) -> RecallItem:
    memory = found.memory
    return RecallItem(
        id=memory.id,
        content=memory.content,
        score=found.score,
        vector_rank=found.vector_rank,
        text_rank=found.text_rank,
        kind=memory.kind,
        subject_kind=memory.subject_kind,
        subject_id=memory.subject_id,
    )
