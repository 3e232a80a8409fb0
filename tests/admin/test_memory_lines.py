"""Lines of an import: split whatever the pieces are, read or refused in Chinese."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from db.models import ConversationKey
from plugins.admin.jsonl import Line, split_lines
from plugins.admin.memory_lines import MAX_ERRORS, ImportReport, read_line
from plugins.admin.subjects import NamedSubject


async def _split(pieces: Sequence[bytes], longest: int = 50) -> list[Line]:
    async def come() -> AsyncIterator[bytes]:
        for piece in pieces:
            yield piece

    return [line async for line in split_lines(come(), longest=longest)]


async def test_lines_are_numbered_as_an_editor_does() -> None:
    lines = await _split([b"\xef\xbb\xbfone\r\n\n  \ntw", b"o\n", b"three"])
    assert lines == [Line(1, b"one"), Line(4, b"two"), Line(5, b"three")]


async def test_a_line_that_is_too_long_is_told_and_the_next_is_read() -> None:
    for piece in (1, 7, 1000):
        text = b"x" * 51 + b"\n" + b"y" * 50 + b"\n" + b"z" * 400
        pieces = [text[at : at + piece] for at in range(0, len(text), piece)]
        assert await _split(pieces) == [Line(1, None), Line(2, b"y" * 50), Line(3, None)]


@given(
    st.lists(st.binary(max_size=12).map(lambda raw: raw.replace(b"\n", b" ").replace(b"\xef", b"")), max_size=8),
    st.integers(1, 9),
)
async def test_pieces_do_not_matter(texts: list[bytes], size: int) -> None:
    whole = b"\n".join(texts)
    pieces = [whole[at : at + size] for at in range(0, len(whole), size)]
    wanted = [Line(number, text.strip()) for number, text in enumerate(texts, 1) if text.strip()]
    assert await _split(pieces) == wanted


def _raw(**fields: object) -> bytes:
    return json.dumps({"group_id": 7000000101, "kind": "fact", "content": "小明养了两只猫"} | fields).encode()


def test_four_fields_are_enough_and_unknown_ones_are_ignored() -> None:
    line = read_line(_raw(subject_id="5000000011", id=9, mood="good"))
    assert (line.key, line.named) == (ConversationKey("group", 7000000101), NamedSubject(None, 5000000011))
    assert (line.content, line.status, line.locked, line.uses) == ("小明养了两只猫", "active", True, 0)


def test_a_friends_line_belongs_to_their_conversation() -> None:
    assert read_line(_raw(group_id=None, user_id=5000000021)).key == ConversationKey("private", 5000000021)


def test_a_text_becomes_one_line() -> None:
    assert read_line(_raw(content="  小明\n养了\t猫 ")).content == "小明 养了 猫"


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        (b"{", "不是有效的 JSON"),
        (b"[]", "应为 JSON 对象"),
        (b"\xff\xfe", "JSON"),
        (b'{"content": "\\ud800"}', "JSON"),
        (_raw(group_id=None), "要给且只给一个"),
        (_raw(user_id=5000000021), "要给且只给一个"),
        (_raw(group_id=0), "group_id：不能小于 1"),
        (_raw(group_id=2**63), "group_id：不能大于"),
        (_raw(subject_id=-1), "subject_id：不能小于 0"),
        (_raw(kind="rumour"), "kind：应为"),
        (_raw(content=" \n "), "content：不能为空"),
        (_raw(content="长" * 501), "content：不能超过 500 个字"),
        (_raw(content="长" * 20000), "content：不能超过"),
        (_raw(content="a\0b"), "content：不能含有"),
        (_raw(content=7), "content：应为文字"),
        (_raw(used_at="昨天"), "used_at：应为时间"),
        (_raw(created_at="2026-11-30T12:00:00"), "created_at：时间要带时区"),
        (_raw(uses=-1), "uses：不能小于 0"),
        (_raw(status="lost"), "status：应为"),
    ],
)
def test_a_bad_line_says_why(raw: bytes, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        read_line(raw)


def test_a_report_names_the_first_bad_lines_and_counts_all() -> None:
    report = ImportReport(lines=30)
    for number in range(1, 31):
        report.note(number, "坏的")
    assert (report.failed, len(report.errors), report.errors[-1].line) == (30, MAX_ERRORS, MAX_ERRORS)
    assert "没读懂 30" in report.summary()
