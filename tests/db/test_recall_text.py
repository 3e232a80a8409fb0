"""The text leg of recall on a real database: what is found by its words."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from db.memory_models import Scope, Subject, Wish
from db.pool import Database
from db.recall_text import MOST_NAMED
from db.search_terms import count_terms
from tests.db.recall_world import HONG, JIE, MING, Memories, memories_in


@pytest.fixture
async def memories(database: Database) -> Memories:
    return await memories_in(database)


SAID = (
    "今天去吃火锅吗，阿杰请客",
    "小明喜欢在雨天写诗",
    "群里说yyds是永远的神",
    "阿杰的电脑装的是 v2.3",
    "生日聚会定在三月五号",
    "小红会写C++，不会写 c#",
    "小红每周五练钢琴",
    "胖虎养了两只猫",
    "胖虎给猫取名叫年糕",
    "周末有人去爬山",
)


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("火锅", "今天去吃火锅吗，阿杰请客"),
        ("火鍋", "今天去吃火锅吗，阿杰请客"),
        ("小明", "小明喜欢在雨天写诗"),
        ("YYDS", "群里说yyds是永远的神"),
        ("ｙｙｄｓ", "群里说yyds是永远的神"),
        ("yydss", "群里说yyds是永远的神"),
        ("v2.3", "阿杰的电脑装的是 v2.3"),
        ("三月五号", "生日聚会定在三月五号"),
        ("c++", "小红会写C++，不会写 c#"),
        ("什么时候练钢琴？", "小红每周五练钢琴"),
        ("年糕", "胖虎给猫取名叫年糕"),
        ("  火锅！！🍲 ", "今天去吃火锅吗，阿杰请客"),
    ],
)
async def test_short_queries_find_words_inside_running_text(memories: Memories, query: str, found: str) -> None:
    for content in SAID:
        await memories.add(content)
    for counted in (False, True):
        if counted:
            async with memories.database.connection() as conn:
                await count_terms(conn)
        assert (await memories.texts(query))[0] == found


async def test_a_letter_is_found_at_the_beginning_the_middle_and_the_end_of_a_run(memories: Memories) -> None:
    for content in ("猫怕水", "胖虎养了两只猫", "胖虎给猫取名叫年糕", "周末有人去爬山", "熊猫，真可爱"):
        await memories.add(content)
    assert sorted(await memories.texts("猫")) == sorted(["猫怕水", "胖虎养了两只猫", "胖虎给猫取名叫年糕", "熊猫，真可爱"])


async def test_a_letter_is_enough_when_many_rows_begin_words_with_it(memories: Memories) -> None:
    for number in range(40):
        await memories.add(f"猫粮买了{number}袋")
    assert len(await memories.texts("猫", wish=Wish(30))) == 30


async def test_rare_words_tell_more_than_common_ones(memories: Memories) -> None:
    for number in range(60):
        await memories.add(f"大家今天晚上在讨论第{number}件事情")
    rare = await memories.add("钢琴比赛")
    async with memories.database.connection() as conn:
        await count_terms(conn)
    assert (await memories.find("大家今天晚上有没有讨论钢琴"))[0].memory.id == rare


async def test_a_text_that_holds_more_of_the_question_comes_first(memories: Memories) -> None:
    await memories.add("小明在杭州读书")
    await memories.add("小明在杭州工作，做测试")
    await memories.add("小红在上海工作")
    assert (await memories.texts("小明现在在杭州做什么工作呢"))[0] == "小明在杭州工作，做测试"


async def test_questions_without_words_find_nothing(memories: Memories) -> None:
    await memories.add("今天去吃火锅")
    for query in ("", "   ", "？！…", "🍲🍲", "\x00", "\ud800"):
        assert await memories.texts(query) == []


HOSTILE = (
    "%",
    "_",
    "100%",
    "火锅%' OR 1=1 --",
    "a_b\\",
    "'\"; DROP TABLE memories;",
    "\x00火锅\ud800",
    "🍲火锅",
    "(火锅|.*)[",
    "火锅" * 5000,
)


@pytest.mark.parametrize("query", HOSTILE)
async def test_hostile_queries_are_text(memories: Memories, query: str) -> None:
    await memories.add("今天去吃火锅")
    await memories.add("毫不相干")
    assert await memories.texts(query) == (["今天去吃火锅"] if "火锅" in query else [])


@given(st.text(st.characters(exclude_categories=()), max_size=60) | st.text("火锅c+#'%_\\ \x00\ud800Aa1.", max_size=20))
@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
async def test_no_query_raises(memories: Memories, query: str) -> None:
    await memories.texts(query)


async def test_content_that_looks_like_a_pattern_is_found_as_text(memories: Memories) -> None:
    await memories.add("折扣是 50%_off\\")
    assert await memories.texts("50 off") == ["折扣是 50%_off\\"]


async def test_a_name_leads_to_what_is_known_about_its_member(memories: Memories) -> None:
    await memories.member(MING, "明明很困", nickname="小明", former=["大明"])
    await memories.member(JIE, "杰")
    about = await memories.add("喜欢在雨天写诗", MING)
    said = await memories.add("小明说他认识的人会写诗", HONG)
    other = await memories.add("每周五练钢琴", JIE)
    for query in ("大明", "明明很困"):
        assert (await memories.find(query))[0].memory.id == about
    assert {found.memory.id for found in await memories.find("小明")} == {about, said}
    assert [found.memory.id for found in await memories.find("杰")] == [other]
    assert (await memories.find("小明平时喜欢做些什么"))[0].memory.id == about


async def test_a_name_of_one_letter_is_not_found_inside_words(memories: Memories) -> None:
    await memories.member(JIE, "杰")
    await memories.add("每周五练钢琴", JIE)
    assert await memories.texts("杰出青年有哪些") == []


async def test_a_name_in_another_conversation_leads_nowhere(memories: Memories) -> None:
    other = await memories.another(5700000002)
    await memories.member(MING, "小明")
    await memories.add("喜欢在雨天写诗", MING, conversation=other)
    assert await memories.texts("小明", scope=Scope((other,))) == []


async def test_not_everybody_whose_name_stands_in_a_question_is_looked_up(memories: Memories) -> None:
    people = [Subject("member", 5000000100 + number) for number in range(MOST_NAMED + 5)]
    for number, person in enumerate(people):
        await memories.member(person, f"甲{number:02}")
        await memories.add("每周五练钢琴", person)
    said = " ".join(f"甲{number:02}" for number in range(len(people)))
    assert len(await memories.find(said, wish=Wish(30))) == MOST_NAMED


async def test_a_misspelled_word_in_a_long_question_is_found(memories: Memories) -> None:
    await memories.add("阿杰用 kubernetes 部署")
    await memories.add("小红每周五练钢琴")
    assert await memories.texts("请问有没有人用过那个 kubernets 部门在吗") == ["阿杰用 kubernetes 部署"]


async def test_ties_go_to_the_newer_row(memories: Memories) -> None:
    first = await memories.add("去吃火锅", MING)
    second = await memories.add("去吃火锅", JIE)
    assert [found.memory.id for found in await memories.find("火锅", wish=Wish(5, prior=False))] == [second, first]


async def test_counting_words_again_replaces_what_was_counted(memories: Memories) -> None:
    for number in range(3):
        await memories.add(f"火锅{number}")
    gone = await memories.add("钢琴", MING), await memories.add("钢琴", JIE)
    async with memories.database.connection() as conn:
        await count_terms(conn)
        counted = dict(await (await conn.execute("SELECT term, df FROM search_terms")).fetchall())
        assert counted["火锅"] == counted["火"] == 3
        assert counted["钢琴"] == 2
        assert "0" not in counted
        await conn.execute("DELETE FROM memories WHERE id = ANY(%(ids)s)", {"ids": list(gone)})
        await count_terms(conn)
        counted = dict(await (await conn.execute("SELECT term, df FROM search_terms")).fetchall())
        documents = await (await conn.execute("SELECT documents FROM search_stats")).fetchall()
    assert "钢琴" not in counted
    assert documents == [(3,)]
