"""``/api/usage``: what the models cost."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import BaseModel, Field

from db import conversations
from db.models import ConversationKey
from db.usage import UsageKey, UsageQuery, UsageRow, usage_summary
from plugins.admin.access import View
from plugins.admin.errors import ChineseRoute
from plugins.admin.params import OptionalKey
from plugins.admin.ports import RuntimeView
from plugins.admin.times import day_start

router = APIRouter(route_class=ChineseRoute, prefix="/usage", tags=["用量"])


class UsageTotal(BaseModel):
    """All calls of the span together."""

    calls: int
    failed: int
    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int


class Usage(BaseModel):
    """Model calls of a span, added up. Days are the owner's."""

    since: datetime
    until: datetime
    by: UsageKey
    items: list[UsageRow] = Field(description="key：任务、模型、会话的 id 或日期；null：不属于任何会话")
    total: UsageTotal


@router.get("", summary="模型用量合计")
async def read_usage(
    key: OptionalKey,
    view: View,
    days: Annotated[int, Query(ge=1, le=366, description="最近几天，含今天")] = 7,
    by: Annotated[UsageKey, Query(description="按什么合计")] = "day",
) -> Usage:
    """Add up the model calls of the last days, of one conversation or of all."""
    until = datetime.now(view.settings.zone)
    since = day_start(until) - timedelta(days=days - 1)
    items = await _rows(view, key, since, until, by)
    total = UsageTotal(
        calls=sum(item.calls for item in items),
        failed=sum(item.failed for item in items),
        prompt_tokens=sum(item.prompt_tokens for item in items),
        completion_tokens=sum(item.completion_tokens for item in items),
        cached_tokens=sum(item.cached_tokens for item in items),
    )
    return Usage(since=since, until=until, by=by, items=items, total=total)


async def _rows(view: RuntimeView, key: ConversationKey | None, since: datetime, until: datetime, by: UsageKey) -> list[UsageRow]:
    async with view.database.connection() as conn:
        conversation_id = None
        if key is not None:
            found = await conversations.find(conn, key)
            if found is None:
                return []
            conversation_id = found.id
        return await usage_summary(conn, UsageQuery(since, until, conversation_id), by=by, zone=view.settings.zone)
