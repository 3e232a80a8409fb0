"""What the API reads: conversations, messages, the outbox and the audit log, as their readers see them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from psycopg.rows import class_row
from pydantic import BaseModel, ConfigDict, Field, JsonValue, computed_field

from db.learned_models import AuditId, TargetKind
from db.models import Conversation, ConversationId, ConversationKey, Kind, SendReason, SendStatus, display
from db.pool import Connection


class Row(BaseModel):
    """A row as the API shows it. Times are UTC."""

    model_config = ConfigDict(frozen=True)


@dataclass(frozen=True, slots=True)
class Page:
    """Which part of a list: at most ``limit`` rows, older than the id ``before``, of one conversation or of all."""

    limit: int
    before: int | None = None
    key: ConversationKey | None = None

    @property
    def parameters(self) -> dict[str, int | str | None]:
        """The page as query parameters: kind, target, before, limit."""
        kind, target = (self.key.kind, self.key.target_id) if self.key else (None, None)
        return {"kind": kind, "target": target, "before": self.before, "limit": self.limit}


class ConversationRow(Row):
    """A conversation with its own settings (null: as the settings say) and its state."""

    id: int
    kind: Kind
    target_id: int = Field(description="群号，或好友的 QQ 号")
    name: str
    enabled: bool | None
    talk_frequency: float | None
    quiet_hours: str | None
    daily_calls: int | None
    persona: str | None
    extra_prompt: str
    learning: bool
    quiet_until: datetime | None = Field(description="/群友 安静 到何时")
    muted_until: datetime | None = Field(description="机器人被禁言到何时")
    whole_mute: bool = Field(description="全员禁言中")
    left_at: datetime | None = Field(description="何时离开了这个群")
    last_pos: int = Field(description="最新消息的编号")
    watermark: int = Field(description="已读线：模型看到过的最新消息的编号")
    last_message_at: datetime | None
    diced_pos: int = Field(exclude=True)
    owed: int = Field(description="欠回：还没有回应的点名数")
    calls_today: int = Field(description="今天成功的模型调用数，学习用的不算；到 daily_calls 就不再发言")

    @property
    def conversation(self) -> Conversation:
        """The plain row, as rules take it."""
        return Conversation(
            id=ConversationId(self.id),
            kind=self.kind,
            target_id=self.target_id,
            name=self.name,
            enabled=self.enabled,
            talk_frequency=self.talk_frequency,
            quiet_hours=self.quiet_hours,
            daily_calls=self.daily_calls,
            persona=self.persona,
            extra_prompt=self.extra_prompt,
            learning=self.learning,
            quiet_until=self.quiet_until,
            muted_until=self.muted_until,
            whole_mute=self.whole_mute,
            left_at=self.left_at,
            last_pos=self.last_pos,
            watermark=self.watermark,
            diced_pos=self.diced_pos,
        )


async def conversations(conn: Connection, *, day_start: datetime, only: int | None = None) -> list[ConversationRow]:
    """Read all conversations, or only the one with this row id, the lately active first.

    ``day_start`` is when the owner's day began: answered model calls are counted from there.
    """
    async with conn.cursor(row_factory=class_row(ConversationRow)) as cursor:
        await cursor.execute(
            """
            SELECT c.id, c.kind, c.target_id, c.name, c.enabled, c.talk_frequency, c.quiet_hours, c.daily_calls,
                   c.persona, c.extra_prompt, c.learning, c.quiet_until, c.muted_until, c.whole_mute, c.left_at,
                   c.last_pos, c.watermark, c.diced_pos, newest.sent_at AS last_message_at,
                   (SELECT count(*) FROM owed o WHERE o.conversation_id = c.id AND o.settled_at IS NULL) AS owed,
                   (SELECT count(*) FROM model_calls m
                    WHERE m.conversation_id = c.id AND m.called_at >= %(day_start)s AND m.ok
                      AND NOT (m.role = 'learner' AND m.turn_id IS NULL)) AS calls_today
            FROM conversations c
            LEFT JOIN LATERAL (SELECT m.sent_at FROM messages m
                               WHERE m.conversation_id = c.id ORDER BY m.pos DESC LIMIT 1) AS newest ON true
            WHERE %(only)s::bigint IS NULL OR c.id = %(only)s
            ORDER BY newest.sent_at DESC NULLS LAST, c.id
            """,
            {"day_start": day_start, "only": only},
        )
        return await cursor.fetchall()


class MessageItem(Row):
    """A stored message as a reader sees it."""

    id: int
    pos: int = Field(description="在会话里的编号，提示词里写作 #编号")
    real_seq: int | None = Field(description="QQ 给出的顺序")
    kind: str = Field(description="message 或 poke")
    sender_id: int
    sender_name: str = Field(description="发送时的名字")
    is_self: bool
    is_robot: bool
    is_command: bool
    text: str = Field(description="说了什么")
    body: str = Field(description="读者看到的，不含引用", exclude=True)
    quoted_id: int | None = Field(description="引用的消息的 id；不认识为 null")
    quote_name: str | None = Field(description="引用了谁；null：不是回复")
    quote_text: str | None = Field(description="引用了什么；null：看不到")
    sent_at: datetime
    withdrawn_at: datetime | None = Field(description="何时被撤回")
    withdrawn_by: int | None
    turn_id: int | None = Field(description="机器人在哪一轮说的")
    backfilled: bool = Field(description="断线后补录的")

    @computed_field(description="提示词里的标签")
    @property
    def label(self) -> str:
        """The label in prompts."""
        return f"#{self.pos}"

    @computed_field(description="读者看到的：引用在前")
    @property
    def display(self) -> str:
        """What a reader sees: the quote, then the body."""
        return display(self.body, self.quote_name, self.quote_text)


async def messages(conn: Connection, page: Page) -> list[MessageItem]:
    """Read the newest messages of a conversation in reading order, ``before`` being a position here; [] if unknown.

    Reading order is real_seq, then time, then position; what has no real_seq stands where it arrived.
    """
    async with conn.cursor(row_factory=class_row(MessageItem)) as cursor:
        await cursor.execute(
            """
            SELECT id, pos, real_seq, kind, sender_id, sender_name, is_self, is_robot, is_command, text, body,
                   quoted_id, quote_name, quote_text, sent_at, withdrawn_at, withdrawn_by, turn_id, backfilled
            FROM (SELECT *
                  FROM messages
                  WHERE conversation_id = (SELECT id FROM conversations WHERE kind = %(kind)s AND target_id = %(target)s)
                    AND (%(before)s::bigint IS NULL OR pos < %(before)s)
                  ORDER BY pos DESC
                  LIMIT %(limit)s) AS newest
            ORDER BY coalesce(real_seq, max(real_seq) OVER (ORDER BY pos)) NULLS FIRST, sent_at, pos
            """,
            page.parameters,
        )
        return await cursor.fetchall()


class OutboxItem(Row):
    """A message that left or wants to leave."""

    id: int
    conversation_id: int
    kind: Kind
    target_id: int
    account_id: int
    turn_id: int | None
    status: SendStatus
    text: str
    message_id: int | None = Field(description="QQ 给的消息号")
    message: int | None = Field(description="存下来的那条消息的 id")
    reason: SendReason | None
    detail: str | None
    created_at: datetime
    left_at: datetime | None = Field(description="何时交给了 NapCat")
    settled_at: datetime | None


async def outbox(
    conn: Connection, page: Page, *, status: SendStatus | None = None, turn_id: int | None = None
) -> list[OutboxItem]:
    """Read the outbox, newest first; only what has this status, only what this turn wanted to send."""
    async with conn.cursor(row_factory=class_row(OutboxItem)) as cursor:
        await cursor.execute(
            """
            SELECT o.id, o.conversation_id, c.kind, c.target_id, o.account_id, o.turn_id, o.status, o.text,
                   o.message_id, o.message, o.reason, o.detail, o.created_at, o.left_at, o.settled_at
            FROM outbox o
            JOIN conversations c ON c.id = o.conversation_id
            WHERE (%(target)s::bigint IS NULL
                   OR o.conversation_id = (SELECT id FROM conversations
                                           WHERE kind = %(kind)s AND target_id = %(target)s))
              AND (%(status)s::text IS NULL OR o.status = %(status)s)
              AND (%(turn)s::bigint IS NULL OR o.turn_id = %(turn)s)
              AND (%(before)s::bigint IS NULL OR o.id < %(before)s)
            ORDER BY o.id DESC
            LIMIT %(limit)s
            """,
            page.parameters | {"status": status, "turn": turn_id},
        )
        return await cursor.fetchall()


class AuditItem(Row):
    """One act of a person: who, what, and the values before and after."""

    id: int
    at: datetime
    actor: str = Field(description="QQ 号、api 或 auto（自动通过）")
    action: str
    conversation_id: int | None
    kind: Kind | None
    target_id: int | None
    before: JsonValue = Field(description="之前的样子；null：之前没有")
    after: JsonValue = Field(description="之后的样子；null：删掉了")
    row_kind: TargetKind | None = Field(description="slang、expression、trait、memory、conversation；null：不能撤销")
    row_id: int | None = Field(description="它的编号")
    undone_at: datetime | None = Field(description="什么时候被撤销；null：没有撤销")
    undoes: int | None = Field(description="它撤销的是哪一步")


async def audit(conn: Connection, page: Page) -> list[AuditItem]:
    """Read the audit log, newest first."""
    async with conn.cursor(row_factory=class_row(AuditItem)) as cursor:
        await cursor.execute(
            """
            SELECT a.id, a.at, a.actor, a.action, a.conversation_id, c.kind, c.target_id, a.before, a.after,
                   a.target_kind AS row_kind, a.target_id AS row_id, a.undone_at, a.undoes
            FROM audit a
            LEFT JOIN conversations c ON c.id = a.conversation_id
            WHERE (%(target)s::bigint IS NULL OR (c.kind = %(kind)s AND c.target_id = %(target)s))
              AND (%(before)s::bigint IS NULL OR a.id < %(before)s)
            ORDER BY a.id DESC
            LIMIT %(limit)s
            """,
            page.parameters,
        )
        return await cursor.fetchall()


async def audit_of(conn: Connection, audit_id: AuditId) -> AuditItem | None:
    """Read one act; None: there is none."""
    [found] = await audit(conn, Page(limit=1, before=audit_id + 1)) or [None]
    return found if found is not None and found.id == audit_id else None
