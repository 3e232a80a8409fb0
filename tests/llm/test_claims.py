"""What a claim must look like, and what it is told where it does not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from db.memory_models import CONTENT_CHARS
from llm.memory.claims import ClaimUnfit, read_claim


@pytest.mark.parametrize(
    "text",
    [
        "小明养了一只叫年糕的橘猫",
        "小明不吃香菜；火锅要清汤",
        "小明 2026-05-20 搬到海边",
        "群里每周六下午两点桌游",
        "其他群也在用这个群规",
        "小明最喜欢的电影是《你的名字》",
        "小明最爱的歌是《后来的我们》",
        "小明的口头禅是“我裂开了”",
        "阿伟管小明叫「我的他」",
        "小明的网名叫今麦郎",
        "小明天天迟到",
        "小明以前天天迟到",
        "李明年初搬到海边",
        "小明会弹吉他，是利他主义者",
        "小明爱玩我的世界和明日方舟",
        "小明在今日头条上班",
        "小明的近视是后天性的",
        "小明相当时髦，登上月球是梦想",
        "小明入职三年后年底有分红",
    ],
)
def test_a_claim_that_stands_alone_is_kept_as_it_is(text: str) -> None:
    assert read_claim(text) == text


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("  小明养猫\n", "小明养猫"),
        ("小明\t养  猫", "小明 养 猫"),
        ("小明\x00养\u200b猫", "小明 养 猫"),
        ("\n\n小明养猫\n \n", "小明养猫"),
        ("小明\ud83d养猫", "小明 养猫"),
    ],
)
def test_a_claim_is_cleaned_to_one_line(text: str, cleaned: str) -> None:
    assert read_claim(text) == cleaned


@pytest.mark.parametrize(
    "word", ["他", "她", "它", "他们", "对方", "刚才", "这个人", "那件事", "上述", "该成员", "当时", "如上所述", "前面说的"]
)
def test_a_word_that_leans_on_what_was_said_is_refused(word: str) -> None:
    with pytest.raises(ClaimUnfit, match="离开上下文就看不懂"):
        read_claim(f"{word}让小明很开心")


@pytest.mark.parametrize("text", ["我养猫", "你答应带牌", "我们每周六桌游"])
def test_a_speaker_who_is_not_named_is_refused(text: str) -> None:
    with pytest.raises(ClaimUnfit, match="以后分不清是谁"):
        read_claim(text)


@pytest.mark.parametrize(
    "word",
    [
        *("今天", "昨晚", "昨夜", "明天", "前天", "大前天", "后天", "这几天", "上周三", "上上周", "本周末", "上个星期"),
        *("下个月", "这个月", "上月", "本月", "今年", "明年", "前年"),
    ],
)
def test_a_day_that_moves_is_refused(word: str) -> None:
    with pytest.raises(ClaimUnfit, match="写出日期"):
        read_claim(f"老王{word}要去海边")


def test_about_itself_the_bot_may_say_i_and_nothing_else() -> None:
    assert read_claim("我负责带牌", about_bot=True) == "我负责带牌"
    with pytest.raises(ClaimUnfit):
        read_claim("我们负责带牌", about_bot=True)
    with pytest.raises(ClaimUnfit):
        read_claim("你负责带牌", about_bot=True)


def test_a_claim_that_is_all_quote_is_read_like_any_other() -> None:
    with pytest.raises(ClaimUnfit, match="离开上下文"):
        read_claim("“他喜欢猫”")


@pytest.mark.parametrize("text", ["", "  ", "\n\t\n", "\x00", "\u200b", "。。。", "🐱"])
def test_an_empty_claim_is_refused(text: str) -> None:
    with pytest.raises(ClaimUnfit, match="空的"):
        read_claim(text)


@pytest.mark.parametrize("text", ["小明养猫\n小明养狗", "小明养猫。小明养狗。小明养鱼", "小明养猫！小明养狗？小明养鱼；小明养龟"])
def test_a_list_of_claims_is_refused(text: str) -> None:
    with pytest.raises(ClaimUnfit, match="一次只记一件事"):
        read_claim(text)


def test_two_sentences_are_one_claim() -> None:
    assert read_claim("小明养猫。猫叫年糕。") == "小明养猫。猫叫年糕。"


def test_a_claim_has_at_most_five_hundred_characters() -> None:
    assert read_claim("猫" * CONTENT_CHARS) == "猫" * CONTENT_CHARS
    with pytest.raises(ClaimUnfit, match="最多 500 字"):
        read_claim("猫" * (CONTENT_CHARS + 1))


def test_a_pronoun_is_seen_where_no_word_list_knows_it() -> None:
    for text in ("他养了一只猫", "小明爱她养的猫", "小明和他住", "小明养了它"):
        with pytest.raises(ClaimUnfit, match="离开上下文"):
            read_claim(text)


@given(st.text(max_size=600))
def test_any_text_is_kept_or_refused_and_what_is_kept_is_kept_again(text: str) -> None:
    try:
        claim = read_claim(text)
    except ClaimUnfit:
        return
    assert 1 <= len(claim) <= CONTENT_CHARS
    assert read_claim(claim) == claim
    claim.encode()
