"""The rules of the miner, each alone: what may be a term, what counts, what belongs together."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from learner.mining.common import is_ordinary, is_person, is_plain_token
from learner.mining.counts import Table, count
from learner.mining.mine import Mined, count_uses, mine
from learner.mining.names import name_keys
from learner.mining.score import Elsewhere, Features, cohesion, freedom, is_habit, worth
from learner.mining.surface import surface
from learner.mining.text import Said, originals, read_messages, read_runs
from learner.mining.variants import group, initials, shortened

FRAMES = (
    "今晚{}吗",
    "{}！",
    "这把{}了",
    "又{}",
    "他是真的{}啊",
    "{}，走了",
    "说好的{}呢",
    "你们{}不叫我",
    "{}谁懂",
    "刚醒就{}",
)


def talk(*texts: str, people: int = 4) -> list[Said]:
    """So many people say texts in turn, on a new day after every three."""
    return [Said(number, 5000000011 + number % people, 9_000 + number // 3, text) for number, text in enumerate(texts)]


def framed(term: str, times: int = 10) -> list[str]:
    """A term in other words each time."""
    return [FRAMES[number % len(FRAMES)].format(term) for number in range(times)]


def terms(*texts: str, people: int = 4, names: frozenset[str] = frozenset()) -> dict[str, Mined]:
    """What is mined, by term and by other spellings."""
    return {key: item for item in mine(talk(*texts, people=people), names=names) for key in (item.term, *item.variants)}


@pytest.mark.parametrize("term", ["绝绝子", "yyds", "u1s1", "芭比q", "2333", "尊嘟假嘟", "666", "牛b"])
def test_every_form_of_term_is_found(term: str) -> None:
    assert term in terms(*framed(term))


@pytest.mark.parametrize("written", ["YYDS", "ｙｙｄｓ", "Yyds"])
def test_width_and_case_are_one_term(written: str) -> None:
    assert terms(*framed("yyds", 4), *framed(written, 4))["yyds"].uses == 8


def test_drawn_out_and_doubled_spellings_are_variants() -> None:
    found = terms(*framed("2333", 8), *framed("233333", 4))
    assert found["2333"].variants == ("233333",)
    assert (shortened("66666"), shortened("awslawsl"), shortened("2333"), shortened("1212")) == ("666", "awsl", "2333", "12")


def test_initials_and_their_phrase_are_one_term() -> None:
    found = terms(*framed("yyds", 10), *framed("永远的神", 6))
    assert found["永远的神"] is found["yyds"]
    assert found["yyds"].term == "yyds"


def test_initials_are_those_of_a_known_term_that_nobody_says_now() -> None:
    [found] = [item for item in mine(talk(*framed("yyds")), known=["永远的神"]) if item.term == "yyds"]
    assert found.variants == ("永远的神",)


def test_initials_are_of_chinese_only() -> None:
    assert (initials("永远的神"), initials("芭比q"), initials("")) == ("yyds", "", "")


def test_a_spelling_stays_alone_without_a_phrase() -> None:
    assert group({"yyds": 0.9}, {"yyds": 5}, ["今天天气"]) == {"yyds": "yyds"}


@pytest.mark.parametrize("name", ["糖糖鱼", "豆花侠"])
def test_names_and_their_parts_are_no_terms(name: str) -> None:
    keys = name_keys([f"{name}·减肥第3天", "三"])
    assert name in keys
    assert "三" not in keys
    assert name not in terms(*framed(name), names=keys)
    assert name in terms(*framed(name))


def test_what_holds_a_name_or_is_a_piece_of_one_is_no_term() -> None:
    assert terms(*framed("豆花侠来了"), names=frozenset({"豆花侠"})) == {}
    assert not {"张伟", "伟强", "张伟强"} & set(terms(*framed("张伟强")))


def test_a_person_is_told_by_surname_and_form() -> None:
    assert is_person("张伟强")
    assert not is_person("绝绝子")
    assert not is_person("欧皇")


@pytest.mark.parametrize(
    "text", ["/抽签 鸽王局", "!鸽王局", "#鸽王局", "https://example.com/鸽王局", "@鸽王局", "[鸽王局]", "v2.3.1", "😀😀", ""]
)
def test_commands_links_mentions_faces_versions_and_emoji_are_not_read(text: str) -> None:
    assert [unit for run in read_runs(text) for unit in run if unit != " "] == []


def test_punctuation_and_spaces_part_runs() -> None:
    assert read_runs("火锅，yyds 走") == (("火锅",), ("yyds",), ("走",))


@pytest.mark.parametrize(
    "token", ["5kg", "2024", "15", "1080p", "a", "3f9a0c41d2", "hhhh", "haha", "abcdefghijklmnopqrst", "200"]
)
def test_sizes_years_numbers_hashes_and_laughs_are_no_tokens(token: str) -> None:
    assert is_plain_token(token) or is_ordinary(token)


@pytest.mark.parametrize("token", ["yyds", "666", "2333", "u1s1", "xswl", "996"])
def test_slang_tokens_are_not_plain(token: str) -> None:
    assert not is_plain_token(token)


@pytest.mark.parametrize("text", ["火锅", "觉得", "ok", "wifi", "哈哈哈哈", "不错不错"])
def test_common_vocabulary_is_no_term(text: str) -> None:
    assert is_ordinary(text)


def test_a_number_that_counts_is_no_term() -> None:
    assert "250" not in terms(*(text for n in range(8) for text in (f"这个{n}250块", "才250元啊", "卖250块")))
    assert "250" in terms(*framed("250"))


def test_a_rare_number_with_different_digits_is_no_term() -> None:
    assert "175" not in terms("我175", "他175吧", "175！", "身高175")


def test_copied_texts_do_not_count() -> None:
    copied = "转发这条锦鲤好运符三天之内必有好事发生"
    assert terms(*[copied] * 20, people=20) == {}
    assert len(originals(talk(*[f"{copied}第{number}次" for number in range(20)]))) == 0


def test_an_echo_counts_once() -> None:
    assert len(originals(talk("这把我来打你们都别动", "这把我来打你们都别动", "好的收到明白没问题"))) == 2


def test_a_cry_counts_once_a_person_and_day() -> None:
    same_day = [Said(number, 5000000011 + number % 2, 9_000, "yyds") for number in range(10)]
    assert len(originals(same_day)) == 2


def test_a_habit_of_one_person_is_no_term() -> None:
    assert terms(*framed("捏哈捏哈"), people=1) == {}
    said = [Said(n, 5000000011 if n % 10 else 5000000012, 9_000 + n, text) for n, text in enumerate(framed("捏哈捏哈", 30))]
    assert [item.term for item in mine(said) if "捏哈" in item.term] == []


def test_of_a_term_and_its_piece_the_term_is_kept() -> None:
    found = terms(*framed("尊嘟假嘟", 12))
    assert "尊嘟假嘟" in found
    assert not {"尊嘟", "假嘟", "嘟假", "嘟假嘟", "尊嘟假"} & set(found)


def test_a_neighbour_is_not_part_of_a_term() -> None:
    found = terms(*framed("夺笋", 20), "夺笋警告", "夺笋警告吗", "又夺笋警告", "夺笋警告！")
    assert "夺笋" in found
    assert "夺笋警告" not in found


def test_a_message_counts_once_however_often_it_says_it() -> None:
    assert terms(*framed("yyds", 6), "yyds yyds yyds，真yyds")["yyds"].uses == 7


def test_too_few_uses_are_no_term() -> None:
    assert terms("今晚夺笋吗", "夺笋！") == {}


def test_evidence_is_the_newest_messages() -> None:
    found = terms(*framed("夺笋", 20))
    assert found["夺笋"].messages == tuple(range(19, 9, -1))


def test_a_term_of_other_groups_too_counts_less() -> None:
    said = talk(*framed("夺笋", 10), *(f"聊点别的{n}" for n in range(50)))
    uses = count_uses(framed("夺笋", 10))
    [own] = [item for item in mine(said, elsewhere=Elsewhere(50, {})) if item.term == "夺笋"]
    shared = [item.score for item in mine(said, elsewhere=Elsewhere(50, uses)) if item.term == "夺笋"]
    assert all(score < own.score for score in shared)
    assert Elsewhere(50, {"夺笋": 5}, {"夺笋": 3}).used("夺笋") == 2


def table_of(*texts: str) -> Table:
    return count(read_messages(talk(*texts)))


def test_cohesion_is_one_where_parts_only_meet() -> None:
    table = table_of(*framed("夺笋", 10), *(f"聊点别的{n}" for n in range(9)))
    assert cohesion(("夺", "笋"), table) == pytest.approx(1.0)
    assert cohesion(("夺",), table) == 0.0
    loose = table_of(*framed("夺笋", 10), *framed("夺", 10), *framed("笋", 10))
    assert cohesion(("夺", "笋"), loose) < 0.6


def test_freedom_is_the_entropy_of_neighbours() -> None:
    seen = table_of(*framed("夺笋", 10)).seen["夺笋"]
    assert freedom(seen.left) > 0.8
    tied = table_of(*(f"太夺笋啦{n}" for n in range(5))).seen["夺笋"]
    assert freedom(tied.left) == 0.0


def test_a_habit_is_a_share_of_uses() -> None:
    said = table_of(*framed("夺笋", 12)).seen["夺笋"]
    assert not is_habit(said.speakers)
    said.speakers[5000000011] += 100
    assert is_habit(said.speakers)


def test_more_of_a_good_sign_is_a_higher_score() -> None:
    plain = Features(*([0.5] * len(Features._fields)))
    for name in ("cohesion", "freedom", "uses", "keyness", "spread", "days", "novelty", "burst"):
        assert worth(plain._replace(**{name: 1.0})) > worth(plain)
    for name in ("shared", "loose", "number"):
        assert worth(plain._replace(**{name: 1.0})) < worth(plain)


def test_a_term_is_shown_as_people_write_it() -> None:
    assert surface("芭比q", ["芭比Q了", "芭比Ｑ！", "芭比q"]) == "芭比Q"
    assert surface("夺笋", ["夺笋"]) == "夺笋"
    assert surface("yyds", []) == "yyds"


@pytest.mark.parametrize(
    "text", ["鸽" * 5_000, "a" * 5_000, "😀" * 2_000, "\ud800\udfff夺笋", "\u202e夺\u200b笋", "\x00", "1" * 5_000]
)
def test_hostile_messages_are_only_messages(text: str) -> None:
    found = mine(talk(*[text] * 6, *framed("夺笋")))
    assert "夺笋" in [item.term for item in found]
    assert all(len(item.term) <= 20 for item in found)


@given(st.lists(st.text(max_size=30), max_size=30))
@settings(max_examples=40, deadline=None)
def test_no_talk_breaks_the_miner(texts: list[str]) -> None:
    for item in mine(talk(*texts, *texts, *texts)):
        assert 0 < item.score <= 1
        assert len(item.term) >= 2
        assert item.messages
