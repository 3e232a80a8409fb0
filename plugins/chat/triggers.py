"""Who is called by a message: the rules that make a mention, a reply or a name call, without any state."""

from __future__ import annotations

from dataclasses import dataclass

from db.models import CallKind
from plugins.chat.callnames import NameMatcher
from plugins.chat.records import Incoming

__all__ = ["Call", "NameMatcher", "classify"]


@dataclass(frozen=True, slots=True)
class Call:
    """A message that calls one of our accounts."""

    kind: CallKind
    account_id: int


def classify(
    record: Incoming,
    *,
    own_accounts: frozenset[int],
    quoted_author: int | None,
    ignored: frozenset[int],
    names: NameMatcher,
    text: str,
) -> Call | None:
    """Tell whether a message calls us: a mention beats a reply, a reply beats a name. None: it does not.

    ``quoted_author``: who wrote the message it replies to, where known. ``ignored``: who never calls (the ignore list,
    known robots). ``text`` is what was said, as ``render`` gives it: without forwards, cards and names of mentioned
    members. @全体成员 is no call.
    """
    sender = record.sender
    ours = record.is_self or sender.user_id in own_accounts
    if ours or sender.is_robot or sender.anonymous or record.temporary or sender.user_id in ignored:
        return None
    if record.conversation.kind == "private":
        return Call("mention", record.account_id)
    mentioned = [part.user_id for part in record.parts if part.kind == "at" and part.user_id in own_accounts]
    if mentioned:
        return Call("mention", record.account_id if record.account_id in mentioned else mentioned[0])
    if quoted_author is not None and quoted_author in own_accounts:
        return Call("reply", quoted_author)
    return Call("name", record.account_id) if names.called_in(text) else None
