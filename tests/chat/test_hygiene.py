"""Texts and names made safe at the door."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugins.chat.hygiene import clean_text, fold, is_blank, one_line
from plugins.chat.names import NAME_LIMIT, show_name

any_text = st.text(st.characters(), max_size=60)


@given(any_text)
def test_clean_text_can_be_encoded_and_has_no_carriage_return(text: str) -> None:
    clean = clean_text(text)
    clean.encode()
    assert "\x00" not in clean
    assert "\r" not in clean
    assert clean_text(clean) == clean


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00\r")))
def test_clean_text_leaves_good_text_alone(text: str) -> None:
    assert clean_text(text) == text


def test_clean_text_is_bounded() -> None:
    assert clean_text("长" * 50, limit=8) == "长" * 8


def test_line_ends_become_one_kind() -> None:
    assert clean_text("a\r\nb\rc\n\rd") == "a\nb\nc\n\nd"


@given(any_text, any_text, st.integers(0, 2**63 - 1))
def test_a_shown_name_is_one_visible_bounded_line(card: str, nickname: str, user_id: int) -> None:
    name = show_name(card, nickname, user_id)
    assert 1 <= len(name) <= NAME_LIMIT
    assert not is_blank(name)
    assert name == " ".join(name.split())
    assert not {unicodedata.category(char) for char in name} & {"Cc", "Cf", "Cs", "Zl", "Zp"}


@pytest.mark.parametrize(
    ("card", "nickname", "expected"),
    [
        ("青团", "阿青", "青团"),
        ("", "阿青", "阿青"),
        ("  ", "阿青", "阿青"),
        ("\u3164", "\u200b\u2060", "用户0011"),
        ("\u202e反着写\u202c", "", "反着写"),
        ("两\n行\t名", "", "两 行 名"),
        ("\ufe0f", "阿青", "阿青"),
        ("\ud83d", "阿青", "阿青"),
        ("🍠", "", "🍠"),
        ("1", "", "1"),
        ("名" * 41, "", "名" * 39 + "…"),
    ],
)
def test_the_card_wins_and_blank_names_are_missing(card: str, nickname: str, expected: str) -> None:
    assert show_name(card, nickname, 5200000011) == expected


def test_names_of_unknown_members() -> None:
    assert show_name("", "", 0) == "未知成员"
    assert show_name("", "", 7) == "用户0007"


def test_one_line_does_not_work_through_a_hostile_text() -> None:
    assert one_line("\u200b" * 1_000_000 + "尾", 20) == ""


def test_folding_is_for_matching() -> None:
    assert fold("ＭＩＡ１２") == "mia12"
    assert fold("Straße") == "strasse"
