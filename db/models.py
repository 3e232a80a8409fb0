"""The records that rooms hand to each other: frozen, plain, without behaviour beyond reading."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, NewType, TypeAlias

Json: TypeAlias = "bool | int | float | str | Sequence[Json] | Mapping[str, Json] | None"
JsonObject: TypeAlias = "Mapping[str, Json]"

ConversationId = NewType("ConversationId", int)
"""Row id of a conversation: not a group number."""
MessageRow = NewType("MessageRow", int)
"""Row id of a message: not QQ's message_id, and not its position."""
TurnId = NewType("TurnId", int)
OutboxId = NewType("OutboxId", int)

Kind = Literal["group", "private"]
Role = Literal["owner", "admin", "member", "unknown"]
CallKind = Literal["mention", "reply", "name"]
Trigger = Literal["mention", "reply", "name", "poke", "ambient", "console"]
TurnStatus = Literal["queued", "running", "done", "failed", "cancelled", "interrupted"]
Stability = Literal["static", "chunk", "volatile"]
BlockState = Literal["kept", "trimmed", "dropped"]
SendStatus = Literal["waiting", "sending", "sent", "refused", "unknown", "cancelled"]
SendReason = Literal["removed", "muted", "offline", "rich_media", "unknown_user", "unconfirmed", "other"]


@dataclass(frozen=True, slots=True)
class ConversationKey:
    """One group or one friend, as QQ numbers it."""

    kind: Kind
    target_id: int


@dataclass(frozen=True, slots=True)
class Conversation:
    """A conversation's row. ``None`` in a setting means: as the settings say.

    ``muted_until`` is the latest mute of own accounts there; in a plan it is the speaking account's.
    """

    id: ConversationId
    kind: Kind
    target_id: int
    name: str
    enabled: bool | None
    talk_frequency: float | None
    quiet_hours: str | None
    daily_calls: int | None
    persona: str | None
    extra_prompt: str
    learning: bool
    quiet_until: datetime | None
    muted_until: datetime | None
    whole_mute: bool
    left_at: datetime | None
    last_pos: int
    watermark: int
    diced_pos: int

    @property
    def key(self) -> ConversationKey:
        """The conversation's identity on QQ."""
        return ConversationKey(self.kind, self.target_id)


@dataclass(frozen=True, slots=True)
class Member:
    """A member's row in one conversation. ``no`` is the short stable id that prompts show."""

    conversation_id: ConversationId
    user_id: int
    no: int
    nickname: str
    card: str
    role: Role
    title: str
    is_robot: bool
    joined_at: datetime | None
    left_at: datetime | None
    spoke_at: datetime | None


def display(body: str, quote_name: str | None, quote_text: str | None) -> str:
    """Put a quote before a body: ``[回复 小明:「…」] 好``. A quote that cannot be seen says so."""
    if quote_name is None:
        return body
    if quote_text is None:
        head = "[回复 一条看不到的消息]" if not quote_name else f"[回复 {quote_name} 的一条看不到的消息]"
    else:
        head = f"[回复 {quote_name}:「{quote_text}」]"
    return f"{head} {body}" if body else head


@dataclass(frozen=True, slots=True)
class OwedCall:
    """A call that no finished turn has shown to the model yet."""

    message: MessageRow
    conversation_id: ConversationId
    account_id: int
    pos: int
    kind: CallKind
    owed_at: datetime
    tries: int


@dataclass(frozen=True, slots=True)
class Turn:
    """A turn's row."""

    id: TurnId
    conversation_id: ConversationId
    account_id: int
    status: TurnStatus
    trigger: Trigger
    outcome: str | None
    error: str | None
    persona: str
    from_pos: int
    shown_pos: int | None
    queued_at: datetime
    started_at: datetime | None
    ended_at: datetime | None


@dataclass(frozen=True, slots=True)
class TurnBlock:
    """How one prompt block went into one model call of a turn."""

    call_no: int
    no: int
    name: str
    stability: Stability
    tokens: int
    chars: int
    state: BlockState


@dataclass(frozen=True, slots=True)
class TurnStep:
    """One model call or one tool call of a turn. ``result`` is bounded text."""

    no: int
    kind: Literal["model", "tool"]
    name: str
    arguments: JsonObject | None
    result: str | None
    ok: bool
    started_at: datetime
    ms: int


@dataclass(frozen=True, slots=True)
class ModelCall:
    """One call of a model, for usage and budgets."""

    conversation_id: ConversationId | None
    turn_id: TurnId | None
    task: str
    role: str
    model: str
    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int
    latency_ms: int
    ok: bool
    error: str | None = None
    called_at: datetime | None = None
    """None: now, by the database's clock."""

    @property
    def learners(self) -> bool:
        """Whether the learner asked: its calls have a budget of their own."""
        return self.role == "learner" and self.turn_id is None
