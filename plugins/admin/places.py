"""The conversation that a caller means, and whom its memories may be about."""

from __future__ import annotations

from dataclasses import dataclass

from fastapi import HTTPException

from db import accounts, conversations
from db.conversations import KnownConversation
from db.memory_models import Subject
from db.models import Conversation, ConversationId, ConversationKey
from db.pool import Connection
from plugins.admin.ports import RuntimeView
from plugins.admin.subjects import NamedSubject, read_subject


@dataclass(frozen=True, slots=True)
class Place:
    """A conversation with a row, and the bot's own accounts."""

    conversation: Conversation
    own: frozenset[int]

    @property
    def id(self) -> ConversationId:
        """The row."""
        return self.conversation.id

    def subject(self, named: NamedSubject) -> Subject:
        """Read who is meant; nobody named means the group. Raises HTTPException 422."""
        try:
            return read_subject(named, self.conversation.key, self.own)
        except ValueError as error:
            raise HTTPException(422, str(error)) from error

    def only(self, named: NamedSubject) -> tuple[Subject, ...] | None:
        """Read whom a filter leaves; None: everybody. Raises HTTPException 422."""
        return (self.subject(named),) if named.given else None


async def find_place(view: RuntimeView, key: ConversationKey) -> Place | None:
    """Find the conversation; None: nothing is known of it."""
    async with view.database.connection() as conn:
        found = await conversations.find(conn, key)
        return None if found is None else Place(found, frozenset(await accounts.ids(conn)))


async def ensure_place(conn: Connection, key: ConversationKey) -> Place:
    """Find the conversation, or make its row: not enabled, nothing stored. Must run inside a transaction."""
    [found] = await conversations.ensure(conn, [KnownConversation(key)])
    return Place(found, frozenset(await accounts.ids(conn)))
