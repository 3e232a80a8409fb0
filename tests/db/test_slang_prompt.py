"""Which slang enters a prompt, and what a lookup finds."""

from __future__ import annotations

import pytest

from db.pool import Database
from tests.db.slang_world import SlangWorld


@pytest.fixture
async def world(database: Database) -> SlangWorld:
    """A group."""
    return await SlangWorld.create(database)


async def approved(world: SlangWorld, term: str, meaning: str = "某个意思", **fields: object) -> None:
    """An approved term that a person vouches for."""
    await world.put(term, meaning, status="approved", locked=True, **fields)


async def test_an_approved_term_enters_the_prompt_where_it_stands(world: SlangWorld) -> None:
    await approved(world, "开黑")
    assert await world.prompted("今晚开黑吗") == ["开黑"]
    assert await world.prompted("今晚开会吗") == []


@pytest.mark.parametrize("status", ["candidate", "rejected"])
async def test_candidates_and_rejected_terms_never_do(world: SlangWorld, status: str) -> None:
    pos = await world.hear("今晚开黑")
    await world.put("开黑", "一起打游戏", pos, status=status, locked=True)
    assert await world.prompted("今晚开黑吗") == []
    assert await world.looked_up("开黑") == []


async def test_a_latin_term_is_found_as_a_word_only(world: SlangWorld) -> None:
    await approved(world, "yyds")
    assert await world.prompted("他yyds啊") == ["yyds"]
    assert await world.prompted("yydsx 和 xyyds") == []


async def test_a_term_inside_a_longer_approved_one_is_left_out(world: SlangWorld) -> None:
    await approved(world, "开黑")
    await approved(world, "开黑店")
    assert await world.prompted("去开黑店") == ["开黑店"]
    assert await world.prompted("去开黑店开黑") == ["开黑店", "开黑"]


async def test_a_longer_candidate_hides_nothing(world: SlangWorld) -> None:
    await approved(world, "开黑")
    await world.put("开黑店", "网吧")
    assert await world.prompted("去开黑店") == ["开黑"]


async def test_other_spellings_find_the_term_once(world: SlangWorld) -> None:
    row = await world.put("yyds", "最厉害", status="approved", locked=True)
    await world.spell(row, "永远的神")
    assert await world.prompted("他是永远的神") == ["yyds"]
    assert await world.prompted("yyds 永远的神 YYDS") == ["yyds"]
    assert await world.looked_up("永遠的神") == ["yyds"]


async def test_at_most_ten_terms_the_longest_first_then_the_rarest(world: SlangWorld) -> None:
    terms = [f"词{letter}" for letter in "甲乙丙丁戊己庚辛壬癸子丑"]
    for term in terms:
        await approved(world, term)
    await world.hear("词丑")
    await approved(world, "特别长的词")
    shown = await world.prompted("、".join([*terms, "特别长的词"]))
    assert len(shown) == 10
    assert shown[0] == "特别长的词"


async def test_of_equal_length_the_rarer_term_is_first(world: SlangWorld) -> None:
    await world.talk("开黑", "开黑", "上分")
    await approved(world, "开黑")
    await approved(world, "上分")
    assert await world.prompted("开黑上分") == ["上分", "开黑"]


async def test_an_unlocked_term_needs_standing_evidence(world: SlangWorld) -> None:
    first, second = await world.talk("今晚开黑", "开黑开黑")
    row = await world.put("开黑", "一起打游戏", first, second, status="approved", decided_by="api")
    assert await world.prompted("开黑") == ["开黑"]
    await world.withdraw(first)
    assert await world.prompted("开黑") == ["开黑"]
    await world.withdraw(second)
    assert await world.prompted("开黑") == []
    assert await world.looked_up("开黑") == []
    left = await world.there(row)
    assert (left.status, left.meaning, left.evidence, left.occurrences) == ("approved", "", 0, 0)


async def test_a_term_without_a_meaning_is_not_shown(world: SlangWorld) -> None:
    await approved(world, "开黑", "")
    assert await world.prompted("开黑") == []


async def test_slang_stays_in_its_group(world: SlangWorld) -> None:
    await approved(world, "开黑")
    other = await SlangWorld.create(world.database, 5700000002)
    assert await other.prompted("开黑") == []
    assert await other.looked_up("开黑") == []


async def test_a_lookup_finds_the_term_itself_before_parts(world: SlangWorld) -> None:
    for term in ("开黑店", "黑", "开黑", "上分"):
        await approved(world, term)
    assert await world.looked_up("開黑") == ["开黑", "开黑店", "黑"]
    assert await world.looked_up("分") == ["上分"]


@pytest.mark.parametrize("term", ["", " ", "%", "\x00", "\ud800", "'; DROP TABLE slang; --", "好" * 5000])
async def test_a_strange_question_finds_nothing(world: SlangWorld, term: str) -> None:
    await approved(world, "开黑")
    assert await world.looked_up(term) == []
    assert await world.prompted(term) == []
