"""Notices → changes of rows: withdrawals, joins and leaves, mutes, renames, nudges, reactions, uploads."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime

from db import conversations, ingest, members, memberships, outbox, owed, withdraw
from db.members import SeenMember
from db.models import Conversation, ConversationId
from db.pool import Connection
from db.sightings import NewMessage
from db.withdraw import Happening
from plugins.chat.compose import compose_poke
from plugins.chat.effects import Effect, MayNotTalk, MayTalk, MembersStale, PokedUs
from plugins.chat.events import is_official_robot
from plugins.chat.member_names import MemberNames
from plugins.chat.names import show_name
from plugins.chat.own import OwnAccounts
from plugins.chat.pieces import file_label
from plugins.chat.records import (
    EssenceSet,
    Joined,
    Left,
    MemberChanged,
    Muted,
    Poked,
    Reacted,
    Renamed,
    Uploaded,
    Withdrawn,
)
from plugins.chat.rules import STAFF, is_enabled
from settings import Settings

FOREVER = datetime(9999, 1, 1, tzinfo=UTC)

Notice = Withdrawn | Joined | Left | Muted | MemberChanged | Renamed | Poked | Reacted | Uploaded | EssenceSet


@dataclass(frozen=True, slots=True)
class Hearing:
    """How a notice is heard: long after it happened or not, and who in its conversation never triggers anything."""

    late: bool = False
    deaf_to: frozenset[int] = frozenset()


@dataclass(slots=True)
class Applied:
    """What a notice brought about, and which conversations got new positions. ``last`` holds the highest ones."""

    last: dict[ConversationId, int]
    hearing: Hearing
    effects: list[Effect] = field(default_factory=list[Effect])
    moved: set[ConversationId] = field(default_factory=set[ConversationId])


class NoticeBook:
    """Applies notices inside the writer's transaction."""

    def __init__(self, conn: Connection, settings: Settings, names: MemberNames, own: OwnAccounts, own_name: str) -> None:
        self._conn = conn
        self._settings = settings
        self._names = names
        self._own = own
        self._own_name = own_name

    async def apply(self, notice: Notice, where: Conversation, last: dict[ConversationId, int], hearing: Hearing) -> Applied:
        """Apply one notice. ``last`` is advanced where it stores a row."""
        done = Applied(last, hearing)
        match notice:
            case Joined() | Left() | Muted() | Renamed():
                done.effects += await self._group(notice, where)
            case MemberChanged():
                await self._member(notice, where)
            case Withdrawn():
                await self._withdrawn(notice, where)
            case _ if is_enabled(where, self._settings):
                await self._messages(notice, where, done)
            case _:
                pass
        return done

    async def _group(self, notice: Joined | Left | Muted | Renamed, where: Conversation) -> list[Effect]:
        match notice:
            case Joined():
                return await self._joined(notice, where)
            case Left():
                return await self._left(notice, where)
            case Muted():
                return await self._muted(notice, where)
            case Renamed():
                await conversations.rename(self._conn, where.id, notice.name)
                await self._happened(where, "renamed", notice.at, None, notice.operator_id, notice.name)
                return []

    async def _withdrawn(self, notice: Withdrawn, where: Conversation) -> None:
        """What is stored is withdrawn wherever it is; a notice waits for its message only where messages are stored."""
        await withdraw.withdraw(
            self._conn,
            notice.account_id,
            notice.message_id,
            operator_id=notice.operator_id,
            at=notice.at,
            early=is_enabled(where, self._settings),
        )

    async def _messages(self, notice: Notice, where: Conversation, done: Applied) -> None:
        match notice:
            case Reacted():
                await withdraw.react(
                    self._conn,
                    notice.account_id,
                    notice.message_id,
                    user_id=notice.user_id,
                    emoji=notice.emoji,
                    added=notice.added,
                )
            case EssenceSet():
                kind = "essence" if notice.added else "essence_removed"
                await self._happened(where, kind, notice.at, None, notice.operator_id, str(notice.message_id))
            case Poked():
                await self._poked(notice, where, done)
            case Uploaded():
                await self._uploaded(notice, where, done)
            case _:
                pass

    async def _joined(self, notice: Joined, where: Conversation) -> list[Effect]:
        stale = MembersStale(where, notice.account_id)
        if notice.is_self:
            await memberships.arrive(self._conn, [(where.id, notice.account_id)])
            await memberships.mute(self._conn, where.id, notice.account_id, until=None)
            await self._happened(where, "bot_joined", notice.at, notice.user_id, notice.operator_id)
            return [MayTalk(where), stale]
        if notice.user_id > 0:
            await self._happened(where, "joined", notice.at, notice.user_id, notice.operator_id)
        return [stale] if is_enabled(where, self._settings) else []

    async def _left(self, notice: Left, where: Conversation) -> list[Effect]:
        if not notice.is_self:
            if await members.mark_left(self._conn, where.id, notice.user_id, notice.at):
                await self._happened(where, notice.reason, notice.at, notice.user_id, notice.operator_id)
            return []
        self._own.left(where.id, notice.account_id)
        await remove(self._conn, where.id, notice.account_id, at=notice.at)
        await self._happened(where, f"bot_{notice.reason}", notice.at, notice.user_id, notice.operator_id)
        return [MayNotTalk(where, f"账号 {notice.account_id} 已不在群里")]

    async def _muted(self, notice: Muted, where: Conversation) -> list[Effect]:
        whole = notice.user_id == 0
        if whole:
            await conversations.set_whole_mute(self._conn, where.id, on=notice.on)
        elif notice.is_self:
            until = (notice.until or FOREVER) if notice.on else None
            await memberships.mute(self._conn, where.id, notice.account_id, until=until)
        kind = ("muted" if notice.on else "unmuted") if not whole else ("whole_mute" if notice.on else "whole_unmute")
        await self._happened(where, kind, notice.at, notice.user_id or None, notice.operator_id)
        if not (whole or notice.is_self):
            return []
        if not notice.on:
            return [MayTalk(where)]
        if not whole or await members.role_of(self._conn, where.id, notice.account_id) not in STAFF:
            await outbox.refuse_waiting(self._conn, where.id, notice.account_id, reason="muted", detail="发出前被禁言")
        return [MayNotTalk(where, "全员禁言" if whole else f"账号 {notice.account_id} 被禁言")]

    async def _member(self, notice: MemberChanged, where: Conversation) -> None:
        # QQ reports an emptied card by mistake after some forwards: the next message tells the truth.
        card = notice.card or None
        seen = SeenMember(
            conversation_id=where.id,
            user_id=notice.user_id,
            name=show_name(card, "", notice.user_id) if card else "",
            nickname="",
            card=card or "",
            role=notice.role or "unknown",
            title=notice.title or "",
            is_robot=False,
            seen_at=notice.at,
            spoke=False,
        )
        known = await members.change(self._conn, where.id, notice.user_id, card=card, role=notice.role, title=notice.title)
        if not known:
            await members.save(self._conn, [seen])
        if card is not None:
            self._names.learn(where.id, notice.user_id, seen.name)

    async def _poked(self, notice: Poked, where: Conversation, done: Applied) -> None:
        if notice.target_id <= 0:
            return
        wanted = [(where.id, notice.user_id), (where.id, notice.target_id)]
        await self._names.fetch(self._conn, wanted, self._own.names(self._own_name))
        await self._put(compose_poke(notice, where.id, self._names.of(where.id)), done)
        nobody = notice.user_id in self._own.ids | done.hearing.deaf_to or is_official_robot(notice.user_id)
        if notice.target_id == notice.account_id and not nobody and not done.hearing.late:
            done.effects.append(PokedUs(where, notice.account_id, notice.user_id, done.last[where.id]))

    async def _uploaded(self, notice: Uploaded, where: Conversation, done: Applied) -> None:
        await self._names.fetch(self._conn, [(where.id, notice.user_id)], self._own.names(self._own_name))
        name = self._names.of(where.id).get(notice.user_id) or show_name("", "", notice.user_id)
        message = NewMessage(
            conversation_id=where.id,
            account_id=notice.account_id,
            message_id=None,
            real_seq=None,
            sender_id=notice.user_id,
            sender_name=name,
            sent_at=notice.at,
            text="",
            body=file_label(notice.name, notice.size),
            is_self=notice.user_id in self._own.ids,
            second_sight=True,
        )
        await self._put(message, done)

    async def _put(self, message: NewMessage, done: Applied) -> None:
        await ingest.store(self._conn, [message], done.last)
        done.moved.add(message.conversation_id)

    async def _happened(
        self,
        where: Conversation,
        kind: str,
        at: datetime,
        user_id: int | None,
        operator_id: int | None,
        detail: str = "",
    ) -> None:
        await withdraw.happened(
            self._conn, Happening(where.id, kind, at, user_id=user_id, operator_id=operator_id or None, detail=detail)
        )


async def remove(conn: Connection, conversation_id: ConversationId, account_id: int, *, at: datetime) -> None:
    """Record that an own account is no longer in a group; what only it could answer or say ends with that."""
    if await memberships.leave(conn, conversation_id, account_id, at=at):
        await owed.settle_removed(conn, conversation_id, account_id)
        await outbox.cancel_waiting(conn, conversation_id, detail="已不在群里", account_id=account_id)
        return
    await owed.settle_all(conn, conversation_id, why="removed")
    await outbox.cancel_waiting(conn, conversation_id, detail="已不在群里")
