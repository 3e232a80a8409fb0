"""Recall on a real database: filters, fusion, order, and legs that fail."""

from __future__ import annotations

import logging
from datetime import UTC, datetime

import pytest

from db import fusion
from db.fusion import Place, fuse
from db.memory_models import BOT, GROUP, Ask, Scope, Vector, Wish
from db.pool import Database, DatabaseUnavailable
from db.recall import ASKS, nearest, recall
from tests.db.recall_world import HONG, JIE, MING, Memories, memories_in, towards


@pytest.fixture
async def memories(database: Database) -> Memories:
    return await memories_in(database)


async def test_what_both_legs_find_comes_before_what_one_ranks_first(memories: Memories) -> None:
    await memories.add("火锅")
    await memories.add("周末去爬山", vector=towards(0))
    both = await memories.add("大家约好周五晚上一起去吃火锅", vector=towards(5))
    found = await memories.find(Ask("火锅", towards(0)), wish=Wish(5, prior=False))
    assert [(one.memory.id, one.text_rank, one.vector_rank) for one in found] == [(both, 2, 2), (1, 1, None), (2, None, 1)]


def test_fusion_adds_reciprocal_ranks_over_legs_and_questions() -> None:
    fused = fuse([Place(7, 1), Place(8, 2), Place(7, 3)], [Place(8, 1), Place(9, 1)])
    by_row = {one.row: one for one in fused}
    assert by_row[7].score == pytest.approx(fusion.TEXT_WEIGHT * (1 / 61 + 1 / 63))
    assert by_row[8].score == pytest.approx(fusion.TEXT_WEIGHT / 62 + fusion.VECTOR_WEIGHT / 61)
    assert (by_row[7].text_rank, by_row[7].vector_rank) == (1, None)
    assert (by_row[8].text_rank, by_row[8].vector_rank) == (2, 1)
    assert fuse([], []) == []


def test_a_row_that_stands_out_passes_one_that_is_only_placed_the_same() -> None:
    words = [Place(1, 1, strength=0.9), Place(2, 2, strength=0.3), Place(3, 3, strength=0.2)]
    meaning = [Place(2, 1, strength=0.86), Place(1, 2, strength=0.85), Place(3, 3, strength=0.80)]
    assert [one.row for one in fuse(words, meaning)] == [1, 2, 3]
    plain = [Place(place.row, place.rank) for place in words], [Place(place.row, place.rank) for place in meaning]
    assert [one.row for one in fuse(*plain)] == [2, 1, 3]


def test_a_keyword_that_few_rows_hold_is_not_left_to_the_vectors() -> None:
    words = [Place(1, 1, strength=0.75), Place(2, 2, strength=0.7)]
    meaning = [Place(100 + no, no, strength=0.9 - no / 1000) for no in range(1, fusion.PER_LEG + 1)]
    assert [one.row for one in fuse(words, meaning)][:3] == [1, 2, 101]


def test_strengths_of_different_questions_are_not_compared() -> None:
    apart = fuse([Place(1, 1, ask=0, strength=0.9)], [Place(2, 1, ask=1, strength=0.8)])
    assert {one.score for one in apart} == {1 / 61}


def test_what_stands_out_more_in_both_legs_comes_first() -> None:
    text = [Place(1, 1, 0, 0.9), Place(2, 2, 0, 0.85), Place(3, 3, 0, 0.2), Place(4, 4, 0, 0.2)]
    vector = [Place(2, 1, 0, 0.9), Place(1, 2, 0, 0.5), Place(3, 3, 0, 0.45), Place(4, 4, 0, 0.4)]
    assert [one.row for one in fuse(text, vector)] == [2, 1, 3, 4]
    mirrored = [Place(place.row, place.rank, 0, strength) for place, strength in zip(vector, (0.9, 0.88, 0.45, 0.4), strict=True)]
    clear = [Place(place.row, place.rank, 0, strength) for place, strength in zip(text, (0.9, 0.4, 0.2, 0.2), strict=True)]
    assert [one.row for one in fuse(clear, mirrored)] == [1, 2, 3, 4]


def test_a_row_that_one_leg_lacks_stands_there_as_its_last() -> None:
    fused = fuse([Place(1, 1, 0, 0.9), Place(2, 2, 0, 0.1)], [Place(3, 1, 0, 0.9), Place(2, 2, 0, 0.1)])
    assert {one.row for one in fused} == {1, 2, 3}
    assert fuse([Place(1, 1, 0, 0.9)], [Place(1, 1, 1, 0.9)])[0].score == pytest.approx(2 / 61)


def test_ties_of_fusion_go_to_the_newer_row() -> None:
    assert [one.row for one in fuse([Place(3, 1), Place(5, 1), Place(4, 1)], [])] == [5, 4, 3]


async def test_several_questions_are_asked_at_once(memories: Memories) -> None:
    for content in ("阿杰怕辣", "小红弹钢琴", "胖虎养猫"):
        await memories.add(content)
    assert set(await memories.texts("谁会弹钢琴", "养猫")) == {"小红弹钢琴", "胖虎养猫"}


async def test_more_questions_than_the_bound_are_left_out(memories: Memories) -> None:
    await memories.add("小红弹钢琴")
    assert await memories.texts(*["爬山"] * ASKS, "钢琴") == []


async def test_no_question_and_no_conversation_find_nothing(memories: Memories) -> None:
    await memories.add("小红弹钢琴")
    assert await memories.texts() == []
    assert await memories.texts("钢琴", scope=Scope(())) == []


async def test_nothing_crosses_conversations_unless_they_are_linked(memories: Memories) -> None:
    other = await memories.another(5700000002)
    here = await memories.add("小红弹钢琴", vector=towards(10))
    there = await memories.add("小红弹钢琴", conversation=other, vector=towards(0))
    ask = Ask("钢琴", towards(0))
    assert [one.memory.id for one in await memories.find(ask)] == [here]
    linked = await memories.find(ask, scope=Scope((memories.conversation, other)))
    assert [one.memory.id for one in linked] == [there, here]


@pytest.mark.parametrize("vector", [None, towards(0)])
async def test_filters_work_in_both_legs(memories: Memories, vector: Vector | None) -> None:
    text = "" if vector else "钢琴"
    about = {
        subject: await memories.add(f"钢琴 {number}", subject, vector=towards(number))
        for number, subject in enumerate((MING, JIE, GROUP, BOT))
    }
    goal = await memories.add("钢琴要考级", MING, kind="goal", vector=towards(5))
    old = await memories.add("钢琴 旧", MING, status="archived", vector=towards(6))

    async def ids(scope: Scope) -> set[int]:
        return {one.memory.id for one in await memories.find(Ask(text, vector), scope=scope)}

    assert await ids(memories.scope(MING)) == {about[MING], goal}
    assert await ids(memories.scope(JIE, GROUP)) == {about[JIE], about[GROUP]}
    assert await ids(memories.scope(BOT)) == {about[BOT]}
    assert await ids(memories.scope(kinds=("goal",))) == {goal}
    assert await ids(memories.scope(MING, kinds=("fact", "event"))) == {about[MING]}
    assert await ids(memories.scope(statuses=("archived",))) == {old}
    assert await ids(memories.scope(MING, statuses=("active", "archived"))) == {about[MING], goal, old}
    assert await ids(Scope((memories.conversation,), subjects=())) == set()


@pytest.mark.parametrize("vector", [None, towards(0)])
async def test_a_filtered_search_returns_as_many_rows_as_exist(memories: Memories, vector: Vector | None) -> None:
    for number in range(200):
        await memories.add(f"钢琴曲目{number}", HONG, vector=towards(number / 10))
    for number in range(10):
        await memories.add(f"钢琴课程{number}", MING, kind="goal", vector=towards(170 - number))
    ask = Ask("" if vector else "钢琴", vector)
    assert len(await memories.find(ask, scope=memories.scope(MING))) == 10
    assert len(await memories.find(ask, scope=memories.scope(kinds=("goal",)))) == 10


async def test_vectors_of_another_space_are_not_compared(memories: Memories) -> None:
    await memories.add("小红弹钢琴", vector=towards(0, space_id=2))
    mine = await memories.add("胖虎养猫", vector=towards(120))
    await memories.add("还没有向量")
    assert [one.memory.id for one in await memories.find(Ask("", towards(0)))] == [mine]


async def test_the_nearest_vector_comes_first(memories: Memories) -> None:
    ids = [await memories.add(f"第{degrees}", vector=towards(degrees)) for degrees in (80, 20, 50)]
    found = await memories.find(Ask("", towards(10)), wish=Wish(10, prior=False))
    assert [one.memory.id for one in found] == [ids[1], ids[2], ids[0]]
    assert [one.vector_rank for one in found] == [1, 2, 3]
    assert {one.text_rank for one in found} == {None}


async def test_pages_follow_each_other(memories: Memories) -> None:
    for number in range(90):
        await memories.add(f"钢琴{number}", vector=towards(number))
    ask = Ask("钢琴", towards(0))
    first = await memories.find(ask, wish=Wish(10, prior=False))
    second = await memories.find(ask, wish=Wish(10, offset=10, prior=False))
    assert len({one.memory.id for one in first + second}) == 20
    assert len(await memories.find(ask, wish=Wish(20, offset=70, prior=False))) == 20


async def test_every_present_member_gets_one_before_anybody_gets_a_second(memories: Memories) -> None:
    for number in range(50):
        await memories.add(f"小明的钢琴曲{number}", MING, vector=towards(number / 10))
    far = await memories.add("阿杰怕辣", JIE, vector=towards(150))
    wish = Wish(4, each_first=(MING.user_id, JIE.user_id, HONG.user_id))
    found = await memories.find(Ask("钢琴曲", towards(0)), wish=wish)
    assert [one.memory.subject for one in found] == [MING, JIE, MING, MING]
    assert found[1].memory.id == far
    assert [one.memory.subject for one in await memories.find(Ask("钢琴曲", towards(0)), wish=Wish(4))] == [MING] * 4


async def test_who_is_not_present_does_not_go_first(memories: Memories) -> None:
    for number in range(3):
        await memories.add(f"钢琴曲目{number}", MING)
    await memories.add("钢琴和许许多多别的东西都在客厅里放着", JIE)
    found = await memories.find("钢琴曲", wish=Wish(4, each_first=(MING.user_id,)))
    assert [one.memory.subject for one in found] == [MING, MING, MING, JIE]


async def test_freshness_moves_neighbours(memories: Memories) -> None:
    new = await memories.add("钢琴", MING)
    old = await memories.add("钢琴", JIE, days=400)
    assert [one.memory.id for one in await memories.find("钢琴")] == [new, old]
    assert [one.memory.id for one in await memories.find("钢琴", wish=Wish(5, prior=False))] == [old, new]


async def test_use_moves_neighbours(memories: Memories) -> None:
    used = await memories.add("钢琴", MING, uses=60)
    fresh = await memories.add("钢琴", JIE)
    assert [one.memory.id for one in await memories.find("钢琴")] == [used, fresh]
    assert [one.memory.id for one in await memories.find("钢琴", wish=Wish(5, prior=False))] == [fresh, used]


async def test_freshness_and_use_do_not_overturn_what_both_legs_found(memories: Memories) -> None:
    both = await memories.add("钢琴", MING, days=4000, vector=towards(0))
    await memories.add("爬山", JIE, uses=5000, vector=towards(1))
    assert (await memories.find(Ask("钢琴", towards(0))))[0].memory.id == both


async def test_the_score_says_what_the_prior_added(memories: Memories) -> None:
    await memories.add("钢琴", uses=10_000)
    [plain] = await memories.find("钢琴", wish=Wish(1, prior=False))
    [rated] = await memories.find("钢琴")
    assert plain.score == pytest.approx(1 / 61)
    assert rated.score == pytest.approx(1.05 / 61, rel=1e-3)


async def test_memories_from_the_future_and_from_long_ago_are_rated(memories: Memories) -> None:
    await memories.add("钢琴", MING, days=-4000)
    await memories.add("钢琴", JIE, days=400_000)
    assert len(await memories.find("钢琴")) == 2


async def test_the_whole_memory_comes_back(memories: Memories) -> None:
    memory_id = await memories.add("钢琴", MING, kind="goal", uses=3)
    [found] = await memories.find("钢琴")
    memory = found.memory
    assert (memory.id, memory.subject, memory.kind, memory.content, memory.uses) == (memory_id, MING, "goal", "钢琴", 3)
    assert (memory.status, memory.source, memory.locked, memory.version) == ("active", "import", False, 1)
    assert memory.created_at.tzinfo is not None
    assert abs((datetime.now(UTC) - memory.created_at).total_seconds()) < 3600


async def test_the_text_leg_works_alone_when_the_vector_leg_fails(memories: Memories, caplog: pytest.LogCaptureFixture) -> None:
    await memories.add("小红弹钢琴", vector=towards(0))
    wrong = Vector(1, (1.0, 0.0))  # two dimensions among four: the statement fails
    with caplog.at_level(logging.WARNING, "db.legs"):
        [found] = await memories.find(Ask("钢琴", wrong))
    assert (found.text_rank, found.vector_rank) == (1, None)
    assert "向量" in caplog.text


async def test_the_vector_leg_works_alone_when_the_text_leg_fails(memories: Memories, caplog: pytest.LogCaptureFixture) -> None:
    await memories.add("小红弹钢琴", vector=towards(0))
    async with memories.database.connection() as conn:
        await conn.execute("ALTER TABLE search_terms RENAME TO lost")
    with caplog.at_level(logging.WARNING, "db.legs"):
        [found] = await memories.find(Ask("钢琴", towards(0)))
    assert (found.text_rank, found.vector_rank) == (None, 1)
    assert "文字" in caplog.text
    assert await memories.find("钢琴") == []


async def test_a_connection_serves_again_after_its_leg_failed(memories: Memories) -> None:
    await memories.add("小红弹钢琴", vector=towards(0))
    for _ in range(15):
        await memories.find(Ask("钢琴", Vector(1, (1.0, 0.0))))
    [found] = await memories.find(Ask("钢琴", towards(0)))
    assert (found.text_rank, found.vector_rank) == (1, 1)


async def test_a_database_that_is_away_is_told(memories: Memories) -> None:
    away = Database("postgresql://127.0.0.1:1/none")
    with pytest.raises(DatabaseUnavailable):
        await recall(away, [Ask("钢琴", towards(0))], memories.scope(), Wish(5))


async def test_the_settings_of_a_leg_end_with_it(memories: Memories) -> None:
    await memories.add("小红弹钢琴", vector=towards(0))
    single = Database(memories.database._url, max_size=1)  # pyright: ignore[reportPrivateUsage]
    await single.open()
    try:
        await recall(single, [Ask("钢琴", towards(0))], memories.scope(), Wish(5))
        async with single.connection() as conn:
            rows = await (
                await conn.execute("SELECT current_setting('statement_timeout'), current_setting('plan_cache_mode')")
            ).fetchall()
    finally:
        await single.close()
    assert rows == [("30s", "auto")]


async def test_what_is_most_like_a_claim_is_told_with_both_measures(memories: Memories) -> None:
    same = await memories.add("小明喜欢吃火锅", MING, vector=towards(0))
    near = await memories.add("小明喜欢吃麻辣火锅和烧烤", MING, vector=towards(60))
    await memories.add("小明喜欢吃火锅", JIE, vector=towards(0))
    bare = await memories.add("小明爱吃火锅", MING)
    found = await nearest(memories.database, Ask("小明喜欢吃火锅。", towards(0)), memories.scope(MING))
    by_id = {one.memory.id: one for one in found}
    assert found[0].memory.id == same
    assert set(by_id) == {same, near, bare}
    assert by_id[same].similarity == pytest.approx(1)
    assert by_id[same].cosine == pytest.approx(1, abs=1e-3)
    assert by_id[near].cosine == pytest.approx(0.5, abs=1e-2)
    assert by_id[near].similarity > 0.5
    assert by_id[bare].cosine is None


async def test_a_short_claim_inside_a_longer_one_is_alike(memories: Memories) -> None:
    await memories.add("小明怕猫", MING)
    [found] = await nearest(memories.database, Ask("小明怕猫，也怕狗"), memories.scope(MING))
    assert found.similarity == pytest.approx(1, abs=0.35)
    assert await nearest(memories.database, Ask("！"), memories.scope(MING)) == []


async def test_no_more_than_asked_are_told_as_near(memories: Memories) -> None:
    for number in range(9):
        await memories.add(f"小明养了{number}只猫", MING)
    assert len(await nearest(memories.database, Ask("小明养了猫"), memories.scope(MING))) == 5
    assert len(await nearest(memories.database, Ask("小明养了猫"), memories.scope(MING), limit=2)) == 2
