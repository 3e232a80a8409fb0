"""Meanings are inferred again from fresh uses when a term was said 3, 8, 25 and 100 times, and never over a person's words."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from db import slang_findings, slang_review, unlearned
from db.learned_models import SlangId
from db.models import Json, JsonObject
from db.pool import Database
from db.slang_review import Edit
from learner.slang import SlangTask
from learner.transcript import instructions
from llm.errors import ModelError
from settings import Settings
from tests.db.memory_world import MING, ROBOT, WEI
from tests.db.slang_world import SlangWorld
from tests.learner.batch_world import Asking, answers, asking, batch_of, infer, store
from tests.llm.conftest import Opener
from tests.llm.fake_service import failure, says

TASK = "slang_meaning"


@pytest.fixture
async def world(database: Database) -> SlangWorld:
    """A group."""
    return await SlangWorld.create(database)


@pytest.fixture
async def asked(open_models: Opener) -> AsyncGenerator[Asking]:
    """Models that find nothing new in batches."""
    async with asking(open_models) as made:
        made.script("slang_candidates", answers(items=[]))
        yield made


def meaning(text: str, term: str = "开黑", **more: Json) -> JsonObject:
    """One meaning as a model returns it."""
    plain: JsonObject = {"term": term, "meaning": text, "meaning_without_context": "打开黑色", "confidence": 0.7, "change": ""}
    return {**plain, **more}


async def learn(world: SlangWorld, asked: Asking) -> dict[str, int]:
    """Learn the newest message."""
    [(last,)] = await world.rows("SELECT max(pos) FROM messages WHERE conversation_id = %(c)s")
    task = SlangTask(world.database, asked, Settings.model_validate({"data_dir": Path("nowhere")}))
    return await store(world, await infer(task, world, await batch_of(world, "slang", int(str(last)), int(str(last)))))


async def said(world: SlangWorld, row: SlangId, times: int) -> None:
    """The group says the term until it was said so often, and the miner counts."""
    [(before,)] = await world.rows("SELECT occurrences FROM slang WHERE id = %(id)s", id=row)
    await world.talk(*["今晚开黑"] * (times - int(str(before))))
    await world.rows("UPDATE slang SET occurrences = %(times)s WHERE id = %(id)s RETURNING id", times=times, id=row)


async def test_a_meaning_is_inferred_at_four_thresholds_and_between_them_not(world: SlangWorld, asked: Asking) -> None:
    row = await world.put("开黑", "一起打游戏", await world.hear("今晚开黑"))
    asked.script(TASK, answers(items=[meaning("一起打游戏")]))
    called: list[int] = []
    for times in (2, 3, 4, 7, 8, 9, 24, 25, 26, 99, 100, 130):
        await said(world, row, times)
        before = len(asked.asked(TASK))
        await learn(world, asked)
        if len(asked.asked(TASK)) > before:
            called.append(times)
    assert called == [3, 8, 25, 100]
    assert (await world.there(row)).inferred_at == 100


async def test_thresholds_that_were_jumped_over_are_one_inference(world: SlangWorld, asked: Asking) -> None:
    row = await world.put("开黑", "一起打游戏", await world.hear("今晚开黑"))
    await said(world, row, 30)
    asked.script(TASK, answers(items=[meaning("组队打游戏")]))
    assert await learn(world, asked) == {"slang_meanings": 1}
    assert await learn(world, asked) == {}
    assert len(asked.asked(TASK)) == 1


async def test_a_new_meaning_is_written_with_the_difference_and_its_sources(world: SlangWorld, asked: Asking) -> None:
    first = await world.hear("今晚开黑")
    row = await world.put("开黑", "打开黑屏", first)
    await said(world, row, 3)
    asked.script(TASK, answers(items=[meaning("一起打游戏", change="不是黑屏，是组队")]))
    assert await learn(world, asked) == {"slang_meanings": 1}
    left = await world.there(row)
    assert (left.meaning, left.meaning_plain, left.confidence, left.inferred_at, left.version) == (
        "一起打游戏", "打开黑色", 0.7, 3, 2,
    )  # fmt: skip
    history = await world.rows(
        "SELECT occurrences, meaning, change, source, cardinality(sources) FROM slang_meanings ORDER BY id"
    )
    assert history == [(1, "打开黑屏", "", "model", 1), (3, "一起打游戏", "不是黑屏，是组队", "model", 3)]


async def test_the_same_meaning_is_no_difference_whatever_the_model_says(world: SlangWorld, asked: Asking) -> None:
    row = await world.put("开黑", "一起打游戏", await world.hear("今晚开黑"))
    await said(world, row, 3)
    asked.script(TASK, answers(items=[meaning("一起打游戏。", change="变了很多")]))
    await learn(world, asked)
    assert await world.rows("SELECT change FROM slang_meanings ORDER BY id DESC LIMIT 1") == [("",)]


async def test_the_model_sees_fresh_uses_with_their_neighbours(world: SlangWorld, asked: Asking) -> None:
    await world.hear("很久以前开黑")
    row = await world.put("开黑", "一起打游戏", 1)
    await world.spell(row, "kaihei")
    for number in range(5):
        await world.talk(f"前{number}", f"KAIHEI 第{number}次", f"后{number}", "kaiheix 不算")
    await world.rows("UPDATE slang SET occurrences = 6 WHERE id = %(id)s RETURNING id", id=row)
    asked.script(TASK, answers(items=[]))
    await learn(world, asked)
    [question] = asked.asked(TASK)
    lines = question.splitlines()
    assert lines[:3] == ["词：开黑", "原来的理解：一起打游戏", "用法："]
    hits = [line for line in lines[3:] if line.startswith("#")]
    assert [line.rpartition(": ")[2] for line in hits] == [f"KAIHEI 第{number}次" for number in range(1, 5)]
    around = [line.strip().rpartition(": ")[2] for line in lines[3:] if line.startswith("  #")]
    assert "前1" in around
    assert "后4" in around
    assert "很久以前开黑" not in question
    assert len(set(lines)) == len(lines)


async def test_uses_by_bots_and_by_members_who_may_not_be_learned_from_are_left_out(world: SlangWorld, asked: Asking) -> None:
    row = await world.put("开黑", "一起打游戏", await world.hear("大家开黑", MING))
    for user in (ROBOT, WEI, MING, WEI, ROBOT, MING):
        await world.hear("今晚开黑", user)
    async with world.database.connection() as conn:
        await unlearned.set(conn, world.conversation, WEI)
    asked.script(TASK, answers(items=[]))
    await learn(world, asked)
    [question] = asked.asked(TASK)
    assert [line[:2] for line in question.splitlines() if line.startswith("#")] == ["#1", "#4", "#7"]
    assert (await world.there(row)).occurrences == 3


async def test_several_due_terms_are_one_call_and_their_number_is_bounded(world: SlangWorld, asked: Asking) -> None:
    names = [f"梗{letter}" for letter in "甲乙丙丁戊己庚辛壬癸"]
    for name in names:
        await world.talk(f"{name}啊", f"{name}了")
        await world.put(name, "某个意思", await world.hear(f"{name}呢"))
    asked.script(TASK, answers(items=[meaning("新的意思", name) for name in names]))
    assert await learn(world, asked) == {"slang_meanings": 8}
    assert await learn(world, asked) == {"slang_meanings": 2}
    assert len(asked.asked(TASK)) == 2


async def test_what_no_model_confirmed_is_not_asked_about(world: SlangWorld, asked: Asking) -> None:
    row = await world.put("开黑", "", await world.hear("今晚开黑"), source="miner")
    await said(world, row, 8)
    assert await learn(world, asked) == {}
    assert asked.asked(TASK) == []


async def test_a_term_that_is_confirmed_with_many_uses_is_inferred_at_once(world: SlangWorld, asked: Asking) -> None:
    row = await world.put("开黑", "", await world.hear("今晚开黑"), source="miner")
    await said(world, row, 8)
    confirmed: JsonObject = {
        "term": "开黑",
        "meaning": "打游戏",
        "meaning_without_context": "",
        "confidence": 0.9,
        "evidence": [8],
    }
    asked.script("slang_candidates", answers(items=[confirmed]))
    asked.script(TASK, answers(items=[meaning("组队打游戏")]))
    assert await learn(world, asked) == {"slang_meanings": 2}
    assert "原来的理解：打游戏" in asked.asked(TASK)[0]
    assert await world.meanings(row) == ["打游戏", "组队打游戏"]
    assert (await world.there(row)).meaning == "组队打游戏"


async def test_a_new_term_with_many_uses_is_inferred_at_once(world: SlangWorld, asked: Asking) -> None:
    await world.talk(*["今晚开黑"] * 3)
    new: JsonObject = {"term": "开黑", "meaning": "打游戏", "meaning_without_context": "", "confidence": 0.9, "evidence": [3]}
    asked.script("slang_candidates", answers(items=[new]))
    asked.script(TASK, answers(items=[meaning("组队打游戏")]))
    assert await learn(world, asked) == {"slang": 1, "slang_meanings": 2}
    row = await world.by_term("开黑")
    assert row is not None
    assert (row.meaning, row.inferred_at, row.occurrences) == ("组队打游戏", 3, 3)


async def test_what_is_counted_is_fresh_when_a_batch_is_stored(world: SlangWorld, asked: Asking) -> None:
    approved = await world.put("上分", "打排位", status="approved", locked=True)
    await world.talk("上分", "去上分", "上分吗")
    await learn(world, asked)
    row = await world.there(approved)
    assert (row.occurrences, row.speakers, row.days, row.version) == (3, 3, 1, 1)


async def test_an_edited_meaning_survives_four_inferences(world: SlangWorld, asked: Asking) -> None:
    row = await world.put("开黑", "打开黑屏", await world.hear("今晚开黑"))
    async with world.database.transaction() as conn:
        await slang_review.edit(conn, row, Edit(1, meaning="群主写的意思"), actor="api")
    asked.script(TASK, answers(items=[meaning("模型的意思")]))
    for times in (3, 8, 25, 100):
        await said(world, row, times)
        await learn(world, asked)
    left = await world.there(row)
    assert (left.meaning, left.status, left.locked, left.version) == ("群主写的意思", "candidate", True, 2)
    assert await world.meanings(row) == ["打开黑屏", "群主写的意思"]
    assert asked.asked(TASK) == []


async def test_an_edit_while_the_model_thinks_wins(world: SlangWorld, asked: Asking) -> None:
    row = await world.put("开黑", "打开黑屏", await world.hear("今晚开黑"))
    await said(world, row, 3)
    asked.script(TASK, answers(items=[meaning("模型的意思")]))

    async def edited(task: str) -> None:
        if task == TASK:
            async with world.database.transaction() as conn:
                await slang_review.edit(conn, row, Edit(1, meaning="群主写的意思"), actor="api")

    asked.meanwhile = edited
    assert await learn(world, asked) == {}
    assert (await world.there(row)).meaning == "群主写的意思"


@pytest.mark.parametrize("fields", [{"status": "approved", "decided_by": "api"}, {"status": "rejected"}])
async def test_what_a_person_decided_is_not_inferred_again(world: SlangWorld, asked: Asking, fields: dict[str, str]) -> None:
    row = await world.put("开黑", "一起打游戏", await world.hear("今晚开黑"), status=fields["status"], decided_by="api")
    await said(world, row, 8)
    assert await learn(world, asked) == {}
    assert asked.asked(TASK) == []


async def test_a_source_that_is_withdrawn_while_the_model_thinks_leaves_the_term_due(world: SlangWorld, asked: Asking) -> None:
    row = await world.put("开黑", "一起打游戏", await world.hear("今晚开黑"))
    await said(world, row, 4)
    asked.script(TASK, answers(items=[meaning("新的意思")]))

    async def withdrawn(task: str) -> None:
        if task == TASK and asked.meanwhile is not None:
            asked.meanwhile = None
            await world.withdraw(3)

    asked.meanwhile = withdrawn
    assert await learn(world, asked) == {}
    assert (await world.there(row)).meaning == "一起打游戏"
    assert await learn(world, asked) == {"slang_meanings": 1}


async def test_a_withdrawn_source_empties_the_meaning_and_makes_it_due_again(world: SlangWorld, asked: Asking) -> None:
    row = await world.put("开黑", "打开黑屏", await world.hear("今晚开黑"))
    await said(world, row, 4)
    asked.script(TASK, answers(items=[meaning("一起打游戏")]), answers(items=[meaning("组队")]))
    await learn(world, asked)
    await world.withdraw(4)
    left = await world.there(row)
    assert (left.meaning, left.inferred_at, left.occurrences) == ("", 0, 3)
    assert await learn(world, asked) == {"slang_meanings": 1}
    assert (await world.there(row)).meaning == "组队"
    assert "原来的理解：（还没有）" in asked.asked(TASK)[1]


async def test_a_meaning_stands_also_on_what_the_one_before_it_stood_on(world: SlangWorld, asked: Asking) -> None:
    row = await world.put("开黑", "打开黑屏", await world.hear("开黑就是打开黑屏"))
    await said(world, row, 12)
    asked.script(TASK, answers(items=[meaning("打开黑屏玩")]))
    await learn(world, asked)
    assert "#1 " not in asked.asked(TASK)[0]
    async with world.database.connection() as conn:
        await slang_findings.support(conn, [(row, await world.row(9))])
    await world.withdraw(1)
    assert (await world.there(row)).meaning == ""
    assert await world.meanings(row) == []


async def test_a_model_that_invents_terms_or_answers_in_english_changes_nothing(world: SlangWorld, asked: Asking) -> None:
    row = await world.put("开黑", "一起打游戏", await world.hear("今晚开黑"))
    await said(world, row, 3)
    asked.script(TASK, answers(items=[meaning("别的意思", "上分"), meaning("to play together"), meaning("")]))
    assert await learn(world, asked) == {}
    left = await world.there(row)
    assert (left.meaning, left.inferred_at) == ("一起打游戏", 3)
    assert await world.by_term("上分") is None


async def test_an_unusable_answer_costs_neither_the_batch_nor_a_call_each_time(world: SlangWorld, asked: Asking) -> None:
    row = await world.put("开黑", "一起打游戏", await world.hear("今晚开黑"))
    await said(world, row, 3)
    asked.script(TASK, says("不知道"))
    assert await learn(world, asked) == {}
    assert await learn(world, asked) == {}
    assert len(asked.asked(TASK)) == 2
    assert (await world.there(row)).inferred_at == 3


async def test_a_service_that_is_away_leaves_the_term_due(world: SlangWorld, asked: Asking) -> None:
    row = await world.put("开黑", "一起打游戏", await world.hear("今晚开黑"))
    await said(world, row, 3)
    asked.script(TASK, failure(400, "不行"))
    assert await learn(world, asked) == {}
    assert (await world.there(row)).inferred_at == 0
    asked.script("slang_candidates", failure(400, "不行"))
    with pytest.raises(ModelError):
        await learn(world, asked)


def test_the_instructions_are_short_and_chinese() -> None:
    for task in ("slang_candidates", TASK):
        assert 100 < len(instructions(task)) < 500
