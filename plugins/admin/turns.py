"""``/api/turns``: what the bot did, and a stop for what it does."""

from __future__ import annotations

from fastapi import APIRouter, HTTPException
from pydantic import BaseModel

from db import moderation, reports, turn_reports
from db.models import ConversationId, TurnId
from db.reports import OutboxItem, Page
from db.turn_reports import BlockItem, CallItem, StepItem, TurnItem
from plugins.admin.access import View
from plugins.admin.errors import ChineseRoute, Problem
from plugins.admin.params import AnyPage, Items, RowId

router = APIRouter(route_class=ChineseRoute, prefix="/turns", tags=["轮"])

MAX_SENDS = 1000


class TurnDetail(TurnItem):
    """A turn with its prompt blocks, its steps, its model calls and what it wanted to send."""

    blocks: list[BlockItem]
    steps: list[StepItem]
    calls: list[CallItem]
    outbox: list[OutboxItem]


class Interrupted(BaseModel):
    """The turn that is being stopped."""

    id: int
    interrupted: bool


@router.get("", summary="列出轮")
async def list_turns(page: AnyPage, view: View) -> Items[TurnItem]:
    """List turns, newest first."""
    async with view.database.connection() as conn:
        items = await turn_reports.turns(conn, page)
    return Items(items=items, next_before=items[-1].id if len(items) == page.limit else None)


@router.get("/{turn_id}", summary="一轮的提示块、步骤和发送", responses={404: {"model": Problem}})
async def read_turn(turn_id: RowId, view: View) -> TurnDetail:
    """Read one turn: the prompt's blocks with tokens, the steps with arguments, results and times."""
    async with view.database.connection() as conn:
        turn = await turn_reports.turn(conn, turn_id)
        if turn is None:
            raise HTTPException(404, f"没有编号为 {turn_id} 的轮")
        sends = await reports.outbox(conn, Page(limit=MAX_SENDS), turn_id=turn_id)
        return TurnDetail(
            **turn.model_dump(),
            blocks=await turn_reports.blocks(conn, turn_id),
            steps=await turn_reports.steps(conn, turn_id),
            calls=await turn_reports.calls(conn, turn_id),
            outbox=sends[::-1],
        )


@router.post("/{turn_id}/interrupt", summary="中断一轮", responses={404: {"model": Problem}, 409: {"model": Problem}})
async def interrupt_turn(turn_id: RowId, view: View) -> Interrupted:
    """Stop a turn that waits or runs; 409 when it has ended."""
    async with view.database.connection() as conn:
        turn = await turn_reports.turn(conn, turn_id)
    if turn is None:
        raise HTTPException(404, f"没有编号为 {turn_id} 的轮")
    if turn.status not in {"queued", "running"} or not await view.interrupt(TurnId(turn_id)):
        raise HTTPException(409, f"第 {turn_id} 轮已经结束，或不在这个进程里运行，无法中断")
    async with view.database.connection() as conn:
        await moderation.record(
            conn,
            actor="api",
            action="turn.interrupt",
            conversation_id=ConversationId(turn.conversation_id),
            before={"turn": turn_id, "status": turn.status},
        )
    return Interrupted(id=turn_id, interrupted=True)
