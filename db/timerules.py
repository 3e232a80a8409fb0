"""The rules of ``timewords``: which words stand for which days, as naive local time. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from typing import Literal, TypeAlias

DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Span:
    """A half-open span of local time. Parts of the day and hours may narrow a day, hours a part of one."""

    start: datetime
    end: datetime
    grain: Literal["span", "day", "part"] = "span"


@dataclass(frozen=True, slots=True)
class Now:
    """The moment of reading, in local time."""

    moment: datetime

    @property
    def today(self) -> date:
        """Today's date."""
        return self.moment.date()

    @property
    def tomorrow(self) -> datetime:
        """The end of today: where spans end that last until now, whatever the senders' clocks say."""
        return _midnight(self.today) + DAY


Reader: TypeAlias = "Callable[[re.Match[str], Now], Span | None]"


@dataclass(frozen=True, slots=True)
class Rule:
    """A pattern and what it means. A reader may raise ValueError or OverflowError for days that do not exist."""

    pattern: re.Pattern[str]
    read: Reader


_DIGITS = {char: value for value, char in enumerate("零一二三四五六七八九")} | {"〇": 0, "两": 2}
_NUMBER = "(?:[0-9]{1,4}|[一二两三四五六七八九十百]{1,5})"
_MONTH = "(?:1[0-2]|0?[1-9]|十[一二]?|[一二三四五六七八九])"
_DATE = "(?:3[01]|[12][0-9]|0?[1-9]|三十一?|二?十[一二三四五六七八九]?|[一二三四五六七八九])"
_YEAR = "(?:大前年|前年|去年|今年|(?<![0-9])(?:[0-9]{4}|[零〇一二三四五六七八九]{4})年)"
_TO = "[到至~—–-]"
_YEARS = {"今年": 0, "去年": 1, "前年": 2, "大前年": 3}
_WEEKDAYS = {char: at for at, chars in enumerate(("一1", "二2", "三3", "四4", "五5", "六6", "日天7")) for char in chars}
_SEASONS = {"春": 3, "夏": 6, "秋": 9, "冬": 12}
_HALVES = {"": (1, 12), "上半年": (1, 6), "下半年": (7, 6), "初": (1, 2), "中": (5, 4), "底": (11, 2), "末": (11, 2)}
"""The first month, and how many."""
_FEASTS = {
    "元旦": (1, 1, 3),
    "情人节": (2, 14, 1),
    "五一": (5, 1, 5),
    "劳动节": (5, 1, 5),
    "六一": (6, 1, 1),
    "儿童节": (6, 1, 1),
    "国庆": (10, 1, 7),
    "双十一": (11, 11, 1),
    "双11": (11, 11, 1),
    "双十二": (12, 12, 1),
    "双12": (12, 12, 1),
    "平安夜": (12, 24, 1),
    "圣诞": (12, 24, 2),
    "跨年": (12, 31, 2),
}
"""Month, day and how many days; feasts of the moon's calendar are not known."""
_FEAST = "|".join(sorted(_FEASTS, key=len, reverse=True))


def number(word: str) -> float:
    """Read a small number: digits, Chinese numerals, 半. Raises ValueError."""
    if word == "半":
        return 0.5
    if word.isdigit():
        return int(word)
    total, digit = 0, 0
    for char in word:
        if char in _DIGITS:
            digit = digit * 10 + _DIGITS[char]
        else:
            total += (digit or 1) * (100 if char == "百" else 10)
            digit = 0
    return total + digit


def _midnight(day: date) -> datetime:
    return datetime.combine(day, time())


def _days(first: date, count: int = 1) -> Span:
    start = _midnight(first)
    return Span(start, start + count * DAY, "day" if count == 1 else "span")


def _shift(day: date, months: int) -> date:
    """The first of the month that lies so many months later. Raises ValueError outside the calendar."""
    index = day.year * 12 + day.month - 1 + months
    return date(index // 12, index % 12 + 1, 1)


def _months(first: date, count: int = 1) -> Span:
    return Span(_midnight(first), _midnight(_shift(first, count)))


def _latest(build: Callable[[int], Span], now: Now) -> Span | None:
    """The newest of this year's and earlier years' spans that has begun."""
    for year in range(now.today.year, now.today.year - 9, -1):
        try:
            span = build(year)
        except ValueError:  # 29 February
            continue
        if span.start <= now.moment:
            return span
    return None


def _year(word: str, now: Now) -> int:
    if word in _YEARS:
        return now.today.year - _YEARS[word]
    digits = word.removesuffix("年")
    year = int(digits) if digits.isdigit() else int("".join(str(_DIGITS[char]) for char in digits))
    return year if year > 99 else 2000 + year


_RELATIVE_DAYS = {"今": 0, "昨": 1, "前": 2, "大前": 3}
_SHORT_PARTS = {"早": (4, 12), "晨": (4, 12), "晚": (17, 30), "夜": (17, 30)}


def _day(match: re.Match[str], now: Now) -> Span:
    return _days(now.today - _RELATIVE_DAYS[match["day"]] * DAY)


def _short_part(match: re.Match[str], now: Now) -> Span:
    """今早, 昨晚. Before five in the morning, tonight is the night that began yesterday."""
    first, last = _SHORT_PARTS[match["part"][0]]
    back = _RELATIVE_DAYS[match["day"]]
    if back == 0 and first > 12 and now.moment.hour < 5:
        back = 1
    start = _midnight(now.today - back * DAY)
    return Span(start + timedelta(hours=first), start + timedelta(hours=last), "part")


def _ago(match: re.Match[str], now: Now) -> Span:
    """N units ago, more or less: the longer ago, the less exact."""
    word, unit = match["count"], match["unit"]
    if word in {"几", "好几"}:
        return Span(_back(now, 10, unit), _back(now, 1, unit))
    count = number(word)
    if unit in {"分钟", "小时", "钟头"} or (unit in "天日" and count < 1):
        return Span(_back(now, count * 1.5, unit), _back(now, count * 0.5, unit))
    if unit in "天日":
        return _days(now.today - int(count) * DAY)
    slack = {"月": 15, "年": 90}.get(unit, 3) if count >= 1 else {"月": 5}.get(unit, 45)
    about = _midnight(_back(now, count, unit).date())
    return Span(about - slack * DAY, about + (slack + 1) * DAY)


def _back(now: Now, count: float, unit: str) -> datetime:
    if unit == "年" or (unit == "月" and count >= 1):
        months = round(count * 12 if unit == "年" else count)
        first = _shift(now.today, -months)
        last = _shift(first, 1) - DAY
        return now.moment.replace(year=first.year, month=first.month, day=min(now.today.day, last.day))
    minutes = {"分钟": 1, "小时": 60, "钟头": 60, "天": 1440, "日": 1440, "月": 43200}.get(unit, 10080)
    return now.moment - timedelta(minutes=count * minutes)


def _within(match: re.Match[str], now: Now) -> Span:
    word = match["count"]
    return Span(_back(now, 7 if word in {"几", "好几"} else number(word), match["unit"]), now.tomorrow)


def _since_days(days: float) -> Reader:
    return lambda _, now: Span(now.moment - timedelta(days=days), now.tomorrow)


def _week(match: re.Match[str], now: Now) -> Span | None:
    back, day = match["back"], match["day"]
    if back is None and (day is None or day == "末"):
        return None
    monday = now.today - timedelta(days=now.today.weekday())
    if back is not None:
        monday -= 7 * back.count("上") * DAY
    if day is None:
        return Span(_midnight(monday), _midnight(monday) + 7 * DAY)
    if day == "末":
        return _days(monday + 5 * DAY, 2)
    first = _WEEKDAYS[day]
    if back is None and first >= now.today.weekday():
        monday -= 7 * DAY  # the last one: on a Wednesday, 周三 is a week ago, for today is called 今天
    until = match["until"]
    count = 1 if until is None else (_WEEKDAYS[until] - first) % 7 + 1
    return _days(monday + first * DAY, count)


def _weekend(_: re.Match[str], now: Now) -> Span:
    monday = now.today - timedelta(days=now.today.weekday())
    return _days(monday + (5 if now.today.weekday() > 4 else -2) * DAY, 2)


def _ymd(match: re.Match[str], now: Now) -> Span:
    year, month, day = int(match["year"]), int(match["month"]), match["date"]
    return _months(date(year, month, 1)) if day is None else _days(date(year, month, int(day)))


def _md(match: re.Match[str], now: Now) -> Span | None:
    return _latest(lambda year: _days(date(year, int(match["month"]), int(match["date"]))), now)


def _compact(match: re.Match[str], now: Now) -> Span:
    digits = match[0]
    return _days(date(int(digits[:4]), int(digits[4:6]), int(digits[6:])))


def _month(match: re.Match[str], now: Now) -> Span | None:
    month = int(number(match["month"]))
    if match["year"] is not None:
        return _in_month(match, date(_year(match["year"], now), month, 1))
    return _latest(lambda year: _in_month(match, date(year, month, 1)), now)


def _relative_month(match: re.Match[str], now: Now) -> Span:
    return _in_month(match, _shift(now.today, -match["back"].count("上")))


def _in_month(match: re.Match[str], first: date) -> Span:
    """The days of a month that a date (or several, until another) or a third names. Raises ValueError."""
    day, third, until = match["date"], match["third"], match["until"]
    if day is not None:
        start = first.replace(day=int(number(day)))
        count = 1 if until is None else (first.replace(day=int(number(until))) - start).days + 1
        return _days(start, max(1, count))
    whole = _months(first)
    match third:
        case None:
            return whole
        case "初" | "上旬":
            return Span(whole.start, whole.start + 10 * DAY)
        case "中" | "中旬":
            return Span(whole.start + 10 * DAY, whole.start + 20 * DAY)
        case _:
            return Span(whole.start + 20 * DAY, whole.end)


def _this_month(match: re.Match[str], now: Now) -> Span | None:
    span = _in_month(match, _shift(now.today, 0))
    return span if span.start <= now.moment else _in_month(match, _shift(now.today, -1))


def _whole_year(match: re.Match[str], now: Now) -> Span:
    return _in_year(match, _year(match["year"], now))


def _this_year(match: re.Match[str], now: Now) -> Span | None:
    return _latest(lambda year: _in_year(match, year), now)


def _in_year(match: re.Match[str], year: int) -> Span:
    season, feast, part = match["season"], match["feast"], match["half"] or ""
    if season is not None:
        return _months(date(year, _SEASONS[season[0]], 1), 3)
    if feast is not None:
        month, day, count = _FEASTS[feast]
        return _days(date(year, month, day), count)
    first, count = _HALVES[part.removeprefix("年")]
    return _months(date(year, first, 1), count)


def _today(_: re.Match[str], now: Now) -> Span:
    return _days(now.today)


def _date_alone(match: re.Match[str], now: Now) -> Span | None:
    """The fifth: of this month, or of the last one that has a fifth and in which it has begun."""
    day = int(number(match["date"]))
    for back in range(3):
        first = _shift(now.today, -back)
        with suppress(ValueError):
            span = _days(first.replace(day=day))
            if span.start <= now.moment:
                return span
    return None


def _rule(pattern: str, read: Reader) -> Rule:
    return Rule(re.compile(pattern), read)


_COUNT = rf"(?<![0-9.第])(?P<count>{_NUMBER}|(?<!个)半|好?几)个?(?P<unit>分钟|小时|钟头|天|日|星期|礼拜|周|(?<=个)月|年)"
_NOT_AGO = "以之目生从当先提面跟眼大"
_IN_MONTH = (
    rf"(?:(?P<date>{_DATE})(?:[日号](?:{_TO}(?P<until>{_DATE})[日号])?|(?<=[0-9])(?=$|[\s,，。的那]))"
    r"|(?P<third>上旬|中旬|下旬|初(?![一二三四五六七八九十])|中(?![午间秋])|底(?!薪)|末))"
)
_MONTH_ENDS = f"(?:的?{_IN_MONTH}|(?![0-9一二三四五六七八九十球亮饼经薪票考入费光色天]))"
_IN_YEAR = (
    "(?:(?P<half>上半年|下半年|年?初(?![一二三中恋始步次])|年?中(?![午间秋国])|年?底(?![下线])|年?末)"
    f"|(?P<season>[春夏秋冬][天季])|(?P<feast>{_FEAST})节?)"
)
_WEEK = "(?:周|星期|礼拜)"
_WEEKDAY = "[一二三四五六日天1-7]"
_NO_WEEKDAY = "(?![个次节年倍遍趟常岁天气0-9])"

RULES: tuple[Rule, ...] = (
    _rule(rf"(?P<day>大前|昨|(?<!如)今|(?<![{_NOT_AGO}])前(?!天天))(?:天|日(?!头条|重现)|儿个?)", _day),
    _rule(rf"(?P<day>[昨今]|(?<![{_NOT_AGO}])前(?=晚))(?P<part>早上?|晨|晚上?|夜里?)", _short_part),
    _rule(rf"{_COUNT}(?:以前|之前|前(?![面后台锋端辈女男]))", _ago),
    _rule(rf"(?:最近|过去|(?<![附最亲靠接临])近|这(?!一天))的?{_COUNT}(?:以内|之内|内|以来|来)?", _within),
    _rule(rf"{_COUNT}(?:以内|之内|内|以来|来)", _within),
    _rule("前两天", _since_days(5)),
    _rule("前(?:几|些)天", _since_days(10)),
    _rule("前(?:一?阵子?|段时间|些日子|些时候|不久)", _since_days(60)),
    _rule("(?:最近)?这(?:一?阵子?|段时间|些天|些日子)", _since_days(30)),
    _rule("刚才|方才|刚刚(?![好才])", _since_days(1 / 24)),
    _rule(
        rf"(?:(?P<back>(?<![晚早马网])上{{1,3}}个?|这个?|本)|(?<![每一两二三四五六七八九十几双整全过个0-9])){_WEEK}(?![围边年岁期转])"
        rf"(?P<day>(?:{_WEEKDAY}|末){_NO_WEEKDAY})?(?:(?<={_WEEKDAY}){_TO}{_WEEK}?(?P<until>{_WEEKDAY}))?",
        _week,
    ),
    _rule("(?<![0-9.])(?P<year>[0-9]{4})(?P<sep>[-/])(?P<month>[0-9]{1,2})(?:(?P=sep)(?P<date>[0-9]{1,2}))?(?![0-9])", _ymd),
    _rule("(?<![0-9.])(?P<year>[0-9]{4})[.](?P<month>[0-9]{1,2})[.](?P<date>[0-9]{1,2})(?![0-9.])", _ymd),
    _rule("(?<![A-Za-z0-9./-])(?P<month>[0-9]{1,2})/(?P<date>[0-9]{1,2})(?![A-Za-z0-9./%杯斤份勺桶-])", _md),
    _rule(
        rf"(?:(?P<year>{_YEAR}|(?<![0-9])[0-9]{{2}}年)的?|(?<![0-9.一二三四五六七八九十个第几每半]))(?P<month>{_MONTH})月份?{_MONTH_ENDS}",
        _month,
    ),
    _rule(rf"(?P<back>(?<![晚早马网路])上{{1,3}}个?|这个?|本|当)月份?{_MONTH_ENDS}", _relative_month),
    _rule(rf"(?P<year>{_YEAR})(?:的?{_IN_YEAR})?", _whole_year),
)
"""What is a time wherever it stands."""

WHEN_RULES: tuple[Rule, ...] = (
    _rule(rf"(?<![0-9一二三四五六七八九十月])(?P<date>{_DATE})[日号]", _date_alone),
    _rule(rf"月{_IN_MONTH}", _this_month),
    _rule(_IN_YEAR, _this_year),
    _rule("(?<![0-9])[0-9]{8}(?![0-9])", _compact),
    _rule("(?<![0-9])(?P<month>[0-9]{1,2})[-.](?P<date>[0-9]{1,2})(?![0-9.-])", _md),
    _rule("周末", _weekend),
    _rule("最近|近期|近来|近日", _since_days(30)),
    _rule("(?=凌晨|早上|早晨|清晨|上午|中午|下午|傍晚|晚上|夜里|半夜|深夜|[0-9]{1,2}(?:点|:[0-9]{2}))", _today),
)
"""What is a time only where nothing else is expected."""
