"""``/api/slang``: the group's slang, what supports it, and people's hand in it."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from fastapi import APIRouter, HTTPException, Query
from fastapi.responses import JSONResponse
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from db import slang, slang_lists, slang_review
from db.learned_models import ReviewStatus, SlangId
from db.moderation import Storable
from db.pool import Connection
from db.slang import MEANING_CHARS, NOTE_CHARS, TERM_CHARS, Slang
from db.slang_lists import Order, SlangFilter
from db.slang_review import Edit, NewSlang, Outdated, Taken, Unmergeable
from db.slang_terms import term_key
from plugins.admin.access import View
from plugins.admin.errors import ChineseRoute, Conflict, Problem, conflict
from plugins.admin.params import MAX_ID, MAX_QUESTION, InConversation, OptionalKey, RowId
from plugins.admin.places import ensure_place, find_place
from plugins.admin.ports import RuntimeView
from plugins.admin.slang_views import SlangDetail, SlangItem, Slice, SlicePage, show_all, show_detail

router = APIRouter(route_class=ChineseRoute, prefix="/slang", tags=["黑话"])

Status = Literal["candidate", "approved", "rejected", "all"]
MAX_VERSION = 2**31 - 1
ALL: tuple[ReviewStatus, ...] = ("candidate", "approved", "rejected")


def one_line(text: str) -> str:
    """Put a text on one line."""
    return " ".join(text.split())


def one_term(text: str) -> str:
    """Read a term on one line. Raises ValueError where it holds no letter and no digit."""
    line = one_line(text)
    if not any(char.isalnum() for char in term_key(line)):
        raise ValueError("要有文字或数字")
    return line


def one_meaning(text: str) -> str:
    """Read a meaning on one line. Raises ValueError where nothing is left."""
    line = one_line(text)
    if not line:
        raise ValueError("不能为空")
    return line


Term: TypeAlias = Annotated[Storable, Field(min_length=1, max_length=TERM_CHARS), AfterValidator(one_term)]
Meaning: TypeAlias = Annotated[Storable, Field(max_length=MEANING_CHARS), AfterValidator(one_meaning)]
Plain: TypeAlias = Annotated[Storable, Field(max_length=MEANING_CHARS), AfterValidator(one_line)]
Note: TypeAlias = Annotated[Storable, Field(max_length=NOTE_CHARS)]
Version: TypeAlias = Annotated[int, Field(ge=1, le=MAX_VERSION)]


class NewTerm(InConversation):
    """A term on a person's word: approved at once, and locked."""

    term: Term
    meaning: Meaning = Field(description="在这个群里的意思")
    meaning_without_context: Plain = Field(default="", description="只看字面的意思")
    note: Note = ""


class SlangPatch(BaseModel):
    """What to change. ``version`` is the one that was read: if somebody changed the term since, nothing happens."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    status: ReviewStatus | None = Field(default=None, description="approved：通过；rejected：拒绝；candidate：恢复为候选")
    term: Term | None = None
    meaning: Meaning | None = None
    meaning_without_context: Plain | None = None
    note: Note | None = None
    version: Version

    @property
    def edit(self) -> Edit:
        """The change as the database takes it."""
        return Edit(
            version=self.version,
            status=self.status,
            term=self.term,
            meaning=self.meaning,
            meaning_plain=self.meaning_without_context,
            note=self.note,
        )


class MergeInto(BaseModel):
    """Which term it becomes a spelling of."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    into: Annotated[int, Field(ge=1, le=MAX_ID, description="并入哪一条")]
    version: Version | None = None


@router.get("", summary="列出或查找黑话")
async def list_slang(
    key: OptionalKey,
    page: SlicePage,
    view: View,
    status: Annotated[Status, Query(description="候选、通过、拒绝，或全部")] = "all",
    q: Annotated[str, Query(max_length=MAX_QUESTION, description="词、别的写法或意思里的一部分")] = "",
    sort: Annotated[Order, Query(description="useful：常说、说的人多、有把握、最近说过的在前；newest：新的在前")] = "useful",
) -> Slice[SlangItem]:
    """List the slang of one conversation or of all, most useful first."""
    place = None if key is None else await find_place(view, key)
    if key is not None and place is None:
        return Slice(items=[])
    wanted = SlangFilter(
        conversation_id=None if place is None else place.id,
        statuses=ALL if status == "all" else (status,),
        text=q,
        order=sort,
        limit=page.limit,
        offset=page.offset,
    )
    async with view.database.connection() as conn:
        items = await show_all(conn, await slang_lists.some(conn, wanted))
    return Slice(items=items, next_offset=page.offset + page.limit if len(items) == page.limit else None)


@router.get("/{slang_id}", summary="一个黑话的依据和历史", responses={404: {"model": Problem}})
async def read_slang(slang_id: RowId, view: View) -> SlangDetail:
    """Read one term with the messages that support it and what its meaning was."""
    async with view.database.connection() as conn:
        row = await slang.get(conn, SlangId(slang_id))
        detail = None if row is None else await show_detail(conn, row)
    if detail is None:
        raise _missing(slang_id)
    return detail


@router.post("", summary="写一个黑话", status_code=201, response_model=SlangItem, responses={409: {"model": Conflict[SlangItem]}})
async def write_slang(new: NewTerm, view: View) -> SlangItem | JSONResponse:
    """Write a term on a person's word: approved, locked, without evidence. 409 with the one that has this spelling."""
    try:
        async with view.database.transaction() as conn:
            place = await ensure_place(conn, new.key)
            wanted = NewSlang(place.id, new.term, new.meaning, new.meaning_without_context, new.note)
            return await _shown(conn, await slang_review.create(conn, wanted, actor="api"))
    except Taken as error:
        return await _conflict(view, str(error), error.current)


@router.patch(
    "/{slang_id}",
    summary="通过、拒绝、恢复或修改一个黑话",
    response_model=SlangItem,
    responses={404: {"model": Problem}, 409: {"model": Conflict[SlangItem]}},
)
async def change_slang(slang_id: RowId, patch: SlangPatch, view: View) -> SlangItem | JSONResponse:
    """Approve, reject, restore or edit a term; other words lock it. 409 with the current one where somebody was faster."""
    if patch.model_fields_set <= {"version"}:
        raise HTTPException(422, "没有要改的：请给出 status、term、meaning 或 note")
    try:
        async with view.database.transaction() as conn:
            row = await slang_review.edit(conn, SlangId(slang_id), patch.edit, actor="api")
            item = None if row is None else await _shown(conn, row)
    except (Outdated, Taken) as error:
        return await _conflict(view, str(error), error.current)
    if item is None:
        raise _missing(slang_id)
    return item


@router.post(
    "/{slang_id}/merge",
    summary="并入另一个黑话",
    response_model=SlangItem,
    responses={404: {"model": Problem}, 409: {"model": Conflict[SlangItem]}},
)
async def merge_slang(slang_id: RowId, wanted: MergeInto, view: View) -> SlangItem | JSONResponse:
    """Make a term a spelling of another one, which is given back; its own row stays as a rejected one."""
    try:
        async with view.database.transaction() as conn:
            row = await slang_review.merge(conn, SlangId(slang_id), SlangId(wanted.into), version=wanted.version, actor="api")
            item = None if row is None else await _shown(conn, row)
    except Outdated as error:
        return await _conflict(view, str(error), error.current)
    except Unmergeable as error:
        raise HTTPException(409, str(error)) from error
    if item is None:
        raise HTTPException(404, f"没有编号为 {slang_id} 或 {wanted.into} 的黑话")
    return item


async def _shown(conn: Connection, row: Slang) -> SlangItem:
    [item] = await show_all(conn, [row])
    return item


async def _conflict(view: RuntimeView, detail: str, current: Slang) -> JSONResponse:
    async with view.database.connection() as conn:
        return conflict(detail, await _shown(conn, current))


def _missing(slang_id: int) -> HTTPException:
    return HTTPException(404, f"没有编号为 {slang_id} 的黑话")
