"""What the model wrote becomes what QQ can show: nothing is lost on the way but markup."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from plugins.chat.plaintext import LONGEST, MOST_PARTS, plain, split

PIECES = [*"*_~`#->|[]()!\\<&;= \n1.ab好", "**", "```", "](", "\n\n", "\n- ", "\n1. ", "| a |", "---", "<think>", "</think>"]
MARKDOWN = st.lists(st.sampled_from(PIECES), max_size=40).map("".join)


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("**好**的", "好的"),
        ("# 今晚\n- 火锅\n- 烧烤", "今晚\n· 火锅\n· 烧烤"),
        ("2. 先吃\n3. 再玩", "2. 先吃\n3. 再玩"),
        ("- 吃\n  1. 火锅", "· 吃\n  1. 火锅"),
        ("用 `pip list` 看", "用 pip list 看"),
        ("```python\nprint(1)\n```", "print(1)"),
        ("看 [这里](https://a.example/b)", "看 这里（https://a.example/b）"),
        ("[https://a.example](https://a.example)", "https://a.example"),
        ("| 名 | 分 |\n| --- | --- |\n| 甲 | 1 |", "名 | 分\n甲 | 1"),
        ("> 引用\n\n回答", "引用\n回答"),
        ("~~不去~~去", "不去去"),
        ("<think>要不要说呢</think>\n**好**", "好"),
        ("<THINK>想\n想</THINK>好", "好"),
        ("<reasoning>没有说完", ""),
        ("**[CQ:at,qq=all]**", "[CQ:at,qq=all]"),
    ],
)
def test_markup_is_flattened(written: str, shown: str) -> None:
    assert plain(written) == shown


@pytest.mark.parametrize(
    "words",
    [
        "3*4=12，2*2=4",
        "(｡･ω･｡)_",
        "[CQ:at,qq=all] 大家好",
        "[CQ:image,file=a.png]",
        "@小明 <b>好</b> &amp;",
        "snake_case_name",
        "a < b > c",
        "1.5 倍\n\n\n第二段",
        "#话题# 不是标题",
    ],
)
def test_text_without_markup_is_left_alone(words: str) -> None:
    assert plain(words) == words


@given(st.text(st.characters(exclude_characters="*_~`#[]()|<>+-"), max_size=80))
def test_plain_words_come_back_as_they_are(words: str) -> None:
    assert plain(words) == words.strip()


@given(MARKDOWN)
@example("1. \n2. ")
@example("- \n  - \n```")
@example("|**|\n|-|\n")
def test_no_markdown_raises_or_brings_reasoning_back(words: str) -> None:
    assert not re.search(r"<think>.*</think>", plain(words), re.DOTALL)


@given(st.text(st.sampled_from("好吗。！？，； \n…ab"), max_size=400), st.integers(2, 40), st.integers(1, 6))
def test_parts_are_short_few_and_lose_only_white_space(words: str, longest: int, most: int) -> None:
    parts = split(words, longest, most)
    assert len(parts) <= most
    assert all(0 < len(part) <= longest for part in parts)
    whole, said = "".join(words.split()), "".join("".join(parts).split())
    if said != whole:
        assert len(parts) == most
        assert parts[-1].endswith("…")
        assert whole.startswith(said[:-1])


def test_a_part_ends_at_the_end_of_a_sentence() -> None:
    sentence = "今天的雨下了一整天。"
    parts = split(sentence * 80)
    assert all(part.endswith("。") for part in parts)
    assert "".join(parts) == sentence * 80


def test_words_without_any_end_are_cut_hard_and_the_rest_with_an_ellipsis() -> None:
    parts = split("哈" * (LONGEST * MOST_PARTS + 1))
    assert [len(part) for part in parts] == [LONGEST] * MOST_PARTS
    assert parts[-1].endswith("…")


def test_nothing_makes_no_part() -> None:
    assert split(" \n ") == []
