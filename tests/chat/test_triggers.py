"""Who is called: names as words, mentions, replies, and who never calls."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from db.models import ConversationKey
from plugins.chat.hygiene import fold
from plugins.chat.records import Incoming, Part, Sender
from plugins.chat.triggers import Call, NameMatcher, classify

CALLS = """
小八，几点了 | 你问问小八 | @小八 在吗 | 谢谢小八啦 | 小八 | 小八！ | 小八你好 | 小八在吗 | 小八几点了 | 好的小八 | 小八小八
小八🎲 | 「小八」 | 小八666 | sb小八 | [斜眼笑]小八 | 问小八 | 请小八回答 | 让小八来 | 小八和阿伟谁厉害 | 小八怎么不说话
小八帮我查一下 | 大家好我是小八 | 小八能不能别睡了 | 小八唱首歌 | 小八今天天气怎么样 | 小八晚安 | 小八说八卦 | 小八卦之前先问小八
小八吃了吗 | 小八，八点叫我 | 小八真可爱 | 小八是谁
"""
TALK = """
小八卦来了 | 他的昵称叫小八卦 | 小八卦来了：老王昨天输光了 | 小八月见 | 小八成 | 小八哥鸟 | 小八路军 | 大小八卦 | 不小八成
小八字 | 最小八位数 | 大小八十个 | 他小八岁 | 小八度 | 今晚八点 | 小 八 | 小九，几点了 | 一小八婆 | 小八股文 | 没人叫你
"""


def sentences(table: str) -> list[str]:
    return [said.strip() for line in table.splitlines() for said in line.split("|") if said.strip()]


@pytest.fixture(scope="module")
def eight() -> NameMatcher:
    return NameMatcher(["小八"])


@pytest.mark.parametrize("said", sentences(CALLS))
def test_the_name_as_a_word_is_a_call(eight: NameMatcher, said: str) -> None:
    assert eight.called_in(said)


@pytest.mark.parametrize("said", sentences(TALK))
def test_the_name_inside_another_word_is_no_call(eight: NameMatcher, said: str) -> None:
    assert not eight.called_in(said)


@pytest.mark.parametrize(
    ("name", "calls", "talk"),
    [
        ("小满", "小满在吗 | 小满满意吗 | 今天小满 | 小满，来", "小满意了 | 有点小满意 | 小满足 | 大小满减"),
        ("豆包", "豆包在吗 | 问豆包", "红豆包子铺"),
        ("可可", "可可在吗 | 可可，来", "巧克力可可粉"),
        ("机器人", "机器人出来 | 机器人，在吗", "机器人学导论"),
        ("Mia", "mia你好 | ＭＩＡ在吗 | hi mia! | 问问Mia | Mia's here | @mia", "miami | mmia | mia2 | mia_x | 米娅"),
        ("Ｍｉａ", "mia你好", "miami"),
        ("八", "八，在吗 | @八 | 你好 八", "八点了 | 小八 | 第八"),
        ("猫", "猫，来 | @猫 在吗", "我家猫好可爱 | 猫在睡觉"),
        ("Little  Eight", "little eight 在吗 | LITTLE   EIGHT", "little eights | littleeight"),
        ("小八bot", "小八BOT在吗 | 叫小八bot来", "小八bots | 小八"),
        ("ハチ", "ハチ、おはよう | ハチ", "ハチミツ"),
    ],
)
def test_names_of_every_kind(name: str, calls: str, talk: str) -> None:
    matcher = NameMatcher([name])
    assert [said for said in sentences(calls) if not matcher.called_in(said)] == []
    assert [said for said in sentences(talk) if matcher.called_in(said)] == []


def test_names_that_are_nothing_call_nobody() -> None:
    matcher = NameMatcher(["", "  ", "，", "\u3164", "\u200b"])
    for said in ("", "， 好", "\u3164", "随便说说"):
        assert not matcher.called_in(said)


def test_one_of_several_names_is_enough() -> None:
    matcher = NameMatcher(["小八", "八八", "小八"])
    assert matcher.called_in("八八在吗")
    assert not matcher.called_in("小九在吗")


def test_a_call_far_into_a_long_text_is_found() -> None:
    matcher = NameMatcher(["小八"])
    assert matcher.called_in("小八卦" * 10 + "说来话长。" * 3000 + "小八，在吗")
    assert not matcher.called_in("小八卦" * 6000)
    assert not matcher.called_in("啊" * 30_000 + "小八")


@given(st.text(st.sampled_from("小八卦满 ，mia@2\n🎲"), max_size=30), st.text(max_size=6))
def test_any_text_and_any_name_can_be_matched(said: str, name: str) -> None:
    matcher = NameMatcher([name, "小八"])
    if matcher.called_in(said):
        assert "小八" in said or fold(name.strip()) in fold(said)


# Calls

ME, TWO, ALICE = 5200000001, 5200000002, 5200000011
GROUP = ConversationKey("group", 5800000001)
NAMES = NameMatcher(["小八"])


def incoming(*parts: Part, sender: Sender | None = None) -> Incoming:
    return Incoming(
        account_id=ME,
        conversation=GROUP,
        message_id=1,
        real_seq=1,
        sender=sender or Sender(ALICE),
        is_self=False,
        at=datetime(2026, 11, 30, tzinfo=UTC),
        parts=parts,
    )


def at(user_id: int) -> Part:
    return Part("at", user_id=user_id)


def call(record: Incoming, text: str = "", quoted: int | None = None, ignored: frozenset[int] = frozenset()) -> Call | None:
    own = frozenset({ME, TWO})
    return classify(record, own_accounts=own, quoted_author=quoted, ignored=ignored, names=NAMES, text=text)


def test_a_mention_anywhere_is_a_mention() -> None:
    assert call(incoming(Part("text", "在吗 "), at(ALICE), at(ME))) == Call("mention", ME)


def test_a_mention_goes_to_the_account_that_was_named() -> None:
    assert call(incoming(at(TWO))) == Call("mention", TWO)
    assert call(incoming(at(TWO), at(ME))) == Call("mention", ME)


def test_mentions_of_others_of_all_and_of_nobody_are_no_calls() -> None:
    assert call(incoming(at(ALICE), Part("at_all", "@全体成员"), at(0), Part("poke", "[戳一戳]"))) is None


def test_a_mention_beats_a_reply_and_a_reply_beats_a_name() -> None:
    assert call(incoming(at(ME)), text="小八在吗", quoted=TWO) == Call("mention", ME)
    assert call(incoming(), text="小八在吗", quoted=TWO) == Call("reply", TWO)
    assert call(incoming(), text="小八在吗", quoted=ALICE) == Call("name", ME)
    assert call(incoming(), text="随便", quoted=ALICE) is None


def test_the_name_counts_only_in_what_was_said() -> None:
    assert call(incoming(Part("forward", "[聊天记录 1条: 阿青: 小八在吗]"))) is None


def test_a_friend_always_means_us() -> None:
    private = replace(incoming(Part("text", "嗯")), conversation=ConversationKey("private", ALICE))
    assert call(private) == Call("mention", ME)
    assert call(replace(private, temporary=True)) is None
    assert call(replace(private, is_self=True)) is None


@pytest.mark.parametrize(
    "sender",
    [Sender(ME), Sender(TWO), Sender(5200000080, is_robot=True), Sender(80000000, anonymous=True), Sender(5200000099)],
    ids=["ourselves", "our second account", "robot", "anonymous", "ignored"],
)
def test_some_never_call(sender: Sender) -> None:
    record = incoming(at(ME), sender=sender)
    assert call(record, text="小八在吗", quoted=ME, ignored=frozenset({5200000099})) is None


def test_an_own_echo_never_calls() -> None:
    assert call(replace(incoming(at(ME)), is_self=True), text="小八") is None
