"""Small rules: quiet hours, mutes, rates, windows and nudges."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from db.models import Conversation, ConversationId, Kind, Role
from plugins.chat.debounce import Debounce
from plugins.chat.pokes import A_MEMBER, GAP_SECONDS, MEMBER_SECONDS, PokeLimit
from plugins.chat.rules import ambient_chance, daily_calls, is_enabled, is_muted, is_quiet, talk_frequency
from settings import Settings, load_settings

GROUP, OTHER, WANG, MING = 5700000001, 5700000002, 5000000013, 5000000011
NOON = datetime(2026, 11, 30, 4, 0, tzinfo=UTC)  # 12:00 in Shanghai


def conversation(kind: Kind = "group", target: int = GROUP) -> Conversation:
    """A conversation as it is when nobody changed anything."""
    return Conversation(
        id=ConversationId(1),
        kind=kind,
        target_id=target,
        name="",
        enabled=None,
        talk_frequency=None,
        quiet_hours=None,
        daily_calls=None,
        persona=None,
        extra_prompt="",
        learning=True,
        quiet_until=None,
        muted_until=None,
        whole_mute=False,
        left_at=None,
        last_pos=0,
        watermark=0,
        diced_pos=0,
    )


def settings(**values: str) -> Settings:
    """Settings with one group and one owner."""
    return load_settings({"enabled_groups": f"[{GROUP}]", "superusers": str(WANG)} | values)


def local(hour: int, minute: int = 0) -> datetime:
    """A moment of a day in Shanghai."""
    return datetime(2026, 11, 30, hour, minute, tzinfo=UTC) - timedelta(hours=8)


@pytest.mark.parametrize(
    ("kind", "target", "enabled", "right"),
    [
        ("group", GROUP, None, True),
        ("group", OTHER, None, False),
        ("group", OTHER, True, True),
        ("group", GROUP, False, False),
        ("private", WANG, None, True),
        ("private", MING, None, False),
        ("private", MING, True, True),
        ("private", WANG, False, False),
        ("private", GROUP, None, False),
    ],
)
def test_where_the_bot_is_enabled(kind: Kind, target: int, enabled: bool | None, right: bool) -> None:
    assert is_enabled(replace(conversation(kind, target), enabled=enabled), settings()) is right


@pytest.mark.parametrize(
    ("hours", "moment", "quiet"),
    [
        ("23:30-07:00", local(23, 29), False),
        ("23:30-07:00", local(23, 30), True),
        ("23:30-07:00", local(0), True),
        ("23:30-07:00", local(6, 59), True),
        ("23:30-07:00", local(7), False),
        ("01:00-07:00", local(0, 59), False),
        ("01:00-07:00", local(1), True),
        ("", local(3), False),
        ("08:00-08:00", local(8), False),
    ],
)
def test_quiet_hours_are_local_and_may_cross_midnight(hours: str, moment: datetime, quiet: bool) -> None:
    assert is_quiet(conversation(), settings(quiet_hours=hours), moment) is quiet
    assert is_quiet(replace(conversation(), quiet_hours=hours), settings(quiet_hours="12:00-13:00"), moment) is quiet


def test_quiet_hours_that_make_no_sense_are_those_of_the_settings() -> None:
    where = replace(conversation(), quiet_hours="夜里")
    assert is_quiet(where, settings(quiet_hours="11:00-13:00"), NOON)
    assert not is_quiet(where, settings(quiet_hours=""), NOON)


def test_somebody_asked_for_quiet_until_a_moment() -> None:
    asked = replace(conversation(), quiet_until=NOON + timedelta(minutes=5), quiet_hours="")
    assert is_quiet(asked, settings(), NOON)
    assert not is_quiet(asked, settings(), NOON + timedelta(minutes=5))


@pytest.mark.parametrize("role", ["owner", "admin", "member", "unknown"])
def test_an_own_mute_binds_everybody_and_a_whole_mute_not_the_staff(role: Role) -> None:
    own = replace(conversation(), muted_until=NOON + timedelta(seconds=1))
    assert is_muted(own, role, NOON)
    assert not is_muted(own, role, NOON + timedelta(seconds=1))
    assert is_muted(replace(conversation(), whole_mute=True), role, NOON) is (role in {"member", "unknown"})


def test_a_conversation_has_its_own_rates() -> None:
    where = replace(conversation(), talk_frequency=0.0, daily_calls=0)
    assert (talk_frequency(where, settings()), daily_calls(where, settings())) == (0.0, 0)
    assert (talk_frequency(conversation(), settings()), daily_calls(conversation(), settings())) == (0.3, 500)


@given(st.floats(0, 1), st.integers(0, 30), st.integers(0, 30))
def test_the_chance_falls_as_the_bot_talks_more(frequency: float, own: int, recent: int) -> None:
    chance = ambient_chance(frequency, min(own, recent), recent)
    assert 0 <= chance <= frequency
    if own < recent:
        assert ambient_chance(frequency, own + 1, recent) <= ambient_chance(frequency, own, recent)
        assert ambient_chance(frequency / 2, own, recent) <= ambient_chance(frequency, own, recent)


def test_the_chance_is_whole_below_a_tenth_and_nothing_from_a_half() -> None:
    assert ambient_chance(0.4, 2, 20) == pytest.approx(0.4)
    assert ambient_chance(0.4, 6, 20) == pytest.approx(0.2)
    assert ambient_chance(1.0, 10, 20) == 0
    assert ambient_chance(0.4, 0, 0) == 0.4


@given(
    st.floats(0, 60),
    st.floats(0, 120),
    st.lists(st.floats(0, 30), min_size=1, max_size=20),
)
def test_the_window_closes_after_the_latest_but_never_long_after_the_first(quiet: float, extra: float, gaps: list[float]) -> None:
    longest = quiet + extra
    window = Debounce(quiet, longest)
    assert window.due() is None
    now = first = 1000.0
    for gap in gaps:
        now += gap
        if window.first is None:
            first = now
        window.touch(now)
        due = window.due()
        assert due is not None
        assert due <= first + longest
        assert due >= min(now, first + longest)
        assert due in {now + quiet, first + longest}
    window.reset()
    assert window.due() is None
    window.touch(now + 1)
    assert window.due() == now + 1 + quiet


def test_nudges_count_once_in_a_while() -> None:
    limit, here, there = PokeLimit(), ConversationId(1), ConversationId(2)
    assert limit.allows(here, MING, 0)
    assert not limit.allows(here, WANG, GAP_SECONDS - 1)
    assert limit.allows(there, MING, GAP_SECONDS - 1)
    assert limit.allows(here, WANG, GAP_SECONDS)


def test_one_member_is_heard_a_few_times_only_and_again_later() -> None:
    limit, here = PokeLimit(), ConversationId(1)
    times = [number * GAP_SECONDS for number in range(A_MEMBER + 1)]
    assert [limit.allows(here, MING, now) for now in times] == [True] * A_MEMBER + [False]
    assert limit.allows(here, WANG, times[-1])
    assert limit.allows(here, MING, MEMBER_SECONDS + GAP_SECONDS)


@given(st.lists(st.tuples(st.integers(1, 3), st.floats(0, 40)), max_size=60))
def test_refused_nudges_never_delay_the_next_that_counts(pokes: list[tuple[int, float]]) -> None:
    limit, now, counted = PokeLimit(), 0.0, [-GAP_SECONDS]
    for user, gap in pokes:
        now += gap
        if limit.allows(ConversationId(1), user, now):
            assert now - counted[-1] >= GAP_SECONDS
            counted.append(now)
