"""``/api/expressions``: how the group says things, what supports it, and people's hand in it."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from fastapi import APIRouter, HTTPException, Query
from fastapi.responses import JSONResponse
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from db import expression_lists, expression_review, expressions
from db.expression_lists import ExpressionFilter
from db.expression_review import Edit, NewExpression, Outdated, Taken, Unmergeable
from db.expressions import NOTE_CHARS, PHRASE_CHARS, SITUATION_CHARS, Expression
from db.learned_models import ExpressionId, ReviewStatus
from db.moderation import Storable
from db.pool import Connection
from plugins.admin.access import View
from plugins.admin.errors import ChineseRoute, Conflict, Problem, conflict
from plugins.admin.expression_views import ExpressionDetail, ExpressionItem, show_all, show_detail
from plugins.admin.params import MAX_QUESTION, AnyPage, InConversation, Items, RowId
from plugins.admin.places import ensure_place, find_place
from plugins.admin.ports import RuntimeView
from plugins.admin.slang import ALL, MergeInto, Status, Version, one_meaning

router = APIRouter(route_class=ChineseRoute, prefix="/expressions", tags=["表达"])

Situation: TypeAlias = Annotated[Storable, Field(max_length=SITUATION_CHARS), AfterValidator(one_meaning)]
Phrase: TypeAlias = Annotated[Storable, Field(max_length=PHRASE_CHARS), AfterValidator(one_meaning)]
Note: TypeAlias = Annotated[Storable, Field(max_length=NOTE_CHARS)]


class NewPair(InConversation):
    """An expression on a person's word: approved at once, and locked."""

    situation: Situation = Field(description="什么情况下说")
    phrase: Phrase = Field(description="怎么说")
    note: Note = ""


class ExpressionPatch(BaseModel):
    """What to change. ``version`` is the one that was read: if somebody changed it since, nothing happens."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    status: ReviewStatus | None = Field(default=None, description="approved：通过；rejected：拒绝；candidate：恢复为候选")
    situation: Situation | None = None
    phrase: Phrase | None = None
    note: Note | None = None
    version: Version


@router.get("", summary="列出或查找表达")
async def list_expressions(
    page: AnyPage,
    view: View,
    status: Annotated[Status, Query(description="候选、通过、拒绝，或全部")] = "all",
    q: Annotated[str, Query(max_length=MAX_QUESTION, description="情境、说法或备注里的一部分")] = "",
) -> Items[ExpressionItem]:
    """List the expressions of one conversation or of all, newest first."""
    place = None if page.key is None else await find_place(view, page.key)
    if page.key is not None and place is None:
        return Items(items=[])
    wanted = ExpressionFilter(
        conversation_id=None if place is None else place.id,
        statuses=ALL if status == "all" else (status,),
        text=q,
        limit=page.limit,
        before=page.before,
    )
    async with view.database.connection() as conn:
        items = await show_all(conn, await expression_lists.some(conn, wanted))
    return Items(items=items, next_before=items[-1].id if len(items) == page.limit else None)


@router.get("/{expression_id}", summary="一个表达的依据", responses={404: {"model": Problem}})
async def read_expression(expression_id: RowId, view: View) -> ExpressionDetail:
    """Read one expression with the messages that support it."""
    async with view.database.connection() as conn:
        row = await expressions.get(conn, ExpressionId(expression_id))
        detail = None if row is None else await show_detail(conn, row)
    if detail is None:
        raise _missing(expression_id)
    return detail


@router.post(
    "", summary="写一个表达", status_code=201, response_model=ExpressionItem, responses={409: {"model": Conflict[ExpressionItem]}}
)
async def write_expression(new: NewPair, view: View) -> ExpressionItem | JSONResponse:
    """Write an expression on a person's word: approved, locked, without evidence. 409 with the one that says the same."""
    try:
        async with view.database.transaction() as conn:
            place = await ensure_place(conn, new.key)
            wanted = NewExpression(place.id, new.situation, new.phrase, new.note)
            return await _shown(conn, await expression_review.create(conn, wanted, actor="api"))
    except Taken as error:
        return await _conflict(view, str(error), error.current)


@router.patch(
    "/{expression_id}",
    summary="通过、拒绝、恢复或修改一个表达",
    response_model=ExpressionItem,
    responses={404: {"model": Problem}, 409: {"model": Conflict[ExpressionItem]}},
)
async def change_expression(expression_id: RowId, patch: ExpressionPatch, view: View) -> ExpressionItem | JSONResponse:
    """Approve, reject, restore or edit an expression; other words lock it. 409 with the current one where it changed."""
    if patch.model_fields_set <= {"version"}:
        raise HTTPException(422, "没有要改的：请给出 status、situation、phrase 或 note")
    wanted = Edit(patch.version, patch.status, patch.situation, patch.phrase, patch.note)
    try:
        async with view.database.transaction() as conn:
            row = await expression_review.edit(conn, ExpressionId(expression_id), wanted, actor="api")
            item = None if row is None else await _shown(conn, row)
    except (Outdated, Taken) as error:
        return await _conflict(view, str(error), error.current)
    if item is None:
        raise _missing(expression_id)
    return item


@router.post(
    "/{expression_id}/merge",
    summary="并入另一个表达",
    response_model=ExpressionItem,
    responses={404: {"model": Problem}, 409: {"model": Conflict[ExpressionItem]}},
)
async def merge_expression(expression_id: RowId, wanted: MergeInto, view: View) -> ExpressionItem | JSONResponse:
    """Make an expression one with another, which is given back; its own row stays as a rejected one."""
    source, into = ExpressionId(expression_id), ExpressionId(wanted.into)
    try:
        async with view.database.transaction() as conn:
            row = await expression_review.merge(conn, source, into, version=wanted.version, actor="api")
            item = None if row is None else await _shown(conn, row)
    except Outdated as error:
        return await _conflict(view, str(error), error.current)
    except Unmergeable as error:
        raise HTTPException(409, str(error)) from error
    if item is None:
        raise HTTPException(404, f"没有编号为 {expression_id} 或 {wanted.into} 的表达")
    return item


async def _shown(conn: Connection, row: Expression) -> ExpressionItem:
    [item] = await show_all(conn, [row])
    return item


async def _conflict(view: RuntimeView, detail: str, current: Expression) -> JSONResponse:
    async with view.database.connection() as conn:
        return conflict(detail, await _shown(conn, current))


def _missing(expression_id: int) -> HTTPException:
    return HTTPException(404, f"没有编号为 {expression_id} 的表达")
