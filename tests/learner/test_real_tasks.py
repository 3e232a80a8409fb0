"""All real tasks behind the engine, over a model service that knows its schemas but finds nothing, or too much."""

from __future__ import annotations

import json
from zoneinfo import ZoneInfo

import pytest

from db.models import JsonObject
from db.pool import Database
from learner.service import Learner
from learner.topic_answers import AssignmentAnswer
from llm.embedding import Embeddings
from llm.errors import BudgetExhausted
from llm.memory.service import MemoryService
from llm.service import Models
from llm.types import CallContext, Prompt
from llm.usage import UsageBook
from settings import Settings, load_settings
from tests.db.memory_world import WEI, MemoryWorld
from tests.llm.conftest import Opener
from tests.llm.embedding_world import ToyBackend
from tests.llm.fake_service import Answer, FakeService, failure, says, text_at

NOTHING = json.dumps({"assignments": [], "topics": [], "items": [], "members": [], "claims": []})


def finds_nothing(_: JsonObject) -> Answer:
    """An empty answer to everything."""
    return says(NOTHING)


def refuses_poison(body: JsonObject) -> Answer:
    """What some services do about a word that they do not like."""
    return failure(400, "content filter") if "毒" in text_at(body, "messages", -1, "content") else says(NOTHING)


def build(database: Database, models: Models, **settings: object) -> Learner:
    """The learner as the bot builds it."""
    embeddings = Embeddings(database, ToyBackend())
    chosen: Settings = load_settings({"enabled_groups": "5700000001"}).model_copy(update=settings)
    return Learner.from_parts(database, models, MemoryService(database, models, embeddings), embeddings, chosen)


async def group(database: Database, count: int, poison: int = 0) -> MemoryWorld:
    """A group that talked a little."""
    world = await MemoryWorld.create(database)
    for number in range(1, count + 1):
        await world.say("毒" if number == poison else f"第{number}件事是yyds", WEI if number % 2 else 5000000013)
    return world


async def test_all_tasks_learn_a_group_to_the_end_and_every_call_is_written_down(database: Database, open_models: Opener) -> None:
    world = await group(database, 30)
    async with FakeService(brain=finds_nothing) as service, open_models(service) as models:
        report = await build(database, models).run(world.conversation)
        asked = {text_at(body, "response_format", "json_schema", "name") for body in service.requests}
        assert (report.learned, report.skipped, report.stopped) == (True, 0, {})
        assert asked >= {"topic_assignment", "memory_claims", "slang_candidates", "expressions", "member_profiles"}
        assert {item.task for item in report.used} == asked
        assert sum(item.calls for item in report.used) == len(service.requests)
        assert report.left == 300_000 - 120 * len(service.requests)
    rows = await world.rows("SELECT task, pos FROM learner_cursors WHERE conversation_id = %(c)s ORDER BY task")
    assert rows == [(task, 30) for task in ("expressions", "memories", "profiles", "slang", "terms", "topics")]


async def test_what_the_learner_asks_takes_no_call_from_the_group(
    database: Database, open_models: Opener, book: UsageBook
) -> None:
    world = await group(database, 12)
    async with FakeService(brain=finds_nothing) as service, open_models(service, GROUP_DAILY_CALLS="0") as models:
        assert (await build(database, models).run(world.conversation)).learned
        assert service.requests
    assert await book.spent_today(world.conversation) == 0
    assert await book.flush()
    fresh = UsageBook(database, ZoneInfo("Asia/Shanghai"))
    assert await fresh.spent_today(world.conversation) == 0
    assert await fresh.learner_tokens_today(world.conversation) == 120 * len(service.requests)


async def test_the_days_tokens_end_the_run_and_nothing_is_asked_after_them(database: Database, open_models: Opener) -> None:
    world = await group(database, 30)
    async with FakeService(brain=finds_nothing) as service, open_models(service, LEARNER_DAILY_TOKENS="250") as models:
        learner = build(database, models)
        report = await learner.run(world.conversation)
        assert (len(service.requests), report.left, report.learned) == (3, 0, False)
        assert "terms" not in report.stopped
        again = await learner.run(world.conversation)
        assert (len(service.requests), set(again.stopped) >= {"profiles"}) == (3, True)
        with pytest.raises(BudgetExhausted):
            await models.structured(
                "topic_assignment", AssignmentAnswer, [Prompt("user", "?")], context=CallContext("x", world.conversation)
            )
    assert await world.rows("SELECT failures, last_error FROM learner_cursors WHERE failures > 0") == []


async def test_a_message_that_the_service_refuses_is_isolated_in_every_task(database: Database, open_models: Opener) -> None:
    world = await group(database, 20, poison=7)
    async with FakeService(brain=refuses_poison) as service, open_models(service) as models:
        report = await build(database, models).run(world.conversation)
    assert report.learned
    rows = await world.rows("SELECT s.task, m.pos FROM learner_skipped s JOIN messages m ON m.id = s.message ORDER BY 1")
    assert [row for row in rows if row[1] != 7] == []
    assert {row[0] for row in rows} >= {"topics", "memories", "slang", "expressions", "profiles"}


async def test_with_the_demo_model_terms_are_counted(database: Database, open_models: Opener) -> None:
    world = await group(database, 60)
    async with open_models(None) as models:
        report = await build(database, models).run(world.conversation)
    assert (report.demo, report.used, report.stopped) == (True, (), {})
    assert await world.rows("SELECT task, pos FROM learner_cursors WHERE conversation_id = %(c)s") == [("terms", 60)]
