"""Chinese words for a time → a span of UTC. Pure: the moment and the zone are given, and nothing here raises.

Weeks start on Monday. What names no year, month or week means the latest one that has begun. What lies in the future is no time
that something was said at, and stays words.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, time, timedelta, tzinfo

from db.timerules import DAY, RULES, WHEN_RULES, Now, Rule, Span, number


@dataclass(frozen=True, slots=True)
class TimeRange:
    """A span of time in UTC: the start belongs to it, the end does not."""

    start: datetime
    end: datetime


@dataclass(frozen=True, slots=True)
class Timed:
    """A query as it is meant: when (None: whenever), and the words that remain to look for."""

    range: TimeRange | None
    rest: str


def read_when(text: str, now: datetime, zone: tzinfo) -> TimeRange | None:
    """Read a text that tells a time and nothing else; None: it tells none, or one that has not begun."""
    plain = _plain(text).casefold()
    for english, chinese in _ENGLISH:
        plain = plain.replace(english, chinese)
    found = _find(plain, Now(now.astimezone(zone).replace(tzinfo=None)), RULES + WHEN_RULES)
    return None if found is None else _range(found.span, zone)


def read_query(text: str, now: datetime, zone: tzinfo) -> Timed:
    """Take the time out of a query: 上周三吃的火锅 is that Wednesday, and 吃的火锅.

    A query that is nothing but a time is looked for as it stands. One that only asks what was said then has no words left.
    """
    plain = _plain(text)
    found = _find(plain, Now(now.astimezone(zone).replace(tzinfo=None)), RULES)
    span = None if found is None else _range(found.span, zone)
    if found is None or span is None:
        return Timed(None, text)
    head = text[: len(_BEFORE.sub("", plain[: found.start]))]
    tail = text[len(text) - len(_AFTER.sub("", plain[found.end :])) :]
    rest = f"{head} {tail}".strip()
    if not _WORD.search(rest):
        return Timed(None, text)
    return Timed(span, "" if _ASKING.fullmatch(_plain(rest)) else rest)


_ALIKE = {code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)} | {0x3000: 0x20}
_SIMPLE = dict(
    zip(
        "週禮號個剛這幾點兩時間內裡裏來鐘從從後過節慶聖誕陣輩",
        "周礼号个刚这几点两时间内里里来钟从从后过节庆圣诞阵辈",
        strict=True,
    )
)
_PLAIN = str.maketrans(_SIMPLE) | _ALIKE
_ENGLISH = (
    ("the day before yesterday", "前天"),
    ("yesterday", "昨天"),
    ("today", "今天"),
    ("last week", "上周"),
    ("this week", "这周"),
    ("last month", "上个月"),
    ("this month", "这个月"),
    ("last year", "去年"),
    ("this year", "今年"),
)
_BOUND = 400
"""Characters of a text in which times are looked for."""
_EPOCH = datetime(1970, 1, 1)

_PARTS = {
    "凌晨": (0, 6),
    "早上": (4, 12),
    "早晨": (4, 12),
    "清晨": (4, 12),
    "一早": (4, 12),
    "上午": (5, 13),
    "中午": (11, 15),
    "下午": (12, 19),
    "傍晚": (16, 21),
    "晚上": (17, 30),
    "晚间": (17, 30),
    "夜里": (18, 30),
    "夜晚": (18, 30),
    "半夜": (22, 30),
    "深夜": (22, 30),
}
"""From which hour to which, generously; hours from 24 on are the next day's."""
_PART = re.compile(rf"\s*的?(?P<part>{'|'.join(_PARTS)})")
_HOUR = re.compile(
    r"(?:的|\s*|t)(?P<hour>[0-9]{1,2}|[一二两三四五六七八九十]{1,3})"
    r"(?:(?:点钟?|时)(?P<half>半|[一三]刻)?|:(?P<minute>[0-9]{2})(?::[0-9]{2})?)(?:左右|多)?"
)
_JOIN = re.compile(r"\s*(?:到|至|~|-|—|–|to|和|跟|与|、|,)\s*")
_SINCE = re.compile(r"\s*(?:以来|以后|之后|开始|至今|到现在|到今天)")
_UNTIL = re.compile(r"\s*(?:以前|之前)")
_BEFORE = re.compile(r"(?:(?<!现)在|自?从|自|于)?\s*$")
_AFTER = re.compile(r"^[\s,、:]*(?:(?:的时候|那时候?|那会儿?|那天|那次|那阵子?|那段时间|期间|左右|前后)[\s,]*)*(?:的(?!士))?")
_WORD = re.compile(r"[^\W_]")
_ASKING = re.compile(
    r"(?:我们|咱们|大家|群里|你们|他们|有人|谁|都|在|聊天|聊|说|讲|谈|讨论|发|问|提|到|了|过|的|些|什么|啥|哪些|内容|消息|记录|话题|话|事情|事|情况"
    r"|吗|呢|啊|呀|吧|有|是|最后|那|[\s?!.。,])++"
)


def _plain(text: str) -> str:
    """Fold what looks alike, character by character, so that places in the text stay."""
    return text[:_BOUND].translate(_PLAIN) + text[_BOUND:]


@dataclass(frozen=True, slots=True)
class _Found:
    """A time in a text, and where it stands there."""

    start: int
    end: int
    span: Span


def _find(text: str, now: Now, rules: Sequence[Rule]) -> _Found | None:
    """Find the first time in a text, with what narrows or widens it."""
    pieces = _pieces(text[:_BOUND], now, rules)
    for at, piece in enumerate(pieces):
        found = piece
        if at + 1 < len(pieces) and _JOIN.fullmatch(text, found.end, pieces[at + 1].start):
            found = _Found(found.start, pieces[at + 1].end, _hull(found.span, pieces[at + 1].span))
        elif since := _SINCE.match(text, found.end):
            found = _Found(found.start, since.end(), Span(found.span.start, max(now.tomorrow, found.span.end)))
        elif until := _UNTIL.match(text, found.end):
            found = _Found(found.start, until.end(), Span(min(_EPOCH, found.span.start), found.span.start))
        if found.span.start <= now.moment:
            return found
    return None


def _pieces(text: str, now: Now, rules: Sequence[Rule]) -> list[_Found]:
    """The times in a text from left to right, the longest where several begin, each with its part of the day and hour."""
    matches = sorted(
        (
            (match.start(), -match.end(), order, match, rule)
            for order, rule in enumerate(rules)
            for match in rule.pattern.finditer(text)
        ),
        key=lambda item: item[:3],
    )
    pieces: list[_Found] = []
    for start, _, _, match, rule in matches:
        if pieces and start < pieces[-1].end:
            continue
        try:
            span = rule.read(match, now)
            if span is not None:
                pieces.append(_narrowed(text, _Found(start, match.end(), span)))
        except (ValueError, OverflowError):  # a day that no calendar has
            continue
    return pieces


def _narrowed(text: str, found: _Found) -> _Found:
    part = _PART.match(text, found.end) if found.span.grain == "day" else None
    if part is not None:
        midnight = datetime.combine(found.span.start.date(), time())
        first, last = _PARTS[part["part"]]
        span = Span(midnight + timedelta(hours=first), midnight + timedelta(hours=last), "part")
        found = _Found(found.start, part.end(), span)
    hour = _HOUR.match(text, found.end) if found.span.grain != "span" else None
    if hour is not None and (found.span.grain == "part" or hour[0] != "一点"):  # 今天一点都不想动
        found = _Found(found.start, hour.end(), _at_hour(found.span, hour))
    return found


def _at_hour(span: Span, match: re.Match[str]) -> Span:
    """About an hour: half an hour earlier to an hour later. A day's 三点 may be either of two, and stays the day."""
    hour, minute = number(match["hour"]), int(match["minute"] or 0)
    if match["half"] is not None:
        minute = {"半": 30, "一刻": 15, "三刻": 45}[match["half"]]
    midnight = datetime.combine(span.start.date(), time())
    moments = [midnight + timedelta(hours=hour + more, minutes=minute) for more in (0, 12, 24)]
    inside = [moment for moment in moments if span.start <= moment < span.end]
    exact = match["minute"] is not None or span.grain == "part"
    if hour > 24 or not inside or (len(inside) > 1 and not exact):
        return span
    return Span(inside[0] - timedelta(minutes=30), inside[0] + timedelta(hours=1))


def _hull(one: Span, two: Span) -> Span:
    """From one to the other. 三月到五月 in April reaches into the future: the second is then of the first's year."""
    if two.start < one.start and two.end - two.start < 32 * DAY:
        later = replace(two, start=_next_year(two.start), end=_next_year(two.end))
        two = later if later.start - one.start < 300 * DAY else two
    return Span(min(one.start, two.start), max(one.end, two.end))


def _next_year(moment: datetime) -> datetime:
    return (
        moment.replace(year=moment.year + 1, day=min(moment.day, 28))
        if moment.month == 2
        else moment.replace(year=moment.year + 1)
    )


def _range(span: Span, zone: tzinfo) -> TimeRange | None:
    try:
        start, end = (moment.replace(tzinfo=zone).astimezone(UTC) for moment in (span.start, span.end))
    except (ValueError, OverflowError):
        return None
    return TimeRange(start, end) if start < end else None
