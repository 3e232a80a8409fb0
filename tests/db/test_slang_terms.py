"""When spellings are one term, and where a term stands in what was said."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from db.searchtext import search_text
from db.slang_terms import find_terms, needle, occurs, term_key


@pytest.mark.parametrize("spelling", ["yyds", "YYDS", "ｙｙｄｓ", " yy ds ", "Y\u200bYDS"])
def test_spellings_of_one_term_have_one_key(spelling: str) -> None:
    assert term_key(spelling) == "yyds"


def test_traditional_letters_are_the_simplified_term() -> None:
    assert term_key("開黑") == term_key("开黑")


@pytest.mark.parametrize("text", ["yyds", "他真是yyds！", "YYDS啊", "yyds,yyds", "ＹＹＤＳ"])
def test_a_latin_term_stands_between_chinese_and_punctuation(text: str) -> None:
    assert occurs("yyds", text)


@pytest.mark.parametrize("text", ["yydsx", "xyyds", "yyds2", "yy ds x", ""])
def test_a_latin_term_is_no_part_of_a_word(text: str) -> None:
    assert not occurs("yyds", text)


def test_a_mixed_term_is_a_word_only_where_it_is_latin() -> None:
    assert occurs("芭比q", "真的芭比Q了")
    assert not occurs("芭比q", "芭比qq了")


def test_a_term_in_several_words_may_lose_its_spaces() -> None:
    assert occurs("big mac", "吃 BigMac 吗")


def test_a_term_inside_a_longer_one_is_not_found() -> None:
    assert find_terms(["开黑", "开黑店"], "今晚去开黑店") == ["开黑店"]
    assert find_terms(["开黑", "开黑店"], "开黑店门口开黑") == ["开黑", "开黑店"]


def test_two_spellings_at_one_place_are_both_found() -> None:
    assert find_terms(["yyds", "YYDS"], "yyds") == ["yyds", "YYDS"]


def test_a_term_of_nothing_stands_nowhere() -> None:
    assert not occurs(" ", "什么")
    assert find_terms(["", "\u200b"], "什么") == []


@pytest.mark.parametrize(
    ("term", "text"),
    [
        ("开黑", "今晚去开黑店"),
        ("yyds", "他真yyds啊"),
        ("牛b", "真牛B"),
        ("b站", "去B站看"),
        ("u1s1", "U1S1，好"),
        ("芭比q", "芭比Q了"),
    ],
)
def test_a_needle_is_in_the_search_text_of_what_holds_the_term(term: str, text: str) -> None:
    assert needle(term) in search_text(text)


def test_a_needle_is_not_in_other_words() -> None:
    assert needle("yyds") not in search_text("yydsx")
    assert needle("😀") == ""


@given(st.text(max_size=40), st.text(max_size=200))
def test_no_text_breaks_the_search(term: str, text: str) -> None:
    assert find_terms([term], text) in ([], [term])
    assert term_key(term_key(term)) == term_key(term)
    assert occurs(term, f"。{term}。") == bool(term_key(term))
