"""``/api/topics``: what a group talked about, thread by thread."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, HTTPException, Query
from pydantic import BaseModel, ConfigDict, Field

from db import conversations, members, topic_lists
from db.learned_models import TopicId
from db.models import Conversation, ConversationId
from db.pool import Connection
from db.topic_lists import TopicRow
from plugins.admin.access import View
from plugins.admin.errors import ChineseRoute, Problem
from plugins.admin.params import MAX_ID, Items, OptionalKey, RowId
from plugins.admin.places import find_place
from plugins.chat.names import show_name

router = APIRouter(route_class=ChineseRoute, prefix="/topics", tags=["话题"])

MOST_MESSAGES = 200


class Participant(BaseModel):
    """Somebody who wrote in a topic."""

    user_id: int
    name: str


class Summary(BaseModel):
    """What a topic comes to."""

    version: int
    title: str
    gist: str
    open_loops: list[str] = Field(description="还没说完的事")
    keywords: list[str]
    made_at: datetime


class TopicItem(BaseModel):
    """A topic. ``group_id`` or ``user_id`` says where it belongs."""

    id: int
    group_id: int | None = Field(description="群号；私聊里的为 null")
    user_id: int | None = Field(description="好友的 QQ 号；群里的为 null")
    first_at: datetime
    last_at: datetime
    messages: int = Field(description="多少条消息")
    participants: list[Participant] = Field(description="谁在里面说过话，说得多的在前")
    stale: bool = Field(description="true：等着写新的摘要")
    summary: Summary | None = Field(description="现在的摘要；依据撤回了、新的还没写好时为 null")


class VersionItem(BaseModel):
    """One version of a summary. A dropped one has no words any more."""

    model_config = ConfigDict(from_attributes=True)

    version: int
    title: str
    gist: str
    open_loops: list[str]
    keywords: list[str]
    sources: int = Field(description="由多少条消息得来")
    made_at: datetime
    dropped_at: datetime | None = Field(description="它的消息有撤回的，内容已经清空")


class TopicMessageItem(BaseModel):
    """A message of a topic."""

    model_config = ConfigDict(from_attributes=True)

    pos: int = Field(description="在会话里的编号")
    sender_id: int
    sender_name: str
    text: str
    sent_at: datetime


class TopicDetail(TopicItem):
    """A topic with its versions, newest first, and its newest messages in order."""

    versions: list[VersionItem]
    lines: list[TopicMessageItem] = Field(description=f"最新的 {MOST_MESSAGES} 条消息")


@router.get("", summary="列出话题")
async def list_topics(
    key: OptionalKey,
    view: View,
    limit: Annotated[int, Query(ge=1, le=200, description="最多几个")] = 50,
    before: Annotated[int | None, Query(ge=1, le=MAX_ID, description="只要编号比这个小的")] = None,
) -> Items[TopicItem]:
    """List the topics of one conversation or of all, the newest first."""
    place = None if key is None else await find_place(view, key)
    if key is not None and place is None:
        return Items(items=[])
    older = None if before is None else TopicId(before)
    async with view.database.connection() as conn:
        rows = await topic_lists.newest(conn, None if place is None else place.id, limit=limit, before=older)
        items = await _show(conn, rows)
    return Items(items=items, next_before=rows[-1].id if len(rows) == limit else None)


@router.get("/{topic_id}", summary="一个话题的摘要和消息", responses={404: {"model": Problem}})
async def read_topic(topic_id: RowId, view: View) -> TopicDetail:
    """Read one topic with all versions of its summary and its newest messages."""
    async with view.database.connection() as conn:
        row = await topic_lists.get(conn, TopicId(topic_id))
        items = [] if row is None else await _show(conn, [row])
        versions = await topic_lists.versions(conn, TopicId(topic_id))
        lines = await topic_lists.said(conn, TopicId(topic_id), limit=MOST_MESSAGES)
    if not items:
        raise HTTPException(404, f"没有编号为 {topic_id} 的话题")
    return TopicDetail(
        **items[0].model_dump(),
        versions=[VersionItem.model_validate(version) for version in versions],
        lines=[TopicMessageItem.model_validate(line) for line in lines],
    )


async def _show(conn: Connection, rows: Sequence[TopicRow]) -> list[TopicItem]:
    """Show topics, in the same order."""
    places = {place.id: place for place in await conversations.some(conn, {row.conversation_id for row in rows})}
    wanted = sorted({(row.conversation_id, user) for row in rows for user in row.users})
    names = {
        (member.conversation_id, member.user_id): show_name(member.card, member.nickname, member.user_id)
        for member in await members.some(conn, wanted)
    }
    return [_item(row, places[row.conversation_id], names) for row in rows if row.conversation_id in places]


def _item(row: TopicRow, place: Conversation, names: Mapping[tuple[ConversationId, int], str]) -> TopicItem:
    group = place.kind == "group"
    named = ((user, names.get((row.conversation_id, user)) or show_name("", "", user)) for user in row.users)
    return TopicItem(
        id=row.id,
        group_id=place.target_id if group else None,
        user_id=None if group else place.target_id,
        first_at=row.first_at,
        last_at=row.last_at,
        messages=row.messages,
        participants=[Participant(user_id=user, name=name) for user, name in named],
        stale=row.stale,
        summary=_summary(row),
    )


def _summary(row: TopicRow) -> Summary | None:
    if row.version is None or row.made_at is None:
        return None
    return Summary(
        version=row.version,
        title=row.title or "",
        gist=row.gist or "",
        open_loops=row.open_loops or [],
        keywords=row.keywords or [],
        made_at=row.made_at,
    )
