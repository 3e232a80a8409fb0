"""``/api/outbox`` and ``/api/audit``: what left, and who changed what."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from db import reports
from db.models import SendStatus
from db.reports import AuditItem, OutboxItem
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


@router.get("/audit", summary="审计", tags=["审计"])
async def list_audit(page: AnyPage, view: View) -> Items[AuditItem]:
    """List what people changed, newest first, with the values before and after."""
    async with view.database.connection() as conn:
        items = await reports.audit(conn, page)
    return Items(items=items, next_before=items[-1].id if len(items) == page.limit else None)
