"""What storing events brings about: handed on after the commit, in order."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias

from db.models import CallKind, Conversation, MessageRow
from plugins.chat.commands_text import Command
from plugins.chat.records import Sender


@dataclass(frozen=True, slots=True)
class Heard:
    """A new message of somebody else in a conversation where the bot is enabled."""

    conversation: Conversation
    account_id: int
    row: MessageRow
    pos: int
    call: CallKind | None
    person: bool
    late: bool


@dataclass(frozen=True, slots=True)
class PokedUs:
    """Somebody nudged the bot."""

    conversation: Conversation
    account_id: int
    user_id: int
    pos: int


@dataclass(frozen=True, slots=True)
class Ordered:
    """Somebody gave a /群友 command."""

    conversation: Conversation
    account_id: int
    sender: Sender
    command: Command
    pos: int | None


@dataclass(frozen=True, slots=True)
class QuoteMissing:
    """A reply names a message that is not in the store."""

    conversation: Conversation
    account_id: int
    row: MessageRow
    message_key: int
    sent_at: datetime
    late: bool


@dataclass(frozen=True, slots=True)
class ForwardMissing:
    """A merged forward came without its content."""

    conversation: Conversation
    account_id: int
    row: MessageRow
    forward_id: str


@dataclass(frozen=True, slots=True)
class MayTalk:
    """A mute ended, or the bot is back in the group: what is owed can be answered."""

    conversation: Conversation


@dataclass(frozen=True, slots=True)
class MayNotTalk:
    """Muted, kicked or disbanded: what has not left must not leave."""

    conversation: Conversation
    why: str


@dataclass(frozen=True, slots=True)
class MembersStale:
    """The member list must be read from QQ."""

    conversation: Conversation
    account_id: int


@dataclass(frozen=True, slots=True)
class AccountSeen:
    """An account's state: ``online`` None when the event does not say."""

    account_id: int
    online: bool | None
    note: str


Effect: TypeAlias = Heard | PokedUs | Ordered | QuoteMissing | ForwardMissing | MayTalk | MayNotTalk | MembersStale | AccountSeen
