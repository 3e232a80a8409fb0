"""A real process that learns is killed between the model's answer and the commit: nothing is half done, nothing is lost."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys

from db.models import JsonObject
from db.pool import Database
from settings import ROOT
from tests.db.memory_world import MING, MemoryWorld
from tests.learner.test_real_tasks import NOTHING, build
from tests.llm.conftest import Opener
from tests.llm.fake_service import Answer, FakeService, says, text_at


def places_all_in_one(body: JsonObject) -> Answer:
    """One topic for everything."""
    task = text_at(body, "response_format", "json_schema", "name")
    if task == "topic_assignment":
        return says(json.dumps({"assignments": [{"message": pos, "topic": "N1"} for pos in range(1, 13)]}))
    if task == "topic_summary":
        gist = {"topic": "T1", "title": "养猫", "gist": "小明在说他的猫", "open_loops": [], "keywords": ["猫"]}
        return says(json.dumps({"topics": [gist]}))
    return says(NOTHING)


async def test_a_killed_process_leaves_everything_as_it_was_and_another_goes_on(
    database: Database, database_url: str, open_models: Opener
) -> None:
    world = await MemoryWorld.create(database)
    for number in range(12):
        await world.say(f"我家的猫又干了第{number}件坏事", MING)
    async with FakeService(brain=places_all_in_one) as service, open_models(service) as models:
        arguments = [sys.executable, "-m", "tests.learner.learning_process", database_url, service.base_url]
        async with database.transaction() as conn:
            await conn.execute("LOCK TABLE topic_summaries IN SHARE MODE")
            process = subprocess.Popen(  # noqa: ASYNC220 - returns at once
                [*arguments, str(world.conversation)], cwd=ROOT, stderr=subprocess.DEVNULL
            )
            try:
                backend = await world.blocked()
            finally:
                process.kill()
                await asyncio.to_thread(process.wait)
        async with asyncio.timeout(20):
            alive = "SELECT pid FROM pg_locks WHERE pid = %(pid)s OR locktype = 'advisory'"
            while await world.rows(alive, pid=backend):  # noqa: ASYNC110 - what is waited for has no event
                await asyncio.sleep(0.01)
        assert await world.rows("SELECT id FROM topics") == []
        assert await world.rows("SELECT pos FROM learner_cursors WHERE task = 'topics' AND pos > 0") == []
        report = await build(database, models).run(world.conversation)
    assert (report.learned, report.counts["topics"]) == (True, 1)
    assert await world.rows("SELECT count(*) FROM topic_messages") == [(12,)]
    assert await world.rows("SELECT DISTINCT pos FROM learner_cursors") == [(12,)]
