"""A message as an event tells it → the row that is stored. Pure, given names and what is quoted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from db.models import ConversationId
from db.sightings import NewMessage, Quoted
from plugins.chat.commands_text import Command, read_command
from plugins.chat.names import show_name
from plugins.chat.records import Incoming, Poked
from plugins.chat.segments import render
from plugins.chat.triggers import NameMatcher, classify

QUOTE_CHARS = 60
OWED_MINUTES = 10
"""A missed call younger than this is owed; an older one is only history."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a message is read against."""

    conversation_id: ConversationId
    own_ids: frozenset[int]
    connected: frozenset[int]
    ignored: frozenset[int]
    robots: frozenset[int]
    names: Mapping[int, str]
    matcher: NameMatcher
    quoted: Quoted | None
    late: bool
    now: datetime
    """By QQ's clock."""


@dataclass(frozen=True, slots=True)
class Composed:
    """The row, and the command if it is one."""

    message: NewMessage
    command: Command | None


def compose(record: Incoming, around: Surroundings) -> Composed:
    """Work out text, body, quote, call and command of a message."""
    quoted = around.quoted
    author = quoted.sender_id if quoted is not None else None
    rendered = render(record.parts, around.names.get, author)
    is_self = record.is_self or record.sender.user_id in around.own_ids
    is_robot = record.sender.is_robot or record.sender.user_id in around.robots
    command = None if is_self or is_robot else read_command(rendered.text)
    call = None
    if command is None and not is_self and not is_robot and not _too_old(record, around):
        call = classify(
            record,
            own_accounts=around.connected | {record.account_id},
            quoted_author=author,
            ignored=around.ignored,
            names=around.matcher,
            text=rendered.text,
        )
    message = NewMessage(
        conversation_id=around.conversation_id,
        account_id=record.account_id,
        message_id=record.message_id,
        real_seq=record.real_seq,
        sender_id=record.sender.user_id,
        sender_name=sender_name(record),
        sent_at=record.at,
        text=rendered.text,
        body=rendered.body,
        is_self=is_self,
        is_robot=is_robot,
        is_command=command is not None,
        quoted_id=quoted.id if quoted is not None else None,
        quoted_key=record.reply_key,
        quote_name=_quote_name(record, quoted),
        quote_text=quote_line(quoted.body) if quoted is not None and not quoted.withdrawn else None,
        segments=record.segments,
        backfilled=around.late,
        call=call.kind if call is not None else None,
        called_account=call.account_id if call is not None else 0,
        second_sight=is_self or record.file_name is not None or around.late,
    )
    return Composed(message, command)


def _too_old(record: Incoming, around: Surroundings) -> bool:
    return around.late and around.now - record.at > timedelta(minutes=OWED_MINUTES)


def sender_name(record: Incoming) -> str:
    """The name to show for a message's sender."""
    return show_name(record.sender.card, record.sender.nickname, record.sender.user_id)


def _quote_name(record: Incoming, quoted: Quoted | None) -> str | None:
    if quoted is not None:
        return quoted.sender_name
    return "" if record.reply_key is not None else None


def quote_line(body: str) -> str:
    """Shorten a quoted body to one line."""
    line = " ".join(body.split())
    return line if len(line) <= QUOTE_CHARS else line[:QUOTE_CHARS] + "…"


def poke_line(record: Poked, names: Mapping[int, str]) -> str:
    """Tell a nudge in words: ``小明 戳了戳 小八 的小脑瓜``."""
    who = names.get(record.user_id) or show_name("", "", record.user_id)
    whom = names.get(record.target_id) or show_name("", "", record.target_id)
    tail = f" {record.suffix}" if record.suffix else ""
    return f"{who} {record.action or '戳了戳'} {whom}{tail}"


def compose_poke(record: Poked, conversation_id: ConversationId, names: Mapping[int, str]) -> NewMessage:
    """A nudge as a row: nobody said it, but everybody saw it."""
    return NewMessage(
        conversation_id=conversation_id,
        account_id=record.account_id,
        message_id=None,
        real_seq=None,
        sender_id=record.user_id,
        sender_name=names.get(record.user_id) or show_name("", "", record.user_id),
        sent_at=record.at,
        text="",
        body=poke_line(record, names),
        kind="poke",
        second_sight=True,
    )
