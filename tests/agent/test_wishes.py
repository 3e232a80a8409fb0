"""Whose words ask to be forgotten, and whose only sound like it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.tools.wishes import Wish, asks_for

NAMES = ("小满",)


@pytest.mark.parametrize(
    ("wish", "text"),
    [
        ("忘记", "忘记我"),
        ("忘记", "小满 忘记我"),
        ("忘记", "小满，忘了我吧！"),
        ("忘记", "@小满 请把我忘掉，谢谢"),
        ("忘记", "删掉我的资料"),
        ("忘记", "把我的记忆全部删掉"),
        ("忘记", "能不能忘记我？"),
        ("忘记", "你可以把我忘了吗"),
        ("忘记", "忘记我好吗？"),
        ("忘记", "我希望你忘了我"),
        ("忘记", "烦死了，请忘记我的一切"),
        ("忘记", "删除关于我的所有记忆"),
        ("别记", "别记我"),
        ("别记", "以后别记我了"),
        ("别记", "不要再记我的事"),
        ("别记", "别记我的话"),
        ("可以记", "可以记我了"),
        ("可以记", "又可以记我了"),
        ("可以记", "继续记我吧"),
    ],
)
def test_a_wish_in_plain_words_is_one(wish: Wish, text: str) -> None:
    assert asks_for(text, wish, NAMES)


@pytest.mark.parametrize(
    ("wish", "text"),
    [
        ("忘记", "你忘记我了吗"),
        ("忘记", "你是不是忘了我"),
        ("忘记", "小满把我忘了"),
        ("忘记", "你忘了我"),
        ("忘记", "都忘了我"),
        ("忘记", "别忘了我"),
        ("忘记", "不要忘记我"),
        ("忘记", "他忘了我"),
        ("忘记", "忘记我的密码了"),
        ("忘记", "忘了我刚才说的"),
        ("忘记", "忘记我的话会怎样"),
        ("忘记", "忘记我的话"),
        ("忘记", "我忘了我是谁"),
        ("忘记", "忘记我？"),
        ("忘记", "老王说忘记我"),
        ("忘记", "忘记他"),
        ("忘记", "忘记老王吧"),
        ("忘记", "别记我"),
        ("别记", "别记我的仇"),
        ("别记", "忘记我"),
        ("别记", "不要忘记我"),
        ("可以记", "不可以记我"),
        ("可以记", "别记我"),
        ("可以记", "今天可以记账了"),
    ],
)
def test_a_report_a_question_or_its_opposite_is_no_wish(wish: Wish, text: str) -> None:
    assert not asks_for(text, wish, NAMES)


@given(st.text(alphabet="忘记我吧了把你别删掉的资料@小满，？ \n可以", max_size=600), st.sampled_from(["忘记", "别记", "可以记"]))
def test_any_text_gets_an_answer(text: str, wish: Wish) -> None:
    assert asks_for(text, wish, NAMES) in (True, False)
