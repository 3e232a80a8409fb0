"""What is taken out of a reply, and which replies repeat."""

from __future__ import annotations

import pytest

from agent.tools.cleaning import clean_reply, repeats


@pytest.mark.parametrize(
    ("content", "sent"),
    [
        ("好的", "好的"),
        ("<think>想</think>好的", "好的"),
        ("<think>只想没说", ""),
        ("小满[我]: 好的", "好的"),
        ("#12 18:05 小满[我]: 好的", "好的"),
        ("#12 11-30 18:05 小明[3]：好的", "好的"),
        ("#12 好的", "好的"),
        ("小明[3] 说得对", "小明 说得对"),
        ("第一行 ⏎ 第二行", "第一行\n第二行"),
        ("[CQ:at,qq=all] 大家好", "[CQ:at,qq=all] 大家好"),
        ("数组是 a[3]", "数组是 a[3]"),
        ("注意：带冒号的话", "注意：带冒号的话"),
        ("一\x00二\ud800", "一二"),
        (" \n ", ""),
    ],
)
def test_a_reply_is_cleaned(content: str, sent: str) -> None:
    assert clean_reply(content, ["小明[3]"]) == sent


@pytest.mark.parametrize(
    ("text", "repeated"),
    [
        ("今晚七点老地方见", True),
        ("今晚七点，老地方见！", True),
        ("今晚八点换个地方见吧", False),
        ("好", False),
        ("在的在的", False),
    ],
)
def test_a_near_copy_is_a_repeat(text: str, repeated: bool) -> None:
    assert repeats(text, ["今晚七点，老地方见", "好", "在的在的"]) is repeated
