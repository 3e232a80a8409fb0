"""Notices and meta events (everything that is not a message) → records."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, Literal

from db.models import ConversationKey, Json, JsonObject
from plugins.chat.fields import as_flag, as_id, as_int, as_list, as_object, as_text
from plugins.chat.hygiene import one_line
from plugins.chat.records import (
    AccountState,
    EssenceSet,
    Joined,
    Left,
    MemberChanged,
    Muted,
    Poked,
    Reacted,
    Record,
    Renamed,
    Skipped,
    Uploaded,
    Withdrawn,
)

PLACEHOLDER_GROUP = 284840486
"""The group number the protocol writes where it knows none."""
_LONGEST_MUTE = timedelta(days=366)


@dataclass(frozen=True, slots=True)
class Notice:
    """A notice's common fields, already read. ``user_id`` and ``group_id`` are 0 when absent."""

    raw: JsonObject
    account_id: int
    group_id: int
    user_id: int
    sub_type: str
    at: datetime

    @property
    def conversation(self) -> ConversationKey:
        """The group, else the friend."""
        return ConversationKey("group", self.group_id) if self.group_id else ConversationKey("private", self.user_id)

    @property
    def operator_id(self) -> int | None:
        """Who did it; None when QQ did not say."""
        return as_id(self.raw.get("operator_id")) or None

    @property
    def is_self(self) -> bool:
        """Tell whether it happened to this account."""
        return self.user_id == self.account_id

    def text(self, key: str, limit: int = 200) -> str:
        """Read a field as one line."""
        return one_line(as_text(self.raw.get(key), limit * 4), limit)

    def skip(self, reason: str) -> Skipped:
        """Say why this notice changes nothing."""
        return Skipped(self.account_id, reason)


def read_notice(raw: JsonObject, account_id: int, at: datetime) -> Record:
    """Read a notice. Never raises; what is unknown or makes no sense is ``Skipped``."""
    group_id = as_id(raw.get("group_id"))
    if group_id == PLACEHOLDER_GROUP:
        return Skipped(account_id, "notice in the placeholder group")
    notice = Notice(raw, account_id, group_id, as_id(raw.get("user_id")), as_text(raw.get("sub_type"), 40), at)
    kind = as_text(raw.get("notice_type"), 40)
    if kind in _ABOUT_ACCOUNT:
        return AccountState(account_id, _ABOUT_ACCOUNT[kind], note=notice.text("message"))
    if kind == "notify":
        reader = _NOTIFY.get(notice.sub_type)
        return reader(notice) if reader else notice.skip(f"notify {notice.sub_type[:20]}")
    if kind in _IN_GROUP:
        return _IN_GROUP[kind](notice) if group_id else notice.skip(f"{kind} without a group")
    if kind in _IN_PRIVATE:
        return _IN_PRIVATE[kind](notice) if notice.user_id else notice.skip(f"{kind} without a friend")
    return notice.skip(f"notice {kind[:20]}")


def read_meta(raw: JsonObject, account_id: int) -> Record:
    """Read a lifecycle or heartbeat event. A heartbeat that does not say ``online`` says nothing."""
    kind, sub_type = as_text(raw.get("meta_event_type"), 40), as_text(raw.get("sub_type"), 40)
    if kind == "heartbeat":
        return AccountState(account_id, as_flag(as_object(raw.get("status")).get("online")), note="heartbeat")
    if kind == "lifecycle":
        connected = sub_type == "connect"
        return AccountState(account_id, True if connected else None, connected, note=f"lifecycle {one_line(sub_type, 20)}")
    return Skipped(account_id, f"meta event {kind[:20]}")


def _withdrawn(notice: Notice) -> Record:
    message_id = as_int(notice.raw.get("message_id"))
    if message_id is None:
        return notice.skip("withdrawal without a message id")
    return Withdrawn(notice.account_id, notice.conversation, message_id, notice.operator_id, notice.at)


def _joined(notice: Notice) -> Record:
    key = notice.conversation
    return Joined(notice.account_id, key, notice.user_id, notice.operator_id, notice.at, notice.is_self)


def _left(notice: Notice) -> Record:
    about_us = notice.sub_type in {"kick_me", "disband", "dismiss"}
    user_id = notice.account_id if about_us else notice.user_id
    if not user_id:
        return notice.skip("a member left, QQ did not say who")
    reason: Literal["leave", "kick", "disband"] = _LEFT.get(notice.sub_type, "leave")
    is_self = user_id == notice.account_id
    return Left(notice.account_id, notice.conversation, user_id, notice.operator_id, notice.at, reason, is_self)


_LEFT: Final[dict[str, Literal["leave", "kick", "disband"]]] = {
    "kick": "kick",
    "kick_me": "kick",
    "disband": "disband",
    "dismiss": "disband",
}


def _muted(notice: Notice) -> Record:
    seconds = as_int(notice.raw.get("duration"))
    lifted = notice.sub_type == "lift_ban" or seconds == 0
    whole = not notice.user_id
    until: datetime | None = None
    if not lifted and not whole and seconds is not None and seconds > 0:
        until = notice.at + min(timedelta(seconds=min(seconds, 2**31)), _LONGEST_MUTE)
    return Muted(
        account_id=notice.account_id,
        conversation=notice.conversation,
        user_id=notice.user_id,
        operator_id=notice.operator_id,
        on=not lifted,
        until=until,
        at=notice.at,
        is_self=notice.is_self,
    )


def _admin(notice: Notice) -> Record:
    if not notice.user_id or notice.sub_type not in {"set", "unset"}:
        return notice.skip("admin notice without a member or a change")
    role = "admin" if notice.sub_type == "set" else "member"
    return MemberChanged(notice.account_id, notice.conversation, notice.user_id, notice.at, role=role)


def _card(notice: Notice) -> Record:
    if not notice.user_id:
        return notice.skip("card notice without a member")
    # An empty new card may be spurious: the caller waits for a message that confirms it.
    card = as_text(notice.raw.get("card_new"), 200)
    return MemberChanged(notice.account_id, notice.conversation, notice.user_id, notice.at, card=card)


def _title(notice: Notice) -> Record:
    if not notice.group_id or not notice.user_id:
        return notice.skip("title notice without a member")
    title = as_text(notice.raw.get("title"), 200)
    return MemberChanged(notice.account_id, notice.conversation, notice.user_id, notice.at, title=title)


def _renamed(notice: Notice) -> Record:
    name = next((text for key in ("name_new", "group_name", "name") if (text := notice.text(key))), "")
    if not notice.group_id or not name:
        return notice.skip("group name notice without a name")
    operator = notice.operator_id or notice.user_id or None
    return Renamed(notice.account_id, notice.conversation, name, operator, notice.at)


def _essence(notice: Notice) -> Record:
    message_id = as_int(notice.raw.get("message_id"))
    if message_id is None or notice.sub_type not in {"add", "delete"}:
        return notice.skip("essence notice without a message or a change")
    added = notice.sub_type == "add"
    return EssenceSet(notice.account_id, notice.conversation, message_id, notice.operator_id, added, notice.at)


def _uploaded(notice: Notice) -> Record:
    file = as_object(notice.raw.get("file"))
    name = one_line(as_text(file.get("name"), 1000), 120)
    if not notice.user_id or not name:
        return notice.skip("upload notice without a member or a name")
    size = max(as_int(file.get("size")) or 0, 0)
    return Uploaded(notice.account_id, notice.conversation, notice.user_id, name, size, notice.at)


def _poked(notice: Notice) -> Record:
    target_id = as_id(notice.raw.get("target_id"))
    # In a friend's nudge user_id is the friend, whoever nudged; sender_id says who did.
    actor = notice.user_id if notice.group_id else as_id(notice.raw.get("sender_id")) or notice.user_id
    if actor == notice.account_id:
        return notice.skip("echo of an own nudge")
    if not actor:
        return notice.skip("nudge by nobody")
    key = notice.conversation if notice.group_id or notice.user_id else ConversationKey("private", actor)
    action, suffix = _nudge_words(notice)
    return Poked(notice.account_id, key, actor, target_id, action, suffix, notice.at)


def _nudge_words(notice: Notice) -> tuple[str, str]:
    items = [as_object(item) for item in as_list(notice.raw.get("raw_info"))[:20]]
    words = [one_line(as_text(item.get("txt"), 200), 40) for item in items if item.get("type") == "nor"]
    action = notice.text("action", 40) or (words[0] if words else "")
    return action or "戳了戳", notice.text("suffix", 40) or (words[1] if len(words) > 1 else "")


def _reacted(notice: Notice) -> Record:
    """NapCat's and LLOneBot's reaction: one emoji a notice."""
    likes = as_list(notice.raw.get("likes"))
    emoji = as_object(likes[0]).get("emoji_id") if likes else None
    added = as_flag(notice.raw.get("is_add"))
    return _reaction(notice, notice.user_id, emoji, added is not False)


def _lagrange_reaction(notice: Notice) -> Record:
    return _reaction(notice, notice.operator_id or 0, notice.raw.get("code"), notice.sub_type != "remove")


def _reaction(notice: Notice, user_id: int, emoji: Json, added: bool) -> Record:
    message_id = as_int(notice.raw.get("message_id"))
    name = one_line(as_text(emoji, 64), 16)
    if user_id == notice.account_id:
        return notice.skip("echo of an own reaction")
    if message_id is None or not user_id or not name:
        return notice.skip("reaction without a member, a message or an emoji")
    return Reacted(notice.account_id, notice.conversation, message_id, user_id, name, added, notice.at)


_ABOUT_ACCOUNT: Final = {"bot_offline": False, "bot_online": True}
_IN_GROUP: Final[dict[str, Callable[[Notice], Record]]] = {
    "group_recall": _withdrawn,
    "group_increase": _joined,
    "group_decrease": _left,
    "group_ban": _muted,
    "group_admin": _admin,
    "group_card": _card,
    "group_upload": _uploaded,
    "group_msg_emoji_like": _reacted,
    "group_name_change": _renamed,
    "essence": _essence,
    "reaction": _lagrange_reaction,
}
_IN_PRIVATE: Final[dict[str, Callable[[Notice], Record]]] = {
    "friend_recall": _withdrawn,
    "offline_file": _uploaded,
}
_NOTIFY: Final[dict[str, Callable[[Notice], Record]]] = {
    "poke": _poked,
    "title": _title,
    "group_name": _renamed,
}
