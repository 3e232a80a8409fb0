"""Saving claims: evidence, one row of each claim, five verdicts, and recall."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator

import pytest

from db import memories, unlearned
from db.memory_models import GROUP, MemoryId, Scope, Wish
from db.memory_moderation import Edit, edit
from db.pool import Database
from llm.memory.service import MemoryService
from tests.db.memory_world import ABOUT_MING, ABOUT_WEI, BOT, MING, WEI, MemoryWorld
from tests.llm.conftest import Opener
from tests.llm.embedding_world import ToyBackend, opened
from tests.llm.fake_service import Answer, failure, says
from tests.llm.memory_world import Chosen, Saving, saving, verdict

OLD, NEW, MERGED = "小明养了一只橘猫", "小明养了一只橘猫叫年糕", "小明养了一只叫年糕的橘猫"


@pytest.fixture
async def world(database: Database) -> MemoryWorld:
    """A group."""
    return await MemoryWorld.create(database)


@pytest.fixture
async def judged(world: MemoryWorld, open_models: Opener) -> AsyncGenerator[Saving]:
    """Saving without vectors; the judge says new until a test says otherwise."""
    async with saving(world, open_models, verdict("new", 0)) as opened_saving:
        yield opened_saving


async def links(world: MemoryWorld) -> list[tuple[object, ...]]:
    """All links."""
    return await world.rows("SELECT old_id, new_id, relation FROM memory_links ORDER BY new_id")


async def cat(world: MemoryWorld, *, locked: bool = False) -> MemoryId:
    """The old claim, standing on a message of its own."""
    return await world.remember(OLD, await world.say("我养了一只橘猫"), about=ABOUT_MING, locked=locked)


async def test_a_claim_is_written_with_its_evidence_and_nobody_is_asked(judged: Saving) -> None:
    first, second = await judged.world.say("我养了一只橘猫"), await judged.world.say("它三岁")
    saved = await judged.save(f" {OLD}\n", first, second)
    assert saved.how == "new"
    assert saved.memory is not None
    assert (saved.memory.content, saved.memory.source, saved.memory.locked) == (OLD, "agent", False)
    assert await judged.world.supported_by(saved.memory.id) == [first, second]
    assert judged.service.requests == []
    assert len(judged.written) == 1


async def test_a_claim_without_form_or_evidence_is_refused_and_costs_nothing(world: MemoryWorld, open_models: Opener) -> None:
    weis, own, unshown = await world.say("小明养猫", WEI), await world.say("小明养猫", BOT), await world.say("我养猫")
    async with saving(world, open_models, backend=ToyBackend()) as opened_saving:
        refusals = [
            await opened_saving.save("他养猫", unshown),
            await opened_saving.save(OLD),
            await opened_saving.save(OLD, weis),
            await opened_saving.save(OLD, own),
            await opened_saving.save(OLD, unshown, shown=[weis]),
            await opened_saving.save("群里养猫", own, about=GROUP),
        ]
    assert {(saved.how, saved.memory) for saved in refusals} == {("refused", None)}
    assert all(saved.reason for saved in refusals)
    assert await world.rows("SELECT * FROM memories") == []
    assert (opened_saving.backend.texts, opened_saving.service.requests, opened_saving.written) == ([], [], [])


async def test_who_said_not_to_be_learned_is_not(judged: Saving) -> None:
    pos = await judged.world.say("我养了一只橘猫")
    async with judged.world.database.connection() as conn:
        await unlearned.set(conn, judged.world.conversation, MING)
    saved = await judged.save(OLD, pos)
    assert (saved.how, saved.reason) == ("refused", f"证据不成立：#{pos} 这个人说过别记")
    async with judged.world.database.connection() as conn:
        await unlearned.clear(conn, judged.world.conversation, MING)
    assert (await judged.save(OLD, pos)).how == "new"


async def test_the_same_words_only_add_evidence_without_a_model(judged: Saving) -> None:
    old = await cat(judged.world)
    pos = await judged.world.say("对，我养了一只橘猫")
    saved = await judged.save("小明養了一隻橘貓。", pos, kind="event")
    assert (saved.how, saved.memory and saved.memory.id) == ("same", old)
    assert await judged.world.supported_by(old) == [1, pos]
    assert await judged.world.rows("SELECT content, kind, version FROM memories") == [(OLD, "fact", 1)]
    assert judged.service.requests == []


async def test_the_same_words_about_another_are_another_claim(judged: Saving) -> None:
    await cat(judged.world)
    saved = await judged.save(OLD, await judged.world.say("小明养了一只橘猫", WEI), about=ABOUT_WEI)
    assert saved.how == "new"
    assert judged.service.requests == []


async def test_far_apart_asks_nobody(world: MemoryWorld, open_models: Opener) -> None:
    await world.remember("小明爱喝乌龙茶", about=ABOUT_MING)
    await world.remember("小明住在海边", about=ABOUT_MING)
    async with saving(world, open_models, backend=Chosen({})) as opened_saving:
        saved = await opened_saving.save(OLD, await world.say("我养了一只橘猫"))
    assert saved.how == "new"
    assert opened_saving.service.requests == []


async def test_near_by_words_asks_once_about_at_most_five(judged: Saving) -> None:
    for number in range(8):
        await judged.world.remember(f"小明养了一只橘猫，第 {number} 只", about=ABOUT_MING)
    saved = await judged.save(OLD, await judged.world.say("我养了一只橘猫"))
    assert saved.how == "new"
    [question] = judged.questions()
    lines = question.splitlines()
    assert lines[:2] == [f"新的说法：{OLD}", "旧记忆："]
    assert [line[:2] for line in lines[2:]] == ["1.", "2.", "3.", "4.", "5."]


async def test_near_by_meaning_asks_where_no_word_is_shared(world: MemoryWorld, open_models: Opener) -> None:
    far, near = "阿猫阿狗都怕水", "家里有只咪咪"
    backend = Chosen({OLD: (1.0, 0.0, 0.0, 0.0), near: (0.95, 0.31, 0.0, 0.0), far: (0.5, 0.87, 0.0, 0.0)})
    async with saving(world, open_models, verdict("new", 0), backend=backend) as opened_saving:
        for text in (near, far):
            assert (await opened_saving.save(text, await world.say(text))).how == "new"
        assert opened_saving.questions() == []
        await opened_saving.save(OLD, await world.say("我养了一只橘猫"))
        [question] = opened_saving.questions()
    assert near in question
    assert far not in question


async def test_nobody_is_asked_about_others_other_groups_and_what_is_archived(judged: Saving) -> None:
    other = await MemoryWorld.create(judged.world.database, 5700000002)
    await other.remember(NEW, about=ABOUT_MING)
    await judged.world.remember(NEW, about=ABOUT_WEI)
    await judged.world.remember(NEW, about=GROUP)
    gone = await judged.world.remember(NEW, about=ABOUT_MING)
    async with judged.world.database.connection() as conn:
        await memories.archive(conn, gone, "agent")
    assert (await judged.save(OLD, await judged.world.say("我养了一只橘猫"))).how == "new"
    assert judged.service.requests == []


async def test_what_a_person_archived_is_not_written_again(judged: Saving) -> None:
    old, database = await cat(judged.world), judged.world.database
    async with database.transaction() as conn:
        await edit(conn, old, Edit(status="archived"), actor="api")
    pos = await judged.world.say("我养了一只橘猫")
    saved = await judged.save("小明養了一隻橘貓。", pos, kind="preference")
    assert (saved.how, saved.memory, saved.reason) == ("refused", None, "主人归档过这句话，不再记")
    assert (await judged.save(OLD, await judged.world.say("我养了一只橘猫", WEI), about=ABOUT_WEI)).how == "new"
    async with database.transaction() as conn:
        await edit(conn, old, Edit(status="active"), actor="api")
    assert (await judged.save(OLD, pos)).how == "same"


async def test_a_merged_text_that_a_person_archived_is_not_written_again(judged: Saving) -> None:
    merged = await judged.world.remember(MERGED, about=ABOUT_MING)
    async with judged.world.database.transaction() as conn:
        await edit(conn, merged, Edit(status="archived"), actor="api")
    old = await cat(judged.world)
    judged.service.script([verdict("refines", 1, MERGED)])
    saved = await judged.save(NEW, await judged.world.say("猫叫年糕"))
    assert saved.how == "refused"
    assert await judged.world.states(old) == ["active"]


async def test_what_the_bot_archived_itself_may_be_written_again(judged: Saving) -> None:
    old = await cat(judged.world)
    async with judged.world.database.transaction() as conn:
        await memories.archive(conn, old, "agent")
    assert (await judged.save(OLD, await judged.world.say("我养了一只橘猫"))).how == "new"


async def test_new_stands_beside_the_old(judged: Saving) -> None:
    old = await cat(judged.world)
    saved = await judged.save(NEW, await judged.world.say("猫叫年糕"))
    assert (saved.how, len(judged.service.requests)) == ("new", 1)
    assert saved.memory is not None
    assert await judged.world.states(old, saved.memory.id) == ["active", "active"]
    assert await links(judged.world) == []


async def test_same_adds_the_evidence_to_the_old(judged: Saving) -> None:
    old = await cat(judged.world)
    judged.service.script([verdict("same", 1)])
    pos = await judged.world.say("我有一只橘猫")
    saved = await judged.save(NEW, pos)
    assert (saved.how, saved.memory and saved.memory.content) == ("same", OLD)
    assert await judged.world.supported_by(old) == [1, pos]
    assert await judged.world.rows("SELECT count(*) FROM memories") == [(1,)]


async def test_refines_writes_the_merged_text_and_archives_the_old_with_a_link(judged: Saving) -> None:
    old = await cat(judged.world)
    judged.service.script([verdict("refines", 1, MERGED)])
    pos = await judged.world.say("猫叫年糕")
    saved = await judged.save(NEW, pos)
    assert saved.memory is not None
    assert (saved.how, saved.memory.content) == ("refines", MERGED)
    assert await judged.world.states(old, saved.memory.id) == ["refined", "active"]
    assert await judged.world.rows("SELECT content FROM memories WHERE id = %(id)s", id=old) == [(OLD,)]
    assert await links(judged.world) == [(old, saved.memory.id, "refines")]
    assert await judged.world.supported_by(saved.memory.id) == [pos]


async def test_a_refinement_goes_when_the_words_below_it_are_withdrawn(judged: Saving) -> None:
    old = await cat(judged.world)
    judged.service.script([verdict("refines", 1, MERGED)])
    saved = await judged.save(NEW, await judged.world.say("猫叫年糕"))
    assert saved.memory is not None
    await judged.world.withdraw(1)
    assert await judged.world.states(old, saved.memory.id) == ["withdrawn", "withdrawn"]
    found = await judged.memory.recall(["橘猫"], Scope((judged.world.conversation,)), Wish(6))
    assert found == []


async def test_a_merged_text_without_form_leaves_the_claims_own(judged: Saving) -> None:
    old = await cat(judged.world)
    judged.service.script([verdict("refines", 1, "他养了一只猫")])
    saved = await judged.save(NEW, await judged.world.say("猫叫年糕"))
    assert (saved.how, saved.memory and saved.memory.content) == ("refines", NEW)
    assert await judged.world.states(old) == ["refined"]


async def test_a_merged_text_that_is_the_old_one_only_adds_evidence(judged: Saving) -> None:
    old = await cat(judged.world)
    judged.service.script([verdict("refines", 1, OLD)])
    saved = await judged.save(NEW, await judged.world.say("猫叫年糕"))
    assert (saved.how, saved.memory and saved.memory.id) == ("same", old)
    assert await judged.world.states(old) == ["active"]


async def test_supersedes_archives_the_old_with_a_link(judged: Saving) -> None:
    old = await cat(judged.world)
    judged.service.script([verdict("supersedes", 1)])
    saved = await judged.save(NEW, await judged.world.say("猫叫年糕"))
    assert saved.memory is not None
    assert (saved.how, saved.memory.content) == ("supersedes", NEW)
    assert await judged.world.states(old, saved.memory.id) == ["superseded", "active"]
    assert await links(judged.world) == [(old, saved.memory.id, "supersedes")]


async def test_contradicts_keeps_both_with_a_link(judged: Saving) -> None:
    old = await cat(judged.world)
    judged.service.script([verdict("contradicts", 1)])
    saved = await judged.save(NEW, await judged.world.say("猫叫年糕"))
    assert saved.memory is not None
    assert saved.how == "contradicts"
    assert await judged.world.states(old, saved.memory.id) == ["active", "active"]
    assert await links(judged.world) == [(old, saved.memory.id, "contradicts")]


@pytest.mark.parametrize(
    ("relation", "how", "linked"),
    [("same", "same", []), ("refines", "same", []), ("supersedes", "contradicts", ["contradicts"])],
)
async def test_what_a_person_locked_is_kept(judged: Saving, relation: str, how: str, linked: list[str]) -> None:
    old = await cat(judged.world, locked=True)
    judged.service.script([verdict(relation, 1, MERGED if relation == "refines" else "")])
    pos = await judged.world.say("猫叫年糕")
    saved = await judged.save(NEW, pos)
    assert saved.how == how
    memory = await judged.world.memory(old)
    assert memory is not None
    assert (memory.content, memory.status, memory.locked, memory.version) == (OLD, "active", True, 1)
    assert [row[2] for row in await links(judged.world)] == linked
    assert await judged.world.supported_by(old) == ([1, pos] if how == "same" else [1])


@pytest.mark.parametrize("answer", [failure(503, "no"), failure(401, "bad key"), says("我不知道"), says('{"relation": "x"}')])
async def test_a_judge_that_does_not_judge_leaves_the_claim_new(
    world: MemoryWorld, open_models: Opener, caplog: pytest.LogCaptureFixture, answer: Answer
) -> None:
    old = await cat(world)
    caplog.set_level(logging.INFO, "llm.memory")
    async with saving(world, open_models, answer) as opened_saving:
        saved = await opened_saving.save(NEW, await world.say("猫叫年糕"))
    assert saved.how == "new"
    assert await world.states(old) == ["active"]
    assert any("当作新的记下" in record.getMessage() for record in caplog.records)


async def test_the_demo_model_judges_nothing(world: MemoryWorld, open_models: Opener) -> None:
    await cat(world)
    async with open_models(None) as models, saving(world, open_models) as opened_saving:
        opened_saving.models.models = models
        saved = await opened_saving.save(NEW, await world.say("猫叫年糕"))
    assert saved.how == "new"


async def test_without_budget_nobody_is_asked_and_the_claim_is_new(judged: Saving) -> None:
    await cat(judged.world)
    saved = await judged.save(NEW, await judged.world.say("猫叫年糕"), daily_limit=0)
    assert saved.how == "new"
    assert judged.service.requests == []


async def test_a_claim_has_its_vector_at_once_and_a_merged_text_waits_for_its_own(
    world: MemoryWorld, open_models: Opener
) -> None:
    await cat(world)
    async with saving(world, open_models, verdict("refines", 1, MERGED), backend=ToyBackend()) as opened_saving:
        await opened_saving.save("小明爱喝乌龙茶", await world.say("我爱喝乌龙茶"))
        await opened_saving.save(NEW, await world.say("猫叫年糕"))
    found = await world.rows("SELECT content, embedding IS NOT NULL FROM memories WHERE status = 'active' ORDER BY id")
    assert found == [("小明爱喝乌龙茶", True), (MERGED, False)]
    assert ("passage", [NEW]) in opened_saving.backend.runs


async def test_a_dead_embedding_costs_the_vector_only(world: MemoryWorld, open_models: Opener) -> None:
    old = await cat(world)
    backend = ToyBackend()
    backend.away = "没人"
    async with saving(world, open_models, verdict("supersedes", 1), backend=backend) as opened_saving:
        saved = await opened_saving.save(NEW, await world.say("猫叫年糕"))
    assert saved.how == "supersedes"
    assert await world.states(old) == ["superseded"]
    assert await world.rows("SELECT embedding FROM memories WHERE status = 'active'") == [(None,)]


async def test_recall_finds_by_words_and_by_meaning(world: MemoryWorld, open_models: Opener) -> None:
    backend = Chosen({OLD: (1.0, 0.0, 0.0, 0.0), "宠物": (0.9, 0.4, 0.0, 0.0), "小明住在海边": (0.0, 0.0, 1.0, 0.0)})
    async with saving(world, open_models, backend=backend) as opened_saving:
        for text in (OLD, "小明住在海边"):
            await opened_saving.save(text, await world.say(text))
        scope = Scope((world.conversation,))
        by_meaning = await opened_saving.memory.recall(["宠物"], scope, Wish(1), within=30)
        by_both = await opened_saving.memory.recall(["橘猫", "", " "], scope, Wish(1), within=30)
        assert await opened_saving.memory.recall(["", " \n"], scope, Wish(6)) == []
    assert [(item.memory.content, item.vector_rank, item.text_rank) for item in by_meaning] == [(OLD, 1, None)]
    assert [(item.memory.content, item.text_rank) for item in by_both] == [(OLD, 1)]
    assert [texts for kind, texts in backend.runs if kind == "query"] == [["宠物"], ["橘猫"]]


async def test_recall_without_vectors_finds_by_words(judged: Saving) -> None:
    old = await cat(judged.world)
    found = await judged.memory.recall(["橘猫"], Scope((judged.world.conversation,)), Wish(6))
    assert [(item.memory.id, item.vector_rank, item.text_rank) for item in found] == [(old, None, 1)]


async def test_recall_waits_no_longer_than_it_may(world: MemoryWorld, open_models: Opener) -> None:
    old = await cat(world)
    backend = ToyBackend()
    backend.gate.clear()
    async with opened(world.database, backend) as embeddings, open_models(None) as models:
        memory = MemoryService(world.database, models, embeddings)
        found = await memory.recall(["橘猫"], Scope((world.conversation,)), Wish(6), within=0)
        assert [item.memory.id for item in found] == [old]
        backend.gate.set()


async def test_forty_writers_of_one_claim_end_as_one_row_with_all_evidence(world: MemoryWorld, open_models: Opener) -> None:
    positions = [await world.say(f"我养了一只橘猫，第 {number} 遍") for number in range(40)]
    async with saving(world, open_models, verdict("new", 0)) as opened_saving:
        saved = await asyncio.gather(*(opened_saving.save(OLD, pos) for pos in positions))
    assert sorted(each.how for each in saved) == ["new"] + ["same"] * 39
    [(row,)] = await world.rows("SELECT id FROM memories")
    assert {each.memory.id for each in saved if each.memory} == {row}
    assert await world.supported_by(MemoryId(int(str(row)))) == positions
    assert opened_saving.service.requests == []
