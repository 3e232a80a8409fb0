"""``/api/messages``: what was said, as a reader sees it."""

from __future__ import annotations

from fastapi import APIRouter, HTTPException

from db import reports
from db.reports import MessageItem
from plugins.admin.access import View
from plugins.admin.errors import ChineseRoute
from plugins.admin.params import AnyPage, Items

router = APIRouter(route_class=ChineseRoute, prefix="/messages", tags=["消息"])


@router.get("", summary="一个会话的消息")
async def list_messages(page: AnyPage, view: View) -> Items[MessageItem]:
    """Read the newest messages of one conversation, in reading order; ``before`` is a position (``pos``)."""
    if page.key is None:
        raise HTTPException(422, "请给出 group_id 或 user_id")
    async with view.database.connection() as conn:
        items = await reports.messages(conn, page)
    earliest = min((item.pos for item in items), default=1)
    return Items(items=items, next_before=earliest if len(items) == page.limit and earliest > 1 else None)
