"""What an OneBot event means to us: one frozen record per kind. Pure data, no NoneBot."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, TypeAlias

from db.models import ConversationKey, JsonObject, Role

PartKind = Literal[
    "text", "at", "at_all", "face", "sticker", "image", "voice", "video", "file", "forward", "card", "poke", "other"
]


@dataclass(frozen=True, slots=True)
class Part:
    """One readable piece of a message. ``at`` carries a QQ number (0: unknown); the rest reads as ``shown``."""

    kind: PartKind
    shown: str = ""
    user_id: int = 0


@dataclass(frozen=True, slots=True)
class Sender:
    """Who sent it, as the event says. Names are raw here; ``names.py`` makes them fit to show."""

    user_id: int
    nickname: str = ""
    card: str = ""
    role: Role = "unknown"
    title: str = ""
    is_robot: bool = False
    anonymous: bool = False


@dataclass(frozen=True, slots=True)
class Incoming:
    """A message in a conversation, from a person, a robot or ourselves."""

    account_id: int
    conversation: ConversationKey
    message_id: int | None
    real_seq: int | None
    sender: Sender
    is_self: bool
    at: datetime
    parts: tuple[Part, ...]
    conversation_name: str = ""
    reply_key: int | None = None
    """The message id that a reply segment names, as this account knows it."""
    forward_id: str | None = None
    """A merged forward whose content must be fetched later."""
    file_name: str | None = None
    temporary: bool = False
    """A temporary session: stored, never answered by itself."""
    string_format: bool = False
    segments: tuple[JsonObject, ...] = field(default=())
    """The original segments, bounded, without base64 payloads."""


@dataclass(frozen=True, slots=True)
class Withdrawn:
    """QQ's 撤回."""

    account_id: int
    conversation: ConversationKey
    message_id: int
    operator_id: int | None
    at: datetime


@dataclass(frozen=True, slots=True)
class Joined:
    """A member joined; ``user_id`` 0 means unknown: refresh the list."""

    account_id: int
    conversation: ConversationKey
    user_id: int
    operator_id: int | None
    at: datetime
    is_self: bool = False


@dataclass(frozen=True, slots=True)
class Left:
    """A member left or was kicked; for ourselves also when the group was disbanded."""

    account_id: int
    conversation: ConversationKey
    user_id: int
    operator_id: int | None
    at: datetime
    reason: Literal["leave", "kick", "disband"] = "leave"
    is_self: bool = False


@dataclass(frozen=True, slots=True)
class Muted:
    """A mute or its end. ``user_id`` 0: the whole group. ``until`` None with ``on``: until lifted."""

    account_id: int
    conversation: ConversationKey
    user_id: int
    operator_id: int | None
    on: bool
    until: datetime | None
    at: datetime
    is_self: bool = False


@dataclass(frozen=True, slots=True)
class MemberChanged:
    """A card, role or title changed. None: not part of this event."""

    account_id: int
    conversation: ConversationKey
    user_id: int
    at: datetime
    card: str | None = None
    role: Role | None = None
    title: str | None = None


@dataclass(frozen=True, slots=True)
class Renamed:
    """The group has a new name."""

    account_id: int
    conversation: ConversationKey
    name: str
    operator_id: int | None
    at: datetime


@dataclass(frozen=True, slots=True)
class Poked:
    """A nudge (戳一戳), between members or at us. Echoes of our own nudges are not reported."""

    account_id: int
    conversation: ConversationKey
    user_id: int
    target_id: int
    action: str
    suffix: str
    at: datetime


@dataclass(frozen=True, slots=True)
class Reacted:
    """An emoji reaction was put on a message or taken off it."""

    account_id: int
    conversation: ConversationKey
    message_id: int
    user_id: int
    emoji: str
    added: bool
    at: datetime


@dataclass(frozen=True, slots=True)
class Uploaded:
    """The notice that accompanies a file message."""

    account_id: int
    conversation: ConversationKey
    user_id: int
    name: str
    size: int
    at: datetime


@dataclass(frozen=True, slots=True)
class EssenceSet:
    """A message became an essence message, or stopped being one."""

    account_id: int
    conversation: ConversationKey
    message_id: int
    operator_id: int | None
    added: bool
    at: datetime


@dataclass(frozen=True, slots=True)
class AccountState:
    """Heartbeat, lifecycle or bot_offline. ``online`` None: the event does not say."""

    account_id: int
    online: bool | None
    connected: bool = False
    note: str = ""


@dataclass(frozen=True, slots=True)
class Skipped:
    """An event that changes nothing for us; ``reason`` is for the debug log."""

    account_id: int
    reason: str


Record: TypeAlias = (
    Incoming
    | Withdrawn
    | Joined
    | Left
    | Muted
    | MemberChanged
    | Renamed
    | Poked
    | Reacted
    | Uploaded
    | EssenceSet
    | AccountState
    | Skipped
)
