"""``/api/audit``: who changed what, and taking it back."""

from __future__ import annotations

from fastapi import APIRouter, HTTPException

from db import reports, undo
from db.learned_models import AuditId
from db.reports import AuditItem
from plugins.admin.access import View
from plugins.admin.errors import ChineseRoute, Problem
from plugins.admin.params import AnyPage, Items, RowId

router = APIRouter(route_class=ChineseRoute, prefix="/audit", tags=["审计"])


@router.get("", summary="审计")
async def list_acts(page: AnyPage, view: View) -> Items[AuditItem]:
    """List what people changed, newest first, with the values before and after."""
    async with view.database.connection() as conn:
        items = await reports.audit(conn, page)
    return Items(items=items, next_before=items[-1].id if len(items) == page.limit else None)


@router.post("/{audit_id}/undo", summary="撤销一步", responses={404: {"model": Problem}, 409: {"model": Problem}})
async def undo_act(audit_id: RowId, view: View) -> AuditItem:
    """Put back what an act changed, while nothing changed it since; gives the undo, an act of its own. 409: it cannot be."""
    try:
        async with view.database.transaction() as conn:
            act = await undo.undo(conn, AuditId(audit_id), actor="api")
            item = None if act is None else await reports.audit_of(conn, act.undo_id)
    except undo.NotUndoable as error:
        raise HTTPException(409, str(error)) from error
    if act is None or item is None:
        raise HTTPException(404, f"没有编号为 {audit_id} 的操作")
    if act.of.target_kind == "conversation" and act.of.conversation_id is not None:
        await view.changed(act.of.conversation_id)
    if act.of.target_kind == "memory":
        view.keeper.poke()
    return item
