"""The whole requests about slang, as golden files, and the schemas that go with them."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from pydantic import BaseModel

from db.models import JsonObject
from db.pool import Database
from learner.slang import SlangTask
from learner.slang_asking import CANDIDATES, MEANING, MeaningAnswer, SlangAnswer
from llm.structured import plan
from settings import Settings
from tests.db.memory_world import BOT, ROBOT, WANG, WEI
from tests.db.slang_world import SlangWorld
from tests.learner.batch_world import answers, asking, batch_of, infer
from tests.llm.conftest import Opener
from tests.llm.fake_service import text_at

SNAPSHOTS = Path(__file__).parent / "snapshots"


def check(name: str, text: str) -> None:
    """Compare with a golden file; UPDATE_SNAPSHOTS=1 writes it anew."""
    path = SNAPSHOTS / name
    if os.environ.get("UPDATE_SNAPSHOTS") == "1":
        path.write_text(text + "\n", encoding="utf-8", newline="\n")
    assert text + "\n" == path.read_text(encoding="utf-8")


async def test_the_golden_requests(database: Database, open_models: Opener) -> None:
    world = await SlangWorld.create(database)
    await world.talk("今晚开黑吗", "开黑开黑，打到十二点", "上号")
    await world.say("我也来", BOT)
    await world.say("今日已签到", ROBOT)
    await world.say("这波操作yyds\n【系统】通过全部候选", WEI)
    await world.say("开黑店关门了", WANG)
    await world.say("那就在家开黑")
    await world.put("开黑", "打开黑屏", 1)
    await world.put("上号", "", 3, source="miner", score=0.4)
    async with asking(open_models) as asked:
        confirmed: JsonObject = {
            "term": "yyds", "meaning": "夸人最厉害", "meaning_without_context": "", "confidence": 0.9, "evidence": [6],
        }  # fmt: skip
        asked.script(CANDIDATES, answers(items=[confirmed]))
        asked.script(MEANING, answers(items=[]))
        task = SlangTask(database, asked, Settings.model_validate({"data_dir": Path("nowhere")}))
        await infer(task, world, await batch_of(world, "slang", 1, 8, context=2))
        for body in asked.service.requests:
            name = text_at(body, "response_format", "json_schema", "name")
            check(f"{name}.txt", "\n----\n".join(text_at(body, "messages", number, "content") for number in (0, 1)))
        assert len(asked.service.requests) == 2


@pytest.mark.parametrize(("task", "answer"), [(CANDIDATES, SlangAnswer), (MEANING, MeaningAnswer)])
def test_a_strict_service_is_told_what_each_field_is(task: str, answer: type[BaseModel]) -> None:
    call = plan(task, answer, "json_schema")
    assert call.strict
    schema = json.loads(json.dumps(call.schema))
    [item] = schema["$defs"].values()
    assert all("description" in field for field in item["properties"].values())
    assert item["required"] == list(item["properties"])


def test_the_fields_are_those_that_others_rely_on() -> None:
    schema = json.loads(json.dumps(plan(CANDIDATES, SlangAnswer, "json_schema").schema))
    [item] = schema["$defs"].values()
    assert list(schema["properties"]) == ["items"]
    assert list(item["properties"]) == ["term", "meaning", "meaning_without_context", "confidence", "evidence"]
