"""Structured calls in all three ways, over a real HTTP service."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field

from db.models import JsonObject
from db.pool import Database
from llm.errors import StructuredFailed
from llm.structured import Unfit, parse_object, plan
from llm.types import CallContext, Prompt
from llm.usage import UsageBook
from tests.llm.conftest import Opener
from tests.llm.fake_service import Answer, FakeService, call, calls, dig, failure, says, text_at
from tests.llm.test_service import rows


class Term(BaseModel):
    title: str = Field(description="词", max_length=20)
    meaning: str | None = None
    evidence: list[int] = Field(default_factory=list[int])


class Slang(BaseModel):
    model_config = ConfigDict(extra="forbid")

    terms: list[Term]
    mood: Literal["好", "坏"] = "好"


CONTEXT = CallContext("slang")
PROMPT: Sequence[Prompt] = (Prompt("system", "你是记录员"), Prompt("user", "#1 12:00 小明[1]: 今天摸鱼"))
GOOD = {"terms": [{"title": "摸鱼", "meaning": "偷懒", "evidence": [1]}], "mood": "好"}
GOOD_TEXT = json.dumps(GOOD, ensure_ascii=False)


def last_text(body: JsonObject) -> str:
    return text_at(body, "messages", -1, "content")


async def test_json_schema_names_the_task_and_closes_every_object(open_models: Opener):
    async with FakeService(says(GOOD_TEXT)) as service, open_models(service) as models:
        found = await models.structured("slang", Slang, PROMPT, context=CONTEXT)
    assert found.terms[0].meaning == "偷懒"
    form = dig(service.requests[0], "response_format")
    assert dig(form, "type") == "json_schema"
    assert dig(form, "json_schema", "name") == "slang"
    assert dig(form, "json_schema", "strict") is True
    schema = dig(form, "json_schema", "schema")
    term = dig(schema, "$defs", "Term")
    assert dig(schema, "required") == ["terms", "mood"]
    assert dig(term, "required") == ["title", "meaning", "evidence"]
    assert dig(schema, "additionalProperties") is False
    assert dig(term, "additionalProperties") is False
    assert dig(term, "properties", "title") == {"type": "string", "description": "词"}
    assert "tools" not in service.requests[0]


async def test_json_object_shows_the_task_and_the_schema_in_the_prompt(open_models: Opener):
    fenced = says(f"好的：\n```json\n{GOOD_TEXT}\n```")
    async with FakeService(fenced) as service, open_models(service, LLM_STRUCTURED="json_object") as models:
        found = await models.structured("slang", Slang, PROMPT, context=CONTEXT)
    assert found.terms[0].title == "摸鱼"
    body = service.requests[0]
    assert body["response_format"] == {"type": "json_object"}
    assert [dig(body, "messages", i, "role") for i in (0, 1)] == ["system", "user"]
    system = text_at(body, "messages", 0, "content")
    assert system.startswith("你是记录员")
    assert "slang" in system
    assert '"evidence"' in system


async def test_tool_mode_forces_a_function_with_the_tasks_name(open_models: Opener):
    async with FakeService(calls(call("slang", **GOOD))) as service, open_models(service, LLM_STRUCTURED="tool") as models:
        found = await models.structured("slang", Slang, PROMPT, context=CONTEXT)
    assert found.terms[0].evidence == [1]
    body = service.requests[0]
    assert body["tool_choice"] == {"type": "function", "function": {"name": "slang"}}
    assert dig(body, "tools", 0, "function", "name") == "slang"
    assert "response_format" not in body


async def test_a_model_without_schemas_is_asked_in_a_way_it_heeds(open_models: Opener):
    async with FakeService(says(GOOD_TEXT)) as service, open_models(service, LEARNER_MODEL="deepseek-chat") as models:
        await models.structured("slang", Slang, PROMPT, context=CONTEXT)
    assert service.requests[0]["response_format"] == {"type": "json_object"}


WRONG: dict[str, Answer] = {
    "prose": says("我觉得没有黑话"),
    "cut": says(GOOD_TEXT[:-9]),
    "wrong type": says('{"terms": "摸鱼"}'),
    "empty": says(""),
    "a list": says("[1]"),
}


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
async def test_one_repair_is_asked_for_with_the_reason(open_models: Opener, wrong: Answer):
    async with FakeService(wrong, says(GOOD_TEXT)) as service, open_models(service) as models:
        found = await models.structured("slang", Slang, PROMPT, context=CONTEXT)
    assert found.terms[0].title == "摸鱼"
    assert len(service.requests) == 2
    assert "不合格" in last_text(service.requests[1])
    assert '"terms"' in last_text(service.requests[1])


async def test_the_repair_names_the_wrong_field(open_models: Opener):
    wrong = says('{"terms": [{"title": 7}], "mood": "还行"}')
    async with FakeService(wrong, says(GOOD_TEXT)) as service, open_models(service) as models:
        await models.structured("slang", Slang, PROMPT, context=CONTEXT)
    assert "terms.0.title" in last_text(service.requests[1])
    assert "mood" in last_text(service.requests[1])


async def test_broken_tool_arguments_are_repaired_too(open_models: Opener):
    broken: JsonObject = {"id": "c1", "type": "function", "function": {"name": "slang", "arguments": '{"terms": ['}}
    answers = (calls(broken), calls(call("slang", **GOOD)))
    async with FakeService(*answers) as service, open_models(service, LLM_STRUCTURED="tool") as models:
        found = await models.structured("slang", Slang, PROMPT, context=CONTEXT)
    assert found.terms[0].title == "摸鱼"


async def test_two_wrong_answers_fail_and_both_calls_are_written_down(open_models: Opener, book: UsageBook, database: Database):
    async with FakeService(says("没有")) as service, open_models(service) as models:
        with pytest.raises(StructuredFailed, match="slang"):
            await models.structured("slang", Slang, PROMPT, context=CallContext("other"))
        assert len(service.requests) == 2
    written = await rows(database, book)
    assert [(row["task"], row["role"], row["ok"]) for row in written] == [("slang", "learner", True)] * 2


async def test_a_service_without_response_format_is_asked_without(open_models: Opener):
    def brain(body: JsonObject) -> Answer:
        if "response_format" in body:
            return failure(400, "response_format is not supported")
        return says(GOOD_TEXT)

    async with FakeService(brain=brain) as service, open_models(service) as models:
        assert (await models.structured("slang", Slang, PROMPT, context=CONTEXT)).terms


async def test_a_service_that_refused_the_format_is_told_the_schema_in_words_from_then_on(open_models: Opener):
    def brain(body: JsonObject) -> Answer:
        if "response_format" in body:
            return failure(400, "response_format.type json_schema is not supported")
        return says(GOOD_TEXT)

    async with FakeService(brain=brain) as service, open_models(service) as models:
        await models.structured("slang", Slang, PROMPT, context=CONTEXT)
        before = len(service.requests)
        await models.structured("slang", Slang, PROMPT, context=CONTEXT)
        assert len(service.requests) == before + 1
        assert "JSON Schema" in json.dumps(service.requests[-1]["messages"], ensure_ascii=False)


async def test_reasoning_around_the_object_is_no_matter(open_models: Opener):
    async with FakeService(says('<think>{"terms": 1}</think>' + GOOD_TEXT)) as service, open_models(service) as models:
        await models.structured("slang", Slang, PROMPT, context=CONTEXT)
        assert len(service.requests) == 1


async def test_the_demo_model_infers_nothing(open_models: Opener, book: UsageBook, database: Database):
    async with open_models(None) as models:
        with pytest.raises(StructuredFailed, match="演示模型"):
            await models.structured("slang", Slang, PROMPT, context=CONTEXT)
    assert await rows(database, book) == []


def test_free_keys_cannot_be_strict():
    class Free(BaseModel):
        counts: dict[str, int]

    call_plan = plan("free", Free, "json_schema")
    assert call_plan.strict is False
    assert dig(call_plan.schema, "properties", "counts") == {"type": "object", "additionalProperties": {"type": "integer"}}


@pytest.mark.parametrize("name", ["", "黑话", "two words", "a" * 65])
def test_a_task_name_that_services_refuse_is_a_mistake(name: str):
    with pytest.raises(ValueError, match="task name"):
        plan(name, Slang, "json_schema")


@pytest.mark.parametrize("text", ['{"a": 1}', ' {"a": 1}\n', '```json\n{"a": 1}\n```', '结果：{"a": 1}。', '```\n{"a": 1}```完'])
def test_an_object_is_found(text: str):
    assert parse_object(text) == {"a": 1}


MALFORMED = {
    "trailing commas": '{"a": [1, 2,], "b": "好",}',
    "single quotes": "{'a': [1, 2], 'b': '好'}",
    "bare keys": '{a: [1, 2], b: "好"}',
    "fullwidth marks": "{“a”：[1, 2]，“b”：“好”}",
    "a comment": '{"a": [1, 2], // 编号\n "b": "好"}',
    "no comma": '{"a": [1, 2] "b": "好"}',
    "a fence and prose": '这是结果：\n```json\n{"a": [1, 2,], "b": "好"}\n```\n希望有帮助{}',
    "a raw line break": '{"a": [1, 2], "b": "\n好\n"}',
}


@pytest.mark.parametrize("text", MALFORMED.values(), ids=MALFORMED)
def test_what_is_only_written_badly_is_mended(text: str):
    found = parse_object(text)
    assert found["a"] == [1, 2]
    assert str(found["b"]).strip() == "好"


def test_quotes_inside_a_text_are_kept():
    assert parse_object('{"a": "他说"你好"了", "b": 1}') == {"a": '他说"你好"了', "b": 1}


@pytest.mark.parametrize(
    "text", ['{"items": [{"term": "摸鱼"}, {"term": "开', '{"items": [{"term": "摸鱼"}', '{"items": ["摸鱼", {"a": 1}']
)
def test_what_was_cut_off_is_not_mended(text: str):
    with pytest.raises(Unfit):
        parse_object(text)


def test_what_no_database_takes_is_replaced():
    assert parse_object(r'{"a": ["\ud83d", {"b": "x\u0000y"}]}') == {"a": ["?", {"b": "x�y"}]}


@pytest.mark.parametrize("text", ["", "{", "}{", "[1]", "null", "[" * 100_000, '{"a": 1'])
def test_no_object_is_unfit(text: str):
    with pytest.raises(Unfit):
        parse_object(text)
