"""``/api/memories``: what the bot remembers, its evidence, and people's hand in it."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, HTTPException, Query, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field

from db import memories, memory_lists, memory_moderation
from db.memory_models import Claim, Memory, MemoryId, MemoryKind, MemoryStatus, Scope, SubjectKind, Wish
from db.memory_moderation import Duplicate, Edit, Outdated
from db.pool import Connection
from plugins.admin.access import View
from plugins.admin.errors import ChineseRoute, Conflict, Problem, conflict
from plugins.admin.memory_lines import Content, SubjectNumber
from plugins.admin.memory_views import MemoryDetail, MemoryItem, show_all, show_detail
from plugins.admin.params import MAX_ID, MAX_QUESTION, About, InConversation, Items, RowId
from plugins.admin.places import ensure_place, find_place
from plugins.admin.ports import RuntimeView
from plugins.admin.recall import WITHIN_SECONDS
from plugins.admin.subjects import NamedSubject

router = APIRouter(route_class=ChineseRoute, prefix="/memories", tags=["记忆"])

Status = Literal["active", "archived", "all"]


class NewMemory(InConversation):
    """A memory on a person's word."""

    subject: SubjectKind | None = Field(default=None, description="关于谁；不写则看 subject_id")
    subject_id: SubjectNumber | None = Field(default=None, description="成员的 QQ 号；0 或不写：群")
    kind: MemoryKind
    content: Content = Field(description="一条说法，自己站得住，最多 500 个字")


class MemoryPatch(BaseModel):
    """What to change. ``version`` is the one that was read: if somebody changed it since, nothing happens."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    content: Content | None = None
    kind: MemoryKind | None = None
    status: MemoryStatus | None = Field(default=None, description="archived：归档；active：恢复")
    version: int | None = Field(default=None, ge=1, le=2**31 - 1)

    @property
    def edit(self) -> Edit:
        """The change as the database takes it."""
        return Edit(content=self.content, kind=self.kind, status=self.status, version=self.version)


@router.get("", summary="列出或查找记忆")
async def list_memories(
    about: About,
    view: View,
    status: Annotated[Status, Query(description="在用的、归档的，或全部")] = "active",
    q: Annotated[str | None, Query(max_length=MAX_QUESTION, description="按一句话找，最像的在前")] = None,
    limit: Annotated[int, Query(ge=1, le=200, description="最多几条")] = 50,
    before: Annotated[int | None, Query(ge=1, le=MAX_ID, description="只要比这个更早的；有 q 时不能用")] = None,
) -> Items[MemoryItem]:
    """List memories of one conversation, newest first; with ``q``, those that fit it, best first."""
    if q is not None and before is not None:
        raise HTTPException(422, "q 和 before 不能一起用：找到的按相似排，不分页")
    place = await find_place(view, about.key)
    if place is None:
        return Items(items=[])
    statuses: tuple[MemoryStatus, ...] = ("active", "archived") if status == "all" else (status,)
    scope = Scope((place.id,), subjects=place.only(about.subject), kinds=about.kinds, statuses=statuses, withdrawn=True)
    if q is not None and q.strip():
        recalled = await view.memory.recall([q], scope, Wish(limit=limit), within=WITHIN_SECONDS)
        async with view.database.connection() as conn:
            return Items(items=await show_all(conn, [found.memory for found in recalled]))
    async with view.database.connection() as conn:
        found = await memory_lists.newest(conn, scope, limit=limit, before=None if before is None else MemoryId(before))
        items = await show_all(conn, found)
    return Items(items=items, next_before=found[-1].id if len(found) == limit else None)


@router.get("/{memory_id}", summary="一条记忆的依据和来历", responses={404: {"model": Problem}})
async def read_memory(memory_id: RowId, view: View) -> MemoryDetail:
    """Read one memory with the messages that support it and the memories it came from."""
    async with view.database.connection() as conn:
        memory = await memories.get(conn, MemoryId(memory_id))
        detail = None if memory is None else await show_detail(conn, memory)
    if detail is None:
        raise _missing(memory_id)
    return detail


@router.post(
    "",
    summary="写一条记忆",
    status_code=201,
    responses={200: {"model": MemoryItem, "description": "已经有一条相同的"}, 409: {"model": Problem}},
)
async def write_memory(new: NewMemory, view: View, response: Response) -> MemoryItem:
    """Write a memory on a person's word: it needs no evidence, and no job changes it. 200 where it was there already."""
    async with view.database.transaction() as conn:
        place = await ensure_place(conn, new.key)
        subject = place.subject(NamedSubject(new.subject, new.subject_id))
        claim = Claim(place.id, subject, new.kind, new.content, "person")
        try:
            memory, fresh = await memory_moderation.create(conn, claim, actor="api")
        except LookupError as error:
            raise HTTPException(409, str(error)) from error
        item = await _shown(conn, memory)
    view.keeper.poke()
    if not fresh:
        response.status_code = 200
    return item


@router.patch(
    "/{memory_id}",
    summary="改、归档或恢复一条记忆",
    response_model=MemoryItem,
    responses={404: {"model": Problem}, 409: {"model": Conflict[MemoryItem]}},
)
async def change_memory(memory_id: RowId, patch: MemoryPatch, view: View) -> MemoryItem | JSONResponse:
    """Change a memory and lock it. 409 with the current one where somebody was faster, or an equal one is there."""
    if patch.content is None and patch.kind is None and patch.status is None:
        raise HTTPException(422, "没有要改的：请给出 content、kind 或 status")
    try:
        async with view.database.transaction() as conn:
            memory = await memory_moderation.edit(conn, MemoryId(memory_id), patch.edit, actor="api")
            item = None if memory is None else await _shown(conn, memory)
    except Outdated as error:
        return await _conflict(view, str(error), error.current)
    except Duplicate as error:
        return await _conflict(view, str(error), error.existing)
    if item is None:
        raise _missing(memory_id)
    view.keeper.poke()
    return item


@router.delete("/{memory_id}", summary="删除一条记忆", status_code=204, responses={404: {"model": Problem}})
async def delete_memory(memory_id: RowId, view: View) -> None:
    """Delete a memory for good, with its evidence and history."""
    async with view.database.transaction() as conn:
        if not await memory_moderation.delete(conn, MemoryId(memory_id), actor="api"):
            raise _missing(memory_id)


async def _shown(conn: Connection, memory: Memory) -> MemoryItem:
    [item] = await show_all(conn, [memory])
    return item


async def _conflict(view: RuntimeView, detail: str, current: Memory) -> JSONResponse:
    async with view.database.connection() as conn:
        return conflict(detail, await _shown(conn, current))


def _missing(memory_id: int) -> HTTPException:
    return HTTPException(404, f"没有编号为 {memory_id} 的记忆")
