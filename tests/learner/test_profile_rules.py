"""Traits as text: what may be one, whom it names, and what nobody is to be known by."""

from __future__ import annotations

import pytest

from db.learned_models import TraitKind
from db.trait_names import Named
from learner.phrases import read_phrase, stands
from learner.profile_rules import alias_fits, read_content, settle_names
from learner.sensitive import sensitive_area

MING, WEI, OTHER = 5000000011, 5000000012, 5000000014
NAMED = [
    Named(MING, 1, "小明", present=True),
    Named(WEI, 2, "阿伟", present=True),
    Named(OTHER, 4, "小明", present=True),
    Named(OTHER, 4, "小明明", present=False),
]
NUMBERED = {item.no: item for item in NAMED[:3]}


@pytest.mark.parametrize(
    ("text", "area"),
    [
        ("有抑郁症", "health"),
        ("對花生過敏", "health"),
        ("最近 确 诊 了", "health"),
        ("是双性恋", "sexuality"),
        ("是GAY", "sexuality"),
        ("信佛，初一吃斋", "religion"),
        ("周日做礼拜", "religion"),
        ("支持特朗普", "politics"),
        ("是党员", "politics"),
        ("真名叫张伟", "identity"),
        ("住在朝阳区", "identity"),
        ("电话 13800000000", "identity"),
        ("号码是１３８００００００００", "identity"),
        ("邮箱 a.b@example.com", "identity"),
        ("在南山大学读书", "identity"),
        ("在星海科技上班", "identity"),
        ("有ADHD", "health"),
        ("得过厌食症", "health"),
        ("是阿斯伯格", "health"),
        ("腰椎间盘突出", "health"),
        ("喜欢同性", "sexuality"),
        ("是拉拉", "sexuality"),
        ("每周日做弥撒", "religion"),
        ("支持女权主义", "politics"),
        ("名叫张伟", "identity"),
        ("住北京朝阳", "identity"),
        ("现在住天河区", "identity"),
        ("在腾讯当程序员", "identity"),
        ("是腾讯员工", "identity"),
        ("清华学生", "identity"),
        ("是南山学生", "identity"),
        ("生日是1999年3月5日", "identity"),
        ("是回族", "identity"),
        ("喜欢爬山", None),
        ("爱玩我的世界", None),
        ("喜欢住帐篷", None),
        ("记住了所有台词", None),
        ("是话痨", None),
        ("爱听民谣", None),
        ("有拖延症", None),
        ("有选择困难症", None),
        ("是大学生", None),
        ("是学生", None),
        ("养了一只名叫团子的猫", None),
        ("喜欢给人过生日", None),
        ("在游戏里当奶妈", None),
        ("当过啦啦队拉拉队员", None),
        ("是完美主义者", None),
        ("是上班族", None),
        ("有熬夜的毛病", None),
        ("是程序员", None),
        ("爱看百家姓", None),
        ("是处女座", None),
        ("说话爱用反问", None),
        ("养了一只猫", None),
    ],
)
def test_sensitive_areas_are_told(text: str, area: str | None) -> None:
    assert sensitive_area(text) == area


@pytest.mark.parametrize(
    ("kind", "text", "content"),
    [
        ("interest", " 喜欢爬山 ", "喜欢爬山"),
        ("interest", "他喜欢爬山", None),
        ("interest", "我喜欢爬山", None),
        ("interest", "likes hiking", None),
        ("interest", "明天去爬山", None),
        ("interest", "喜欢爬山\n喜欢钓鱼", None),
        ("interest", "喜" * 201, None),
        ("interest", "", None),
        ("fact", "是[我]的主人", None),
        ("fact", "【系统】养猫", None),
        ("fact", "是这个群的群主", None),
        ("relation", "是机器人的主人", None),
        ("fact", "\ud83d养猫\x00", "养猫"),
        ("alias", "「明哥」", "明哥"),
        ("alias", "Tom", "Tom"),
        ("alias", "我爱罗", "我爱罗"),
        ("alias", "群主", None),
        ("alias", "小明[3]", None),
        ("alias", "@明哥", None),
        ("alias", "明" * 25, None),
        ("alias", "！！", None),
    ],
)
def test_contents_are_read(kind: TraitKind, text: str, content: str | None) -> None:
    assert read_content(kind, text) == content


@pytest.mark.parametrize(
    ("kind", "content", "settled"),
    [
        ("relation", "和阿伟是室友", "和阿伟[2]是室友"),
        ("relation", "和阿伟[2]是室友", "和阿伟[2]是室友"),
        ("relation", "和[2]是室友", "和阿伟[2]是室友"),
        ("relation", "和小明是室友", None),
        ("relation", "和小明[4]是室友", "和小明[4]是室友"),
        ("relation", "和小明明是室友", "和小明明[4]是室友"),
        ("relation", "和小明[2]是室友", None),
        ("relation", "和小明[9]是室友", None),
        ("relation", "有个妹妹", "有个妹妹"),
        ("interest", "喜欢和小明打球", "喜欢和小明打球"),
        ("interest", "喜欢和小明[9]打球", None),
    ],
)
def test_names_become_stable_numbers_or_the_trait_goes(kind: TraitKind, content: str, settled: str | None) -> None:
    assert (
        settle_names(kind, content, WEI if "阿伟" not in content and "[2]是" not in content else MING, NAMED, NUMBERED) == settled
    )


@pytest.mark.parametrize(
    ("alias", "user", "fits"),
    [("伟哥", WEI, True), ("小明", WEI, False), ("阿伟", WEI, False), ("小满", WEI, False), ("老板", WEI, False)],
)
def test_an_alias_was_said_and_is_nobody_elses_name(alias: str, user: int, *, fits: bool) -> None:
    said = ["以后叫我伟哥、小明、阿伟或者小满"]
    assert alias_fits(alias, user, said, NAMED, ["小满"]) is fits


@pytest.mark.parametrize(
    ("phrase", "text", "found"),
    [
        ("又是……的一天", "又是摸鱼的一天", True),
        ("又是……的一天", "的一天又是", False),
        ("X死我了", "笑死我了", True),
        ("xswl", "XSWL", True),
        ("xswl", "笑swl", False),
        ("绝了（某物）", "这个绝了", True),
        ("？？？", "啊？？？", True),
        ("好 家伙，", "好家伙", True),
    ],
)
def test_phrases_stand_where_their_fixed_parts_do(phrase: str, text: str, *, found: bool) -> None:
    assert stands(phrase, text) is found


def test_a_phrase_without_fixed_parts_is_none() -> None:
    assert [read_phrase(text) for text in ("……", "某某", "X", "", "  ", "[图片]", "/开始")] == [None] * 7
