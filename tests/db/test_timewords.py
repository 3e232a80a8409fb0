"""Which words stand for which time. It is Monday, 30 November 2026, 14:30 in Shanghai."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from db.timewords import TimeRange, read_query, read_when

ZONE = ZoneInfo("Asia/Shanghai")
NOW = datetime(2026, 11, 30, 14, 30, tzinfo=ZONE)


def local(moment: str) -> datetime:
    """A moment of Shanghai, written ``2026-11-29`` or ``2026-11-29 17``, hour and minute as far as needed."""
    day, _, clock = moment.partition(" ")
    hour, _, minute = clock.partition(":")
    return datetime.fromisoformat(day).replace(hour=int(hour or 0), minute=int(minute or 0), tzinfo=ZONE)


def span(start: str, end: str) -> TimeRange:
    """The range between two such moments."""
    return TimeRange(local(start).astimezone(UTC), local(end).astimezone(UTC))


def one_day(day: str) -> TimeRange:
    """One whole day."""
    return TimeRange(local(day).astimezone(UTC), (local(day) + timedelta(days=1)).astimezone(UTC))


@pytest.mark.parametrize(
    ("words", "day"),
    [
        ("今天", "2026-11-30"),
        ("昨天", "2026-11-29"),
        ("前天", "2026-11-28"),
        ("大前天", "2026-11-27"),
        ("3天前", "2026-11-27"),
        ("三天前", "2026-11-27"),
        ("十二天以前", "2026-11-18"),
        ("上周三", "2026-11-25"),
        ("上週三", "2026-11-25"),
        ("上个星期天", "2026-11-29"),
        ("上上周五", "2026-11-20"),
        ("周三", "2026-11-25"),
        ("礼拜六", "2026-11-28"),
        ("三月五号", "2026-03-05"),
        ("3月5日", "2026-03-05"),
        ("３月５號", "2026-03-05"),
        ("十二月三十一日", "2025-12-31"),
        ("去年十月一号", "2025-10-01"),
        ("25年3月5日", "2025-03-05"),
        ("二〇二五年三月五日", "2025-03-05"),
        ("2026-03-05", "2026-03-05"),
        ("2026/3/5", "2026-03-05"),
        ("2026.3.5", "2026-03-05"),
        ("20260305", "2026-03-05"),
        ("3/5", "2026-03-05"),
        ("11.11", "2026-11-11"),
        ("双十一", "2026-11-11"),
        ("这个月5号", "2026-11-05"),
        ("上个月31号", "2026-10-31"),
        ("5号", "2026-11-05"),
        ("31号", "2026-10-31"),
        ("2月29日", "2024-02-29"),
        ("yesterday", "2026-11-29"),
    ],
)
def test_words_for_a_day(words: str, day: str) -> None:
    assert read_when(words, NOW, ZONE) == one_day(day)


@pytest.mark.parametrize(
    ("words", "start", "end"),
    [
        ("昨晚", "2026-11-29 17", "2026-11-30 06"),
        ("今早", "2026-11-30 04", "2026-11-30 12"),
        ("昨天下午", "2026-11-29 12", "2026-11-29 19"),
        ("前天的晚上", "2026-11-28 17", "2026-11-29 06"),
        ("下午", "2026-11-30 12", "2026-11-30 19"),
        ("刚才", "2026-11-30 13:30", "2026-12-01"),
        ("2小时前", "2026-11-30 11:30", "2026-11-30 13:30"),
        ("半个小时前", "2026-11-30 13:45", "2026-11-30 14:15"),
        ("最近3天", "2026-11-27 14:30", "2026-12-01"),
        ("近两周", "2026-11-16 14:30", "2026-12-01"),
        ("一小时内", "2026-11-30 13:30", "2026-12-01"),
        ("这周", "2026-11-30", "2026-12-07"),
        ("上周", "2026-11-23", "2026-11-30"),
        ("上上个星期", "2026-11-16", "2026-11-23"),
        ("周末", "2026-11-28", "2026-11-30"),
        ("这个月", "2026-11-01", "2026-12-01"),
        ("上个月", "2026-10-01", "2026-11-01"),
        ("三月", "2026-03-01", "2026-04-01"),
        ("十二月份", "2025-12-01", "2026-01-01"),
        ("三月底", "2026-03-21", "2026-04-01"),
        ("上月中旬", "2026-10-11", "2026-10-21"),
        ("月初", "2026-11-01", "2026-11-11"),
        ("今年", "2026-01-01", "2027-01-01"),
        ("去年", "2025-01-01", "2026-01-01"),
        ("前年", "2024-01-01", "2025-01-01"),
        ("去年三月", "2025-03-01", "2025-04-01"),
        ("2026年3月", "2026-03-01", "2026-04-01"),
        ("2026-03", "2026-03-01", "2026-04-01"),
        ("去年年底", "2025-11-01", "2026-01-01"),
        ("上半年", "2026-01-01", "2026-07-01"),
        ("去年夏天", "2025-06-01", "2025-09-01"),
        ("去年国庆", "2025-10-01", "2025-10-08"),
        ("三个月前", "2026-08-15", "2026-09-15"),
        ("两年前", "2024-09-01", "2025-03-01"),
        ("前几天", "2026-11-20 14:30", "2026-12-01"),
        ("这阵子", "2026-10-31 14:30", "2026-12-01"),
        ("3月1号到5号", "2026-03-01", "2026-03-06"),
        ("上周三到周五", "2026-11-25", "2026-11-28"),
        ("前天到昨天", "2026-11-28", "2026-11-30"),
        ("2026-03-01 ~ 2026-03-05", "2026-03-01", "2026-03-06"),
        ("昨天以来", "2026-11-29", "2026-12-01"),
        ("三月之前", "1970-01-01", "2026-03-01"),
    ],
)
def test_words_for_a_span(words: str, start: str, end: str) -> None:
    assert read_when(words, NOW, ZONE) == span(start, end)


@pytest.mark.parametrize(
    ("words", "start", "end"),
    [
        ("昨天晚上8点", "2026-11-29 19:30", "2026-11-29 21"),
        ("昨晚十二点", "2026-11-29 23:30", "2026-11-30 01"),
        ("昨晚一点", "2026-11-30 00:30", "2026-11-30 02"),
        ("前天上午十点半", "2026-11-28 10", "2026-11-28 11:30"),
        ("昨天15点", "2026-11-29 14:30", "2026-11-29 16"),
        ("2026-03-05T10:00", "2026-03-05 09:30", "2026-03-05 11"),
        ("昨天3点", "2026-11-29", "2026-11-30"),  # of the two that it may be, neither is left out
    ],
)
def test_an_hour_narrows_a_day_to_about_then(words: str, start: str, end: str) -> None:
    assert read_when(words, NOW, ZONE) == span(start, end)


@pytest.mark.parametrize(
    "words", ["", "火锅", "明天", "下周", "今晚", "2027年", "11月31日", "13月", "2026-02-30", "三个月", "第三月"]
)
def test_no_time_or_none_that_has_begun(words: str) -> None:
    assert read_when(words, NOW, ZONE) is None


def test_after_midnight_tonight_is_still_the_night_before() -> None:
    late = datetime(2026, 12, 1, 0, 40, tzinfo=ZONE)
    assert read_when("今晚", late, ZONE) == span("2026-11-30 17", "2026-12-01 06")
    assert read_when("今天", late, ZONE) == one_day("2026-12-01")


def test_a_weekday_is_never_today_and_a_month_that_has_not_come_is_last_years() -> None:
    april = datetime(2026, 4, 10, 9, tzinfo=ZONE)
    assert read_when("周一", NOW, ZONE) == one_day("2026-11-23")
    assert read_when("五月", april, ZONE) == span("2025-05-01", "2025-06-01")
    assert read_when("三月到五月", april, ZONE) == span("2026-03-01", "2026-06-01")


def test_days_are_those_of_the_zone() -> None:
    new_york = ZoneInfo("America/New_York")
    expected = TimeRange(datetime(2026, 11, 1, 4, tzinfo=UTC), datetime(2026, 11, 2, 5, tzinfo=UTC))  # summer time ends
    assert read_when("11月1日", datetime(2026, 11, 30, 3, tzinfo=UTC), new_york) == expected


@pytest.mark.parametrize(
    ("query", "rest", "words"),
    [
        ("上周三吃的火锅", "吃的火锅", "上周三"),
        ("火锅 上周三", "火锅", "上周三"),
        ("我们昨天吃的火锅", "我们 吃的火锅", "昨天"),
        ("在去年三月的时候说的那家店", "说的那家店", "去年三月"),
        ("三月份的聚餐", "聚餐", "三月"),
        ("今天天气", "天气", "今天"),
        ("昨天下午三点开的会", "开的会", "昨天下午三点"),
        ("3/5 的链接", "链接", "3/5"),
        ("今天一点都不好吃", "一点都不好吃", "今天"),
        ("上周三次没去", "三次没去", "上周"),
    ],
)
def test_a_query_gives_its_time_away(query: str, rest: str, words: str) -> None:
    timed = read_query(query, NOW, ZONE)
    assert (timed.rest, timed.range) == (rest, read_when(words, NOW, ZONE))
    assert timed.range is not None


@pytest.mark.parametrize("query", ["三月五号", "昨天", "上周三！", "2026-03-05", "昨天😂"])
def test_a_query_that_is_only_a_time_is_looked_for_as_words(query: str) -> None:
    timed = read_query(query, NOW, ZONE)
    assert (timed.range, timed.rest) == (None, query)


@pytest.mark.parametrize("query", ["昨天聊了什么", "昨天大家都在说啥？", "昨天的聊天记录"])
def test_a_query_that_asks_what_was_said_then_has_no_words_left(query: str) -> None:
    timed = read_query(query, NOW, ZONE)
    assert (timed.range, timed.rest) == (one_day("2026-11-29"), "")


@pytest.mark.parametrize(
    "query",
    [
        "每周三开会",
        "一周三次",
        "周日常任务",
        "三月七好可爱",
        "五月天演唱会",
        "以前天天吃火锅",
        "明天吃什么",
        "今晚吃什么",
        "晚上月亮很圆",
        "刚刚好",
        "今日头条",
        "日本周边",
        "5号线到了吗",
        "最近有什么电影",
        "国庆去哪",
        "v3.5",
        "1/2杯水",
    ],
)
def test_words_that_only_look_like_a_time_stay(query: str) -> None:
    timed = read_query(query, NOW, ZONE)
    assert (timed.range, timed.rest) == (None, query)


def test_a_very_long_text_is_read_at_its_beginning_only() -> None:
    timed = read_query("昨天的火锅" + "好吃" * 100_000 + "上周三", NOW, ZONE)
    assert timed.range == one_day("2026-11-29")
    assert timed.rest.startswith("火锅好吃")
    assert read_query("好吃" * 1000 + "昨天", NOW, ZONE).range is None


def test_text_that_is_made_to_be_read_in_many_ways_is_read_once() -> None:
    for words in ("有谁", "有", "聊天", "的事情", " 到 ", "昨天到", "上", "三十一", "的时候"):
        assert read_query("昨天" + words * 3000 + "x", NOW, ZONE) is not None
        assert read_when(words * 3000, NOW, ZONE) is None or words == "昨天到"


PIECES = (
    "今昨前大上这本去年月日号周星期礼拜末天初底一二三四五六七八九十百半几个分钟小时点最近内以之刚才早晚午下到"
    "0123456789０３./-:～火锅 \ud800\x00😂ßİ"
)
MOMENTS = st.datetimes(datetime(1971, 1, 1), datetime(2200, 1, 1), timezones=st.just(UTC))


@given(st.one_of(st.text(PIECES, max_size=24), st.text(max_size=24)), MOMENTS)
@example("9999年", NOW)
@example("9999年前", NOW)
@example("0000年", NOW)
@example("0001-01-01", NOW)
@example("９９９９-12-31到0001-01-01", NOW)
def test_any_text_at_any_time_is_read_without_an_error(text: str, now: datetime) -> None:
    for zone in (ZONE, timezone(-timedelta(hours=11)), ZoneInfo("America/New_York")):
        found = read_when(text, now, zone)
        timed = read_query(text, now, zone)
        for span_found in (found, timed.range):
            assert span_found is None or span_found.start < span_found.end
        assert timed.rest or timed.range is not None or not text
