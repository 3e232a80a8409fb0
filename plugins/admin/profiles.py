"""``/api/profiles``: what is known of members, what supports it, and people's hand in it."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from fastapi import APIRouter, HTTPException, Query
from fastapi.responses import JSONResponse
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from db import trait_lists, trait_review, traits
from db.learned_models import TraitId, TraitKind
from db.models import ConversationKey
from db.moderation import Storable
from db.trait_lists import ProfileFilter
from db.trait_review import Edit, Outdated, Taken
from db.traits import CONTENT_CHARS, Trait
from plugins.admin.access import View
from plugins.admin.errors import ChineseRoute, Conflict, Problem, conflict
from plugins.admin.params import MAX_ID, GroupId, RowId
from plugins.admin.places import find_place
from plugins.admin.ports import RuntimeView
from plugins.admin.profile_views import ProfileItem, TraitDetail, TraitItem, show_detail, show_profiles, show_trait
from plugins.admin.slang import MAX_VERSION, Version, one_meaning
from plugins.admin.slang_views import Slice, SlicePage

router = APIRouter(route_class=ChineseRoute, prefix="/profiles", tags=["画像"])

Content: TypeAlias = Annotated[Storable, Field(max_length=CONTENT_CHARS), AfterValidator(one_meaning)]
MemberId: TypeAlias = Annotated[int | None, Query(ge=1, le=MAX_ID, description="成员的 QQ 号")]


class TraitPatch(BaseModel):
    """What to change. ``version`` is the one that was read: if somebody changed the trait since, nothing happens."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: TraitKind | None = None
    content: Content | None = None
    version: Version


@router.get("", summary="列出画像")
async def list_profiles(page: SlicePage, view: View, group_id: GroupId = None, user_id: MemberId = None) -> Slice[ProfileItem]:
    """List members with what is known of them, of one group or of all, those that changed last first."""
    place = None if group_id is None else await find_place(view, ConversationKey("group", group_id))
    if group_id is not None and place is None:
        return Slice(items=[])
    wanted = ProfileFilter(None if place is None else place.id, user_id, page.limit, page.offset)
    async with view.database.connection() as conn:
        items = await show_profiles(conn, await trait_lists.owners(conn, wanted))
    return Slice(items=items, next_offset=page.offset + page.limit if len(items) == page.limit else None)


@router.get("/{trait_id}", include_in_schema=False)
@router.get("/traits/{trait_id}", summary="画像里一点的依据", responses={404: {"model": Problem}})
async def read_trait(trait_id: RowId, view: View) -> TraitDetail:
    """Read one trait, also one that is not used any more, with the messages that support it."""
    async with view.database.connection() as conn:
        row = await traits.get(conn, TraitId(trait_id))
        if row is None:
            raise _missing(trait_id)
        return await show_detail(conn, row)


@router.patch("/{trait_id}", include_in_schema=False, response_model=TraitItem)
@router.patch(
    "/traits/{trait_id}",
    summary="修改画像里的一点",
    response_model=TraitItem,
    responses={404: {"model": Problem}, 409: {"model": Conflict[TraitItem]}},
)
async def change_trait(trait_id: RowId, patch: TraitPatch, view: View) -> TraitItem | JSONResponse:
    """Edit a trait, which locks it. 409 with the current one where somebody was faster."""
    if patch.model_fields_set <= {"version"}:
        raise HTTPException(422, "没有要改的：请给出 kind 或 content")
    wanted = Edit(patch.version, patch.kind, patch.content)
    try:
        async with view.database.transaction() as conn:
            row = await trait_review.edit(conn, TraitId(trait_id), wanted, actor="api")
            item = None if row is None else await show_trait(conn, row)
    except (Outdated, Taken) as error:
        return await _conflict(view, str(error), error.current)
    if item is None:
        raise _missing(trait_id)
    return item


@router.delete("/{trait_id}", include_in_schema=False, response_model=TraitItem)
@router.delete(
    "/traits/{trait_id}",
    summary="删掉画像里的一点",
    response_model=TraitItem,
    responses={404: {"model": Problem}, 409: {"model": Conflict[TraitItem]}},
)
async def drop_trait(
    trait_id: RowId,
    view: View,
    version: Annotated[int | None, Query(ge=1, le=MAX_VERSION, description="看到的版本；别人先改过就是 409")] = None,
) -> TraitItem | JSONResponse:
    """Take a trait away: it does not come back by itself. 409 with the current one where somebody was faster."""
    try:
        async with view.database.transaction() as conn:
            row = await trait_review.drop(conn, TraitId(trait_id), version=version, actor="api")
            item = None if row is None else await show_trait(conn, row)
    except Outdated as error:
        return await _conflict(view, str(error), error.current)
    if item is None:
        raise _missing(trait_id)
    return item


async def _conflict(view: RuntimeView, detail: str, current: Trait) -> JSONResponse:
    async with view.database.connection() as conn:
        return conflict(detail, await show_trait(conn, current))


def _missing(trait_id: int) -> HTTPException:
    return HTTPException(404, f"画像里没有编号为 {trait_id} 的一点")
