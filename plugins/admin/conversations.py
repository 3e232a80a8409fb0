"""``/api/conversations``: what the bot may do where."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Body, HTTPException
from pydantic import BaseModel, Field

from db import conversations, moderation, reports
from db.conversations import KnownConversation
from db.models import ConversationId, ConversationKey
from db.moderation import ConversationSettings
from persona.loader import PersonaMissing, load_persona
from plugins.admin.access import View
from plugins.admin.errors import ChineseRoute, Problem
from plugins.admin.params import Items, RequiredKey, RowId
from plugins.admin.ports import RuntimeView
from plugins.admin.times import day_start

router = APIRouter(route_class=ChineseRoute, prefix="/conversations", tags=["会话"])


class Effective(BaseModel):
    """What counts now: the conversation's own value, else the setting."""

    enabled: bool
    talk_frequency: float
    quiet_hours: str = Field(description="空字符串：没有安静时段")
    daily_calls: int
    persona: str


class ConversationItem(reports.ConversationRow):
    """A conversation, its own settings and what counts in the end."""

    effective: Effective


Patch = Annotated[ConversationSettings, Body(description="只给要改的项；null 表示恢复为全局设置")]


@router.get("", summary="列出会话")
async def list_conversations(view: View) -> Items[ConversationItem]:
    """List all conversations, the lately active first."""
    async with view.database.connection() as conn:
        rows = await reports.conversations(conn, day_start=day_start(datetime.now(view.settings.zone)))
    return Items(items=[_item(row, view) for row in rows])


@router.patch("", summary="按群号或 QQ 号改会话设置")
async def change_by_number(key: RequiredKey, patch: Patch, view: View) -> ConversationItem:
    """Change the settings of a group or a friend, also of one that nothing is known of yet."""
    return await _change(view, key, patch)


@router.patch("/{conversation_id}", summary="改会话设置", responses={404: {"model": Problem}})
async def change_by_row(conversation_id: RowId, patch: Patch, view: View) -> ConversationItem:
    """Change the settings of a conversation."""
    return await _change(view, ConversationId(conversation_id), patch)


async def _change(view: RuntimeView, which: ConversationKey | ConversationId, patch: ConversationSettings) -> ConversationItem:
    if patch.persona is not None:
        try:
            load_persona(patch.persona, view.settings.data_dir)
        except PersonaMissing as error:
            raise HTTPException(422, f"persona：{error}") from error
    async with view.database.transaction() as conn:
        if isinstance(which, ConversationKey):
            [known] = await conversations.ensure(conn, [KnownConversation(which)])
            row_id = known.id
        else:
            row_id = which
        found = await moderation.change_settings(conn, row_id, patch, actor="api")
        rows = await reports.conversations(conn, day_start=day_start(datetime.now(view.settings.zone)), only=row_id)
    if not found:
        raise HTTPException(404, f"没有编号为 {row_id} 的会话")
    await view.changed(row_id)
    return _item(rows[0], view)


def _item(row: reports.ConversationRow, view: RuntimeView) -> ConversationItem:
    settings = view.settings
    hours = settings.quiet_hours
    default_hours = f"{hours.start:%H:%M}-{hours.end:%H:%M}" if hours else ""
    effective = Effective(
        enabled=view.enabled(row.conversation),
        talk_frequency=settings.talk_frequency if row.talk_frequency is None else row.talk_frequency,
        quiet_hours=default_hours if row.quiet_hours is None else row.quiet_hours,
        daily_calls=settings.group_daily_calls if row.daily_calls is None else row.daily_calls,
        persona=row.persona or settings.persona,
    )
    return ConversationItem.model_validate({**dict(row), "effective": effective})
