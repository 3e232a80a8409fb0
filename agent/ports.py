"""What a turn needs from outside: the doors implement these, the agent only calls them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, Protocol

from db.models import Conversation, SendReason, Trigger, TurnId


@dataclass(frozen=True, slots=True)
class Delivery:
    """How a send ended. ``pos`` is the label of the stored message, when it was sent.

    ``refused`` may be tried otherwise; ``unknown`` must not be sent again.
    """

    status: Literal["sent", "refused", "unknown", "cancelled"]
    pos: int | None = None
    reason: SendReason | None = None
    detail: str = ""
    dropped_mentions: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Draft:
    """A message that the model wants to send. Text is plain: never CQ codes."""

    text: str
    reply_to: int | None = None
    """Position (label) of the message it answers."""
    mentions: tuple[int, ...] = ()
    """QQ numbers, already resolved."""


@dataclass(frozen=True, slots=True)
class MemberInfo:
    """What QQ says about a member now."""

    user_id: int
    name: str
    role: str
    title: str
    level: str
    joined_at: datetime | None
    last_spoke_at: datetime | None


@dataclass(frozen=True, slots=True)
class Notice:
    """A group notice or an essence message."""

    author: str
    text: str
    at: datetime | None


class PlatformError(Exception):
    """QQ or NapCat refused or did not answer; the text is fit for the model to read (Chinese)."""


class Platform(Protocol):
    """The acts of one own account in one conversation. All raise PlatformError, except ``send``."""

    async def send(self, draft: Draft) -> Delivery:
        """Send one message through the outbox; splitting, pace and typing delay are its own.

        Raises DatabaseUnavailable while nothing has left.
        """
        ...

    async def poke(self, user_id: int) -> None:
        """Nudge a member."""
        ...

    async def react(self, pos: int, emoji_id: str) -> None:
        """Put a reaction on the message with this label."""
        ...

    async def withdraw(self, pos: int) -> None:
        """Take back an own message sent within the last two minutes."""
        ...

    async def member_info(self, user_id: int) -> MemberInfo:
        """Ask QQ about a member of this group."""
        ...

    async def notices(self) -> Sequence[Notice]:
        """Read the group's notices, newest first."""
        ...

    async def essence(self) -> Sequence[Notice]:
        """Read the group's essence messages, newest first."""
        ...


@dataclass(frozen=True, slots=True)
class TurnRequest:
    """One turn to run: the row is already ``running`` and the lane alone will end it."""

    turn_id: TurnId
    conversation: Conversation
    account_id: int
    trigger: Trigger
    platform: Platform
    bot_role: str
    """The own account's role in the group: owner, admin, member, unknown."""
    superusers: frozenset[int]


@dataclass(frozen=True, slots=True)
class TurnResult:
    """How a turn ended. ``shown_pos`` is the last position that its model was really shown.

    Outcomes: ``spoke``, ``quiet``, ``no_tool_call``, ``step_limit``, ``time_limit``, ``nothing_new``.
    """

    outcome: str
    shown_pos: int
    spoken: int = 0


class TurnFailed(Exception):
    """The turn could not be finished (model down, budget used up, prompt too long). Nothing was decided."""

    def __init__(self, reason: str, *, shown_pos: int | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.shown_pos = shown_pos
