"""An OneBot event, as the socket brought it → the record that the rest of the bot works with."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

from db.models import ConversationKey, Json, JsonObject, Role
from plugins.chat.fields import as_flag, as_id, as_int, as_object, as_text
from plugins.chat.hygiene import one_line
from plugins.chat.notices import PLACEHOLDER_GROUP, read_meta, read_notice
from plugins.chat.records import Incoming, Record, Sender, Skipped
from plugins.chat.segments import Reading, read_segments

_MILLISECONDS = 100_000_000_000
_EARLIEST = datetime(2001, 1, 1, tzinfo=UTC).timestamp()
_AHEAD = timedelta(days=1).total_seconds()
_ROLES: Final[dict[str, Role]] = {"owner": "owner", "admin": "admin", "member": "member"}
_TEMPORARY = frozenset({"group", "group_self", "other"})


def read_event(raw: JsonObject, *, now: datetime) -> Record:
    """Read any event of OneBot 11, NapCat, LLOneBot or Lagrange. Never raises: what means nothing is ``Skipped``.

    ``now`` (with a time zone) stands in for a time that is missing or absurd.
    """
    account_id = as_id(raw.get("self_id"))
    if not account_id:
        return Skipped(0, "no self_id")
    kind = as_text(raw.get("post_type"), 40)
    if kind in {"message", "message_sent"}:
        return _read_message(raw, account_id, sent=kind == "message_sent", now=now)
    if kind == "notice":
        return read_notice(raw, account_id, read_time(raw.get("time"), now))
    if kind == "meta_event":
        return read_meta(raw, account_id)
    if kind == "request":
        return Skipped(account_id, f"request {as_text(raw.get('request_type'), 20)}")
    return Skipped(account_id, f"post type {kind[:20]}")


def read_time(value: Json, now: datetime) -> datetime:
    """Read seconds or, above 1e11, milliseconds since 1970. Before 2001 or more than a day ahead it is ``now``."""
    number = value if isinstance(value, float) else as_int(value)
    if number is None:
        return now
    seconds = number / 1000 if number > _MILLISECONDS else number
    if not _EARLIEST <= seconds <= now.timestamp() + _AHEAD:
        return now
    return datetime.fromtimestamp(seconds, UTC)


def is_official_robot(user_id: int) -> bool:
    """Tell whether a QQ number lies in the ranges that QQ's official robots use, by convention."""
    return 2854196301 <= user_id <= 2854216399 or 3889000000 <= user_id <= 3889999999


def _read_message(raw: JsonObject, account_id: int, *, sent: bool, now: datetime) -> Record:
    fields = as_object(raw.get("sender"))
    user_id = as_id(raw.get("user_id")) or as_id(fields.get("user_id")) or (account_id if sent else 0)
    if not user_id:
        return Skipped(account_id, "message from nobody")
    kind = as_text(raw.get("message_type"), 20) or ("group" if as_id(raw.get("group_id")) else "private")
    own = sent or user_id == account_id
    if kind == "group":
        target_id = as_id(raw.get("group_id")) or (as_id(raw.get("target_id")) if own else 0)
        conversation = ConversationKey("group", target_id)
    elif kind == "private":
        target_id = as_id(raw.get("target_id")) if own else user_id
        conversation = ConversationKey("private", target_id)
    else:
        return Skipped(account_id, f"message type {kind}")
    if not target_id or (kind == "group" and target_id == PLACEHOLDER_GROUP):
        return Skipped(account_id, "message in no conversation")
    message = raw.get("message")
    reading = read_segments(raw.get("raw_message") if message is None else message)
    sender = _read_sender(raw, fields, user_id, reading)
    return Incoming(
        account_id=account_id,
        conversation=conversation,
        message_id=as_int(raw.get("message_id")),
        # Among friends every account counts for itself: the number names no message of the conversation.
        real_seq=as_id(raw.get("real_seq")) or None if kind == "group" else None,
        sender=sender,
        is_self=own,
        at=read_time(raw.get("time"), now),
        parts=reading.parts,
        conversation_name=_conversation_name(raw, kind, sender, own),
        reply_key=reading.reply_key,
        forward_id=reading.forward_id,
        file_name=reading.file_name,
        temporary=kind == "private" and _is_temporary(raw),
        string_format=reading.string_format,
        segments=reading.segments,
    )


def _is_temporary(raw: JsonObject) -> bool:
    sub_type = as_text(raw.get("sub_type"), 20)
    return sub_type in _TEMPORARY or (sub_type != "friend" and as_id(raw.get("group_id")) > 0)


def _read_sender(raw: JsonObject, fields: JsonObject, user_id: int, reading: Reading) -> Sender:
    anonymous = as_object(raw.get("anonymous"))
    if anonymous or as_text(raw.get("sub_type"), 20) == "anonymous":
        name = as_text(anonymous.get("name"), 200) or as_text(fields.get("nickname"), 200)
        return Sender(user_id, nickname=name, anonymous=True)
    return Sender(
        user_id=user_id,
        nickname=as_text(fields.get("nickname"), 200),
        card=as_text(fields.get("card"), 200),
        role=_ROLES.get(as_text(fields.get("role"), 20), "unknown"),
        title=as_text(fields.get("title"), 200),
        is_robot=as_flag(fields.get("is_robot")) is True or reading.markdown or is_official_robot(user_id),
    )


def _conversation_name(raw: JsonObject, kind: str, sender: Sender, own: bool) -> str:
    if kind == "group":
        return one_line(as_text(raw.get("group_name"), 400), 100)
    return "" if own else one_line(sender.nickname, 100)
