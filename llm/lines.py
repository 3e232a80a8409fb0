"""How one stored message reads in the prompt. Pure: the same row always gives the same line."""

from __future__ import annotations

from datetime import datetime
from zoneinfo import ZoneInfo

from db.history import Line
from llm.hygiene import cut, one_line, plain_name

TEXT_CHARS = 500
QUOTE_CHARS = 40
WEEKDAYS = "一二三四五六日"
# What is quoted must not end the quote.
_QUOTE_MARKS = str.maketrans("「」", "『』")


def label(pos: int) -> str:
    """The name of a message for life: ``#12``."""
    return f"#{pos}"


def speaker(line: Line) -> str:
    """Who said it: ``小明[3]``, ``小满[我]``, ``天气[机器人 5]``; ``?`` for a sender that is no member."""
    if line.is_self:
        tag = "我"
    else:
        tag = "?" if line.member_no is None else str(line.member_no)
        if line.is_robot:
            tag = f"机器人 {tag}"
    return f"{plain_name(line.sender_name)}[{tag}]"


def quote(line: Line, chunk_start: int | None) -> str:
    """What it answers, as a prefix; a quote from the same chunk is only a label."""
    if line.quote_name is None:
        return ""
    if line.quote_withdrawn:
        return "[回复 一条已撤回的消息] "
    if line.quoted_pos is not None and chunk_start is not None and line.quoted_pos >= chunk_start:
        return f"[回复 {label(line.quoted_pos)}] "
    if line.quote_text is None:
        return "[回复 一条看不到的消息] "
    mark = "" if line.quoted_pos is None else f"{label(line.quoted_pos)} "
    text = one_line(line.quote_text).translate(_QUOTE_MARKS)
    shown = text if len(text) <= QUOTE_CHARS else f"{text[:QUOTE_CHARS]}…"
    return f"[回复 {mark}{plain_name(line.quote_name)}:「{shown}」] "


def render_line(line: Line, moment: str, *, chunk_start: int | None = None, limit: int = TEXT_CHARS) -> str:
    """Render ``#12 18:05 小明[3]: 文字``, always one line. ``moment`` is the time as the caller shows it, empty for none."""
    text = quote(line, chunk_start) + cut(one_line(line.body) or "(空)", limit)
    head = f"{label(line.pos)} {moment}" if moment else label(line.pos)
    return f"{head} {speaker(line)}: {text}"


def clock(moment: datetime, zone: ZoneInfo) -> str:
    """Local time of day to the minute."""
    return moment.astimezone(zone).strftime("%H:%M")


def day_clock(moment: datetime, zone: ZoneInfo) -> str:
    """Local month, day and time to the minute."""
    return moment.astimezone(zone).strftime("%m-%d %H:%M")


def full_clock(moment: datetime, zone: ZoneInfo) -> str:
    """Local date, weekday and time to the minute."""
    local = moment.astimezone(zone)
    return f"{local:%Y-%m-%d} 周{WEEKDAYS[local.weekday()]} {local:%H:%M}"
