"""Small rules about conversations: pure functions of rows, settings and the time."""

from __future__ import annotations

from datetime import datetime

from db.models import Conversation, Role
from settings import QuietHours, Settings, parse_quiet_hours

STAFF: frozenset[Role] = frozenset({"owner", "admin"})


def is_enabled(conversation: Conversation, settings: Settings) -> bool:
    """Tell whether the bot stores, learns and speaks here. Friends: owners always, others when the owner allowed it."""
    if conversation.enabled is not None:
        return conversation.enabled
    if conversation.kind == "group":
        return conversation.target_id in settings.enabled_groups
    return conversation.target_id in settings.superusers


def is_muted(conversation: Conversation, own_role: Role, now: datetime) -> bool:
    """Tell whether QQ would refuse what the bot says. A whole-group mute does not bind owner and admins."""
    if conversation.muted_until is not None and conversation.muted_until > now:
        return True
    return conversation.whole_mute and own_role not in STAFF


def quiet_hours(conversation: Conversation, settings: Settings) -> QuietHours | None:
    """The conversation's quiet hours, its own before the setting's."""
    if conversation.quiet_hours is None:
        return settings.quiet_hours
    try:
        return parse_quiet_hours(conversation.quiet_hours)
    except ValueError:
        return settings.quiet_hours


def is_quiet(conversation: Conversation, settings: Settings, now: datetime) -> bool:
    """Tell whether ambient talk rests now: quiet hours, or somebody asked for quiet."""
    if conversation.quiet_until is not None and conversation.quiet_until > now:
        return True
    hours = quiet_hours(conversation, settings)
    return hours is not None and hours.covers(now.astimezone(settings.zone).time())


def talk_frequency(conversation: Conversation, settings: Settings) -> float:
    """How often it joins in by itself, 0..1."""
    return settings.talk_frequency if conversation.talk_frequency is None else conversation.talk_frequency


def daily_calls(conversation: Conversation, settings: Settings) -> int:
    """How many model calls a day it may cost."""
    return settings.group_daily_calls if conversation.daily_calls is None else conversation.daily_calls


def ambient_chance(frequency: float, own: int, recent: int) -> float:
    """The chance to join in, given how many of the recent lines are its own.

    Below a tenth of the lines the frequency counts in full; from there it falls in a straight line to 0 at one half.
    """
    if recent <= 0:
        return frequency
    share = own / recent
    return frequency * min(1.0, max(0.0, (0.5 - share) / 0.4))
