"""``/api/members``: forgetting a member of a group, and not learning about them."""

from __future__ import annotations

from fastapi import APIRouter, HTTPException
from pydantic import BaseModel, Field

from db import forget, moderation, unlearned
from db.models import ConversationKey
from plugins.admin.access import View
from plugins.admin.errors import ChineseRoute, Problem
from plugins.admin.params import GroupPath, UserPath
from plugins.admin.places import Place, ensure_place, find_place
from plugins.admin.ports import RuntimeView

router = APIRouter(route_class=ChineseRoute, prefix="/members", tags=["成员"])


class Forgotten(BaseModel):
    """What was deleted or emptied."""

    messages: int = Field(description="清空的消息")
    memories: int = Field(description="删除的记忆")


class Unlearned(BaseModel):
    """Whether a member is not learned from."""

    group_id: int
    user_id: int
    unlearned: bool = Field(description="true：不记这个人的事")


@router.delete("/{group_id}/{user_id}", summary="忘记一个成员", responses={404: {"model": Problem}})
async def forget_member(group_id: GroupPath, user_id: UserPath, view: View) -> Forgotten:
    """Empty what a member said in a group and delete what was derived from it, as /群友 忘记我 does."""
    place = await _known(view, group_id)
    _not_own(place, user_id)
    async with view.database.transaction() as conn:
        gone = await forget.member(conn, place.id, user_id)
        after = {"user_id": user_id, "messages": gone.messages, "memories": gone.memories}
        await moderation.record(conn, actor="api", action="member.forget", conversation_id=place.id, after=after)
    return Forgotten(messages=gone.messages, memories=gone.memories)


@router.post("/{group_id}/{user_id}/unlearned", summary="别记这个成员")
async def stop_learning(group_id: GroupPath, user_id: UserPath, view: View) -> Unlearned:
    """Let nothing new be learned about a member, as /群友 别记我 does; what is known stays."""
    async with view.database.transaction() as conn:
        place = await ensure_place(conn, ConversationKey("group", group_id))
        _not_own(place, user_id)
        if await unlearned.set(conn, place.id, user_id):
            await moderation.record(
                conn, actor="api", action="member.unlearn", conversation_id=place.id, after={"user_id": user_id}
            )
    return Unlearned(group_id=group_id, user_id=user_id, unlearned=True)


@router.delete("/{group_id}/{user_id}/unlearned", summary="又可以记这个成员", responses={404: {"model": Problem}})
async def learn_again(group_id: GroupPath, user_id: UserPath, view: View) -> Unlearned:
    """Let things be learned about a member again, as /群友 可以记我 does."""
    place = await _known(view, group_id)
    async with view.database.transaction() as conn:
        if await unlearned.clear(conn, place.id, user_id):
            await moderation.record(
                conn, actor="api", action="member.learn", conversation_id=place.id, before={"user_id": user_id}
            )
    return Unlearned(group_id=group_id, user_id=user_id, unlearned=False)


async def _known(view: RuntimeView, group_id: int) -> Place:
    place = await find_place(view, ConversationKey("group", group_id))
    if place is None:
        raise HTTPException(404, f"没有群号为 {group_id} 的会话")
    return place


def _not_own(place: Place, user_id: int) -> None:
    if user_id in place.own:
        raise HTTPException(422, "这是机器人自己的号")
