"""What people change: a conversation's own settings, with the audit row in the same transaction."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from psycopg.rows import class_row
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StrictBool, field_validator

from db import audit
from db.audit import Act, AuditRow
from db.learned_models import Target
from db.models import ConversationId, Json, JsonObject
from db.pool import Connection
from settings import parse_quiet_hours


def _storable(value: str) -> str:
    if "\0" in value or any("\ud800" <= char <= "\udfff" for char in value):
        raise ValueError("不能含有 NUL 或不完整的字符")
    return value


Storable: TypeAlias = Annotated[str, AfterValidator(_storable)]


class ConversationSettings(BaseModel):
    """A conversation's own settings. None: as the settings say."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    enabled: StrictBool | None = Field(default=None, description="是否在这里发言；null：按 ENABLED_GROUPS")
    talk_frequency: float | None = Field(
        default=None, strict=True, ge=0, le=1, allow_inf_nan=False, description="null：按 TALK_FREQUENCY"
    )
    quiet_hours: Storable | None = Field(default=None, description="HH:MM-HH:MM；空字符串：没有安静时段；null：按 QUIET_HOURS")
    daily_calls: int | None = Field(
        default=None, strict=True, ge=0, le=1_000_000, description="每天的模型调用上限；null：按 GROUP_DAILY_CALLS"
    )
    persona: Storable | None = Field(default=None, max_length=64, description="人格文件名；null：按 PERSONA")
    extra_prompt: Storable = Field(default="", max_length=4000, description="只对这个会话有效的补充说明；null：清空")
    learning: StrictBool = Field(default=True, description="是否从这里学习；null：恢复为学习")

    @field_validator("quiet_hours")
    @classmethod
    def _quiet_hours(cls, value: str | None) -> str | None:
        if value is None:
            return None
        parse_quiet_hours(value)
        return value.strip()

    @field_validator("extra_prompt", mode="before")
    @classmethod
    def _no_prompt(cls, value: object) -> object:
        return "" if value is None else value

    @field_validator("learning", mode="before")
    @classmethod
    def _learns_again(cls, value: object) -> object:
        return True if value is None else value


async def change_settings(conn: Connection, conversation_id: ConversationId, wanted: ConversationSettings, *, actor: str) -> bool:
    """Set the fields that ``wanted`` names and write the audit row. False: there is no such conversation.

    Must run inside a transaction. ``actor`` is a QQ number or ``api``. What changes nothing leaves no trace.
    """
    old = await _hold(conn, conversation_id)
    if old is None:
        return False
    before = old.model_dump()
    new = before | wanted.model_dump(include=wanted.model_fields_set)
    changed = {name for name in new if new[name] != before[name]}
    if not changed:
        return True
    await _set(conn, conversation_id, new)
    act = Act(
        actor,
        "conversation.change",
        conversation_id,
        {name: before[name] for name in changed},
        {name: new[name] for name in changed},
        Target("conversation", conversation_id),
    )
    await audit.write(conn, act)
    return True


async def restore_settings(conn: Connection, act: AuditRow) -> bool:
    """Put back the settings that an act changed; False: one of them changed since, or the conversation is gone."""
    if act.conversation_id is None or act.before is None or act.after is None:
        return False
    current = await _hold(conn, act.conversation_id)
    if current is None:
        return False
    now = current.model_dump()
    if any(now.get(name) != value for name, value in act.after.items()):
        return False
    await _set(conn, act.conversation_id, ConversationSettings.model_validate(now | dict(act.before)).model_dump())
    return True


async def _hold(conn: Connection, conversation_id: ConversationId) -> ConversationSettings | None:
    """Read the settings and keep others from changing them until the commit."""
    async with conn.cursor(row_factory=class_row(ConversationSettings)) as cursor:
        await cursor.execute(
            """
            SELECT enabled, talk_frequency, quiet_hours, daily_calls, persona, extra_prompt, learning
            FROM conversations
            WHERE id = %(id)s
            FOR NO KEY UPDATE
            """,
            {"id": conversation_id},
        )
        return await cursor.fetchone()


async def _set(conn: Connection, conversation_id: ConversationId, values: dict[str, Json]) -> None:
    await conn.execute(
        """
        UPDATE conversations
        SET enabled = %(enabled)s, talk_frequency = %(talk_frequency)s, quiet_hours = %(quiet_hours)s,
            daily_calls = %(daily_calls)s, persona = %(persona)s, extra_prompt = %(extra_prompt)s,
            learning = %(learning)s, updated_at = now()
        WHERE id = %(id)s
        """,
        {**values, "id": conversation_id},
    )


async def record(
    conn: Connection,
    *,
    actor: str,
    action: str,
    conversation_id: ConversationId | None = None,
    before: JsonObject | None = None,
    after: JsonObject | None = None,
) -> None:
    """Write one act into the audit log. ``actor`` is a QQ number or ``api``."""
    await audit.write(conn, audit.Act(actor, action, conversation_id, before, after))
