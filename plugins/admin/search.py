"""``/api/search``: what was said, found by words and by meaning."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

from fastapi import APIRouter, HTTPException, Query
from pydantic import BaseModel, Field

from db.history import Line
from db.message_search import HITS, MessageHit, MessageQuery
from db.models import display
from db.timewords import TimeRange, read_when
from plugins.admin.access import View
from plugins.admin.errors import ChineseRoute
from plugins.admin.params import MAX_ID, MAX_QUESTION, RequiredKey
from plugins.admin.places import find_place
from plugins.admin.ports import RuntimeView

router = APIRouter(route_class=ChineseRoute, prefix="/search", tags=["消息"])

WITHIN_SECONDS = 3.0
MAX_PAGE = 50


class FoundLine(BaseModel):
    """A message as a reader sees it."""

    pos: int = Field(description="在会话里的编号，提示词里写作 #编号")
    sender_id: int
    sender_name: str
    is_self: bool
    text: str = Field(description="读者看到的：引用在前")
    sent_at: datetime


class FoundMessage(FoundLine):
    """A message that fits, and what was said around it. A rank of null: that leg did not find it."""

    id: int
    score: float
    vector_rank: int | None
    text_rank: int | None
    before: list[FoundLine] = Field(description="它前面的两条")
    after: list[FoundLine] = Field(description="它后面的两条")


class FoundMessages(BaseModel):
    """What was found, best first. ``next_page`` goes into ``page`` for what follows."""

    items: list[FoundMessage]
    next_page: int | None = Field(default=None, description="下一页的 page；没有更多为 null")


class SearchQuery(BaseModel):
    """What to look for: words, a sender, a time, or several of them."""

    q: str = Field(default="", max_length=MAX_QUESTION, description="要找什么；话里的“上周三”“三月”会当作时间")
    sender_id: int | None = Field(default=None, ge=1, le=MAX_ID, description="只要这个人说的")
    when: str = Field(default="", max_length=100, description="只要这个时候的，例如 昨天、上周三、三月、2026-11-28")
    limit: int = Field(default=10, ge=1, le=HITS, description="最多几条")
    page: int = Field(default=1, ge=1, le=MAX_PAGE, description="第几页")


@router.get("", summary="搜聊天记录")
async def search_messages(key: RequiredKey, view: View, asked: Annotated[SearchQuery, Query()]) -> FoundMessages:
    """Find messages of one conversation, with what was said around them. Withdrawn and forgotten ones are never found."""
    if not asked.q.strip() and asked.sender_id is None and not asked.when.strip():
        raise HTTPException(422, "请给出 q、sender_id 或 when")
    when = _range(view, asked.when)
    place = await find_place(view, key)
    if place is None:
        return FoundMessages(items=[])
    query = MessageQuery(
        (place.id,),
        asked.q,
        sender_ids=() if asked.sender_id is None else (asked.sender_id,),
        when=when,
        limit=asked.limit,
        offset=(asked.page - 1) * asked.limit,
    )
    hits = await view.search.search(query, within=WITHIN_SECONDS)
    more = len(hits) == asked.limit and asked.page < MAX_PAGE
    return FoundMessages(items=[_hit(hit) for hit in hits], next_page=asked.page + 1 if more else None)


def _range(view: RuntimeView, text: str) -> TimeRange | None:
    if not text.strip():
        return None
    found = read_when(text, datetime.now(UTC), view.settings.zone)
    if found is None:
        raise HTTPException(422, "when：没看懂是什么时候，例如 昨天、上周三、三月、2026-11-28")
    return found


def _hit(hit: MessageHit) -> FoundMessage:
    return FoundMessage(
        **_line(hit.line).model_dump(),
        id=hit.message,
        score=hit.score,
        vector_rank=hit.vector_rank,
        text_rank=hit.text_rank,
        before=[_line(line) for line in hit.before],
        after=[_line(line) for line in hit.after],
    )


def _line(line: Line) -> FoundLine:
    return FoundLine(
        pos=line.pos,
        sender_id=line.sender_id,
        sender_name=line.sender_name,
        is_self=line.is_self,
        text=display(line.body, line.quote_name, None if line.quote_withdrawn else line.quote_text),
        sent_at=line.sent_at,
    )
