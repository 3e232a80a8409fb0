"""Events → records: an own corpus line by line, and whatever else a socket may bring."""

from __future__ import annotations

import copy
import json
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from plugins.chat.events import is_official_robot, read_event, read_time
from plugins.chat.names import show_name
from plugins.chat.records import Incoming, Muted, Record, Skipped
from plugins.chat.segments import render

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
MEMBERS = {5200000001: "小满", 5200000011: "青团"}
LINES = [
    json.loads(line) for line in (Path(__file__).parents[1] / "data" / "events.jsonl").read_text(encoding="utf-8").splitlines()
]


def seen(record: Record) -> dict[str, Any]:
    """Everything a corpus line may state about a record, by name."""
    fields = asdict(record)
    for key in ("at", "until"):
        if isinstance(fields.get(key), datetime):
            fields[key] = fields[key].isoformat()
    if "conversation" in fields:
        fields["conversation"] = "{kind}:{target_id}".format(**fields["conversation"])
    if isinstance(record, Incoming):
        rendered = render(record.parts, MEMBERS.get)
        sender = record.sender
        fields |= asdict(sender) | asdict(rendered)
        fields["name"] = show_name(sender.card, sender.nickname, sender.user_id)
        fields["mentions"] = [part.user_id for part in record.parts if part.kind == "at"]
        fields["kinds"] = [part.kind for part in record.parts]
    return fields


@pytest.mark.parametrize("line", LINES, ids=[line["note"] for line in LINES])
def test_the_corpus_is_read_line_by_line(line: dict[str, Any]) -> None:
    record = read_event(line["event"], now=NOW)
    fields = seen(record)
    assert type(record).__name__ == line["record"]
    assert {key: _plain_time(key, fields[key]) for key in line["reads"]} == {
        key: _plain_time(key, value) for key, value in line["reads"].items()
    }


def _plain_time(key: str, value: Any) -> Any:
    return datetime.fromisoformat(value) if key in {"at", "until"} and value else value


def test_reading_does_not_change_the_event() -> None:
    for line in LINES:
        before = copy.deepcopy(line["event"])
        read_event(line["event"], now=NOW)
        assert line["event"] == before


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(), max_size=20)
    | st.sampled_from(["0", "-1", "all", "5200000001", "group", "[CQ:at,qq=1]", "\ud800", "\x00", "[{}]", "{", "9" * 40]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


def paths(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in a JSON value, the whole left out."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    found: list[tuple[Any, ...]] = []
    for key, child in inner:
        found += [(*at, key), *paths(child, (*at, key))]
    return found


@st.composite
def mutated_events(draw: st.DrawFn) -> dict[str, Any]:
    """A corpus event in which one to three places were replaced or removed."""
    event = copy.deepcopy(draw(st.sampled_from([line["event"] for line in LINES])))
    for _ in range(draw(st.integers(1, 3))):
        places = paths(event)
        if not places:
            break
        place = draw(st.sampled_from(places))
        holder = event
        for key in place[:-1]:
            holder = holder[key]
        if isinstance(holder, dict) and draw(st.booleans()):
            del holder[place[-1]]
        else:
            holder[place[-1]] = draw(json_values)
    return event


@settings(max_examples=200, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(mutated_events())
def test_a_mutated_event_is_read_into_something_storable(event: dict[str, Any]) -> None:
    assert_storable(read_event(event, now=NOW))


@settings(max_examples=100, deadline=None)
@given(st.dictionaries(st.sampled_from(["self_id", "post_type", "message", "notice_type", "user_id", "sender"]), json_values))
def test_any_object_is_read_into_something_storable(event: dict[str, Any]) -> None:
    assert_storable(read_event(event, now=NOW))


def assert_storable(record: Record) -> None:
    """Numbers fit 64 bits, texts can be stored, times are near, segments are bounded."""
    for value in flat(asdict(record)):
        if isinstance(value, str):
            assert "\x00" not in value
            value.encode()
        elif isinstance(value, int):
            assert -(2**63) <= value < 2**63
        elif isinstance(value, datetime):
            assert value.tzinfo is not None
    if isinstance(record, Incoming):
        assert len(json.dumps(record.segments, allow_nan=False, ensure_ascii=False).encode()) <= 65_536
        rendered = render(record.parts, MEMBERS.get)
        assert len(rendered.text) <= 1_001_000
        assert record.conversation.target_id > 0
        assert record.parts or record.reply_key is not None


def flat(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [leaf for pair in value.items() for item in pair for leaf in flat(item)]
    if isinstance(value, list | tuple):
        return [leaf for item in value for leaf in flat(item)]
    return [value]


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (1790000000, datetime(2026, 9, 21, 14, 13, 20, tzinfo=UTC)),
        ("1790000000", datetime(2026, 9, 21, 14, 13, 20, tzinfo=UTC)),
        (1790000000.5, datetime(2026, 9, 21, 14, 13, 20, 500_000, tzinfo=UTC)),
        (1790000000000, datetime(2026, 9, 21, 14, 13, 20, tzinfo=UTC)),
        (0, NOW),
        (-5, NOW),
        (10**17, NOW),
        (float("nan"), NOW),
        (float("inf"), NOW),
        (True, NOW),
        (None, NOW),
        ("昨天", NOW),
    ],
)
def test_times_are_seconds_or_milliseconds_or_now(raw: Any, expected: datetime) -> None:
    assert read_time(raw, NOW) == expected


def test_official_robots_are_known_by_their_numbers() -> None:
    assert is_official_robot(2854196301)
    assert is_official_robot(3889999999)
    assert not is_official_robot(2854196300)
    assert not is_official_robot(5200000011)


def test_a_mute_of_absurd_length_ends_within_a_year() -> None:
    event = {"self_id": 1, "post_type": "notice", "notice_type": "group_ban", "group_id": 2, "user_id": 1, "duration": 2**62}
    record = read_event(event, now=NOW)
    assert isinstance(record, Muted)
    assert record.on
    assert record.until is not None
    assert (record.until - record.at).days == 366


def test_a_mute_of_no_length_is_its_end() -> None:
    event = {"self_id": 1, "post_type": "notice", "notice_type": "group_ban", "group_id": 2, "user_id": 3, "duration": 0}
    record = read_event(event, now=NOW)
    assert isinstance(record, Muted)
    assert not record.on
    assert record.until is None


def test_a_mute_of_the_whole_group_has_no_end() -> None:
    event = {"self_id": 1, "post_type": "notice", "notice_type": "group_ban", "group_id": 2, "user_id": 0, "duration": 2**28}
    record = read_event(event, now=NOW)
    assert isinstance(record, Muted)
    assert record.on
    assert record.until is None


def test_numbers_beyond_64_bits_are_no_ids() -> None:
    event = {"self_id": 1, "post_type": "message", "group_id": 2, "user_id": 3, "message": "好"}
    for key, bad in (("message_id", 2**63), ("message_id", "9" * 19), ("real_seq", 2**63), ("real_seq", "0")):
        record = read_event(event | {"message_id": 5, "real_seq": "6", key: bad}, now=NOW)
        assert isinstance(record, Incoming)
        assert (record.message_id, record.real_seq) == ((None, 6) if key == "message_id" else (5, None))
    assert isinstance(read_event(event | {"user_id": 2**63}, now=NOW), Skipped)


@pytest.mark.parametrize(
    ("sub_type", "group_id", "temporary"),
    [("friend", 0, False), ("friend", 5800000001, False), ("group", 0, True), ("other", 0, True), ("", 5800000001, True)],
)
def test_temporary_sessions(sub_type: str, group_id: int, temporary: bool) -> None:
    event = {"self_id": 1, "post_type": "message", "message_type": "private", "user_id": 3, "message": "好"}
    record = read_event(event | {"sub_type": sub_type, "group_id": group_id}, now=NOW)
    assert isinstance(record, Incoming)
    assert record.temporary is temporary


def test_a_message_without_an_array_is_read_from_its_raw_form() -> None:
    event = {"self_id": 1, "post_type": "message", "group_id": 2, "user_id": 3, "raw_message": "[CQ:face,id=76]好"}
    record = read_event(event, now=NOW)
    assert isinstance(record, Incoming)
    assert render(record.parts, MEMBERS.get).body == "[赞]好"
    assert record.string_format


def test_an_own_private_message_without_a_peer_is_skipped() -> None:
    event = {"self_id": 1, "post_type": "message_sent", "message_type": "private", "user_id": 1, "message": "好"}
    assert isinstance(read_event(event, now=NOW), Skipped)
