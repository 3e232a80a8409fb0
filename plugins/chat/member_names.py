"""What members are called, remembered between batches so that most messages cost no query."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta

from db import members
from db.members import SeenMember
from db.models import ConversationId
from db.pool import Connection
from plugins.chat.names import show_name

CONVERSATIONS = 500
MEMBERS = 3000
SEEN_AGAIN = timedelta(minutes=1)

_Look = tuple[str, str, str, str, bool]


class MemberNames:
    """A bounded memory of names, and of how each member looked when last stored."""

    def __init__(self) -> None:
        self._names: OrderedDict[ConversationId, OrderedDict[int, str]] = OrderedDict()
        self._stored: OrderedDict[tuple[ConversationId, int], tuple[_Look, datetime]] = OrderedDict()
        self._pending: dict[tuple[ConversationId, int], tuple[_Look, datetime]] = {}

    def of(self, conversation_id: ConversationId) -> Mapping[int, str]:
        """The known names in a conversation."""
        return self._table(conversation_id)

    def learn(self, conversation_id: ConversationId, user_id: int, name: str) -> None:
        """Remember what a member is called."""
        table = self._table(conversation_id)
        table[user_id] = name
        if len(table) > MEMBERS:
            table.popitem(last=False)

    async def fetch(self, conn: Connection, wanted: Sequence[tuple[ConversationId, int]], own: Mapping[int, str]) -> None:
        """Read the names that are not remembered. ``own``: what our accounts are called, also where nobody told."""
        for conversation_id, user_id in wanted:
            if user_id in own and user_id not in self._table(conversation_id):
                self.learn(conversation_id, user_id, own[user_id])
        missing = [item for item in dict.fromkeys(wanted) if item[1] not in self._table(item[0])]
        for member in await members.some(conn, missing):
            name = show_name(member.card, member.nickname, member.user_id)
            self.learn(member.conversation_id, member.user_id, name)

    def changed(self, seen: Iterable[SeenMember | None]) -> list[SeenMember]:
        """Keep those that look different from what is stored, or were stored more than a minute ago."""
        fresh: list[SeenMember] = []
        for item in seen:
            if item is None:
                continue
            key = (item.conversation_id, item.user_id)
            look = (item.nickname, item.card, item.role, item.title, item.is_robot)
            last = self._pending.get(key) or self._stored.get(key)
            if last is None or last[0] != look or item.seen_at - last[1] >= SEEN_AGAIN:
                self._pending[key] = (look, item.seen_at)
                fresh.append(item)
        return fresh

    def keep(self) -> None:
        """The transaction is committed: what was handed out by ``changed`` is stored."""
        self._stored.update(self._pending)
        self._pending.clear()
        while len(self._stored) > CONVERSATIONS * 20:
            self._stored.popitem(last=False)

    def forget(self) -> None:
        """The transaction was rolled back."""
        self._pending.clear()

    def _table(self, conversation_id: ConversationId) -> OrderedDict[int, str]:
        table = self._names.get(conversation_id)
        if table is None:
            table = OrderedDict[int, str]()
            self._names[conversation_id] = table
            if len(self._names) > CONVERSATIONS:
                self._names.popitem(last=False)
        return table
