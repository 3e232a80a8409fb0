"""``/api/outbox``: what left, and what became of it."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from db import reports
from db.models import SendStatus
from db.reports import OutboxItem
from plugins.admin.access import View
from plugins.admin.errors import ChineseRoute
from plugins.admin.params import AnyPage, Items

router = APIRouter(route_class=ChineseRoute)


@router.get("/outbox", summary="发件箱", tags=["发件箱"])
async def list_outbox(
    page: AnyPage, view: View, status: Annotated[SendStatus | None, Query(description="只要这种状态的")] = None
) -> Items[OutboxItem]:
    """List what was sent or is to be sent, newest first."""
    async with view.database.connection() as conn:
        items = await reports.outbox(conn, page, status=status)
    return Items(items=items, next_before=items[-1].id if len(items) == page.limit else None)
