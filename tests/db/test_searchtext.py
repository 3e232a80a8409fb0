"""What the search column holds: pure rules, for any text."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from db.searchtext import KEY_CHARS, QUERY_WORDS, SEARCH_CHARS, content_key, fold, query_words, search_text
from db.simplified import simplified

ANY_TEXT = st.text(st.characters(exclude_categories=()))
"""With lone surrogates, NUL and unassigned characters."""
TRICKY = st.text("火锅麵裏愛々〇カタが한국ᄒㅏabcZ09ßİıſK２ｖ+#.-_~ \u200b\ufe0f\u0301\u3099\u309b\u1161\u11a8ﷺ\ud800\x00🍲\n")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("今天去吃火锅吗", "今天 天去 去吃 吃火 火锅 锅吗"),
        ("火锅", "火锅"),
        ("吃", "吃"),
        ("去，吃；火锅", "去 吃 火锅"),
        ("我用Python写v2.3的 YYDS", "我用 python 写 v2 3 的 yyds"),
        ("三月5号", "三月 5 号"),
        ("小明喜歡麵條和裏脊", "小明 明喜 喜欢 欢面 面条 条和 和里 里脊"),
        ("ＡＢＣ１２３", "abc123"),
        ("C++ 比 C# 和 c 快", "cplusplus 比 csharp 和 c 快"),
        ("c++11 a+b vip+ #nba#", "cplusplus11 a b vipplus nba"),
        ("火\u200b锅 ni\u00adhao", "火锅 nihao"),
        ("がんばれ カラオケ", "がん んば ばれ カラ ラオ オケ"),
        ("ｶﾗｵｹ・バー", "カラ ラオ オケ バー"),
        ("한국에서", "한국 국에 에서"),
        ("时时々", "时时 时々"),
        ("snake_case a-b", "snake case a b"),
        ("！？…🍲 \n", ""),
        ("", ""),
        ("a\x00b\ud800c", "a b c"),
    ],
)
def test_text_becomes_words_that_trigrams_find(text: str, words: str) -> None:
    assert search_text(text) == (f" {words} " if words else "")
    assert query_words(text) == tuple(dict.fromkeys(words.split()))


@given(ANY_TEXT | TRICKY)
def test_a_second_time_changes_nothing(text: str) -> None:
    once = search_text(text)
    assert search_text(once) == once
    assert fold(fold(text)) == fold(text)


@given(ANY_TEXT | TRICKY)
def test_any_text_becomes_one_that_can_be_stored(text: str) -> None:
    for made in (search_text(text), *query_words(text), content_key(text)):
        assert "\x00" not in made
        made.encode()


@given(ANY_TEXT | TRICKY)
def test_words_stand_between_single_spaces_and_hold_no_punctuation(text: str) -> None:
    words = search_text(text)
    assert words == (f" {' '.join(words.split())} " if words else "")
    assert not any(unicodedata.category(char)[0] in "PSZM" for char in words.replace(" ", ""))


def test_long_texts_are_cut_between_words() -> None:
    long = search_text("今天去吃火锅" * 3000)
    assert SEARCH_CHARS - 3 < len(long) <= SEARCH_CHARS
    assert all(len(word) == 2 for word in long.split())
    assert search_text(long) == long
    assert len(search_text("ﷺ" * 100_000)) <= SEARCH_CHARS
    assert search_text("a" * 100_000) == f" {'a' * 64} "


def test_a_question_holds_each_word_once_and_not_too_many() -> None:
    assert query_words("火锅火锅 火锅 吃火锅") == ("火锅", "锅火", "吃火")
    assert len(query_words(" ".join(f"w{number}" for number in range(1000)))) == QUERY_WORDS


def test_traditional_and_simplified_are_one() -> None:
    assert search_text("愛吃麵") == search_text("爱吃面")
    assert simplified("乾隆裡後") == "干隆里后"


def test_simplifying_twice_changes_nothing() -> None:
    everything = "".join(map(chr, [*range(0x3400, 0xA000), *range(0xF900, 0xFB00), *range(0x20000, 0x323B0)]))
    once = simplified(everything)
    assert len(once) == len(everything)
    assert once != everything
    assert simplified(once) == once


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("小明喜欢吃火锅。", "小明 喜歡吃火鍋"),
        ("小明用 Python！", "小明用ｐｙｔｈｏｎ"),
        ("小明（5000000011）怕猫", "小明 5000000011 怕猫～"),
        ("生日是 3 月 5 日", "生日是3月5日"),
    ],
)
def test_texts_that_say_the_same_share_a_key(one: str, other: str) -> None:
    assert content_key(one) == content_key(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("版本是 3.5", "版本是 35"),
        ("最低-5度", "最低5度"),
        ("小明会c++", "小明会c"),
        ("最爱🍲", "最爱🍜"),
        ("🍲", "🍜"),
        ("？", "！"),
        ("小明怕猫", "小明怕狗"),
    ],
)
def test_texts_that_say_something_else_do_not(one: str, other: str) -> None:
    assert content_key(one) != content_key(other)


@given(ANY_TEXT | TRICKY)
def test_keys_are_short_and_not_empty(text: str) -> None:
    key = content_key(text)
    assert len(key) <= KEY_CHARS
    assert key or not fold(text).strip()


def test_long_texts_keep_keys_of_their_own() -> None:
    assert content_key("好" * 500) != content_key("好" * 499)
    assert len(content_key("好" * 500)) == 32
