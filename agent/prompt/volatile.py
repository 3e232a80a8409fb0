"""The blocks that differ in every turn: time, people, what is owed, what to do now."""

from __future__ import annotations

from agent.prompt.block import View
from agent.prompt.texts import table
from db.history import Line
from llm.hygiene import one_line, plain_name
from llm.lines import day_clock, full_clock, label, render_line, speaker

OWED_MARKER = "【待回应】"
PEOPLE = 8
_QUOTES_CHARS = 4000
_CALLS = {"mention": "@你", "reply": "回复你", "name": "叫你"}
_ROLES = {"owner": "群主", "admin": "管理员"}


def time(view: View) -> str:
    """The local time, and where the unread messages begin."""
    unread = view.snapshot.first_unread
    since = "" if unread is None else f"，{label(unread)} 起是新消息"
    return f"现在 {full_clock(view.snapshot.now, view.snapshot.zone)}{since}"


def people(view: View) -> str:
    """Who of the people present is more than a plain member."""
    if view.snapshot.request.conversation.kind == "private":
        return ""
    known = [_person(line) for line in view.snapshot.people().values()]
    special = [text for text in known if text][:PEOPLE]
    return f"在场：{'、'.join(special)}" if special else ""


def _person(line: Line) -> str:
    facts = [_ROLES.get(line.role, ""), f"头衔{plain_name(line.title)}" if one_line(line.title) else ""]
    told = " ".join(fact for fact in facts if fact)
    return f"{speaker(line)} {told}" if told else ""


def standing(view: View) -> str:
    """The bot's own role and mutes, where they matter."""
    snapshot = view.snapshot
    conversation = snapshot.request.conversation
    facts: list[str] = []
    role = _ROLES.get(snapshot.request.bot_role)
    if role:
        facts.append(f"你是{role}")
    if conversation.muted_until is not None and conversation.muted_until > snapshot.now:
        facts.append(f"你被禁言到 {day_clock(conversation.muted_until, snapshot.zone)}")
    if conversation.whole_mute:
        facts.append("全员禁言中")
    return "，".join(facts)


def owed(view: View) -> str:
    """What waits for a reaction; messages that the history does not show are quoted, shorter the more they are."""
    calls = view.snapshot.rows.owed
    if not calls:
        return ""
    shown = view.shown
    hidden = [line for line in view.snapshot.lines if line.pos in set(view.snapshot.owed) - shown]
    limit = max(20, _QUOTES_CHARS // (len(hidden) or 1) - 40)
    quotes = [render_line(line, day_clock(line.sent_at, view.snapshot.zone), limit=min(limit, 300)) for line in hidden]
    listed = " ".join(f"{label(call.pos)}({_CALLS[call.kind]})" for call in calls)
    return "\n".join([*(["较早的："] if quotes else []), *quotes, f"{OWED_MARKER}{listed}"])


def task(view: View) -> str:
    """What to do now, by trigger."""
    request = view.snapshot.request
    private = request.conversation.kind == "private" and request.trigger == "mention"
    return table("tasks")["private" if private else request.trigger]
