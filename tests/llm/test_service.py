"""Models by role, with fallback, budgets and usage, over a real HTTP service and a real database."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from langchain_core.messages import BaseMessage, HumanMessage
from psycopg.rows import dict_row

from db.models import ConversationId, JsonObject
from db.pool import Database
from llm import service as service_module
from llm.errors import BudgetExhausted, ContextTooLong, ModelRefused, ModelUnavailable
from llm.types import CallContext
from llm.usage import UsageBook
from tests.llm.conftest import Opener
from tests.llm.fake_service import USAGE, Answer, FakeService, Raw, completion, failure, says

HELLO: Sequence[BaseMessage] = (HumanMessage("#1 12:00 小明[1]: 你好"),)
NOBODY = CallContext("turn")


async def rows(database: Database, book: UsageBook) -> list[dict[str, object]]:
    assert await book.flush()
    async with database.connection() as conn, conn.cursor(row_factory=dict_row) as cur:
        await cur.execute(
            "SELECT conversation_id, task, role, model, prompt_tokens, completion_tokens, cached_tokens, ok, error "
            "FROM model_calls ORDER BY id"
        )
        return await cur.fetchall()


async def test_each_role_has_its_model_or_the_main_one(open_models: Opener):
    async with FakeService(says("好")) as service, open_models(service, FAST_MODEL="fake-fast") as models:
        replies = [await models.chat(HELLO, role=role, context=NOBODY) for role in ("chat", "fast", "learner")]
        assert [reply.model for reply in replies] == ["fake-chat", "fake-fast", "fake-chat"]
        assert [body["model"] for body in service.requests] == ["fake-chat", "fake-fast", "fake-chat"]
        assert models.model_name("vision") == ""
        with pytest.raises(ModelUnavailable, match="VISION_MODEL"):
            await models.chat(HELLO, role="vision", context=NOBODY)


async def test_a_reply_carries_the_message_and_the_tokens(open_models: Opener):
    usage: JsonObject = {"prompt_tokens": 100, "completion_tokens": 7, "prompt_tokens_details": {"cached_tokens": 64}}
    async with FakeService(Raw(completion(says("你好"), usage=usage))) as service, open_models(service) as models:
        reply = await models.chat(HELLO, role="chat", context=NOBODY)
    assert reply.message.content == "你好"
    assert (reply.usage.prompt_tokens, reply.usage.completion_tokens, reply.usage.cached_tokens) == (100, 7, 64)
    assert reply.latency_ms >= 0


def down(model: str, status: int = 503) -> FakeService:
    """A service where one model fails and the others answer with their name."""

    def brain(body: JsonObject) -> Answer:
        return failure(status, "no") if body["model"] == model else says(f"我是 {body['model']}")

    return FakeService(brain=brain)


@pytest.mark.parametrize("status", [503, 404])
async def test_the_fallback_model_answers_when_the_first_does_not(open_models: Opener, status: int):
    async with down("fake-chat", status) as service, open_models(service, LLM_FALLBACK_MODEL="fake-spare") as models:
        reply = await models.chat(HELLO, role="chat", context=NOBODY)
    assert reply.model == "fake-spare"
    assert reply.message.content == "我是 fake-spare"


async def test_without_any_answer_the_call_fails(open_models: Opener):
    async with FakeService(failure(500, "no")) as service, open_models(service, LLM_FALLBACK_MODEL="fake-spare") as models:
        with pytest.raises(ModelUnavailable):
            await models.chat(HELLO, role="chat", context=NOBODY)
        assert [body["model"] for body in service.requests] == ["fake-chat"] * 3 + ["fake-spare"] * 3


@pytest.mark.parametrize(
    ("answer", "error"),
    [(failure(401, "bad key"), ModelRefused), (failure(400, "maximum context length is 8"), ContextTooLong)],
)
async def test_what_the_fallback_cannot_mend_is_raised_at_once(open_models: Opener, answer: Raw, error: type[Exception]):
    async with FakeService(answer) as service, open_models(service, LLM_FALLBACK_MODEL="fake-spare") as models:
        with pytest.raises(error):
            await models.chat(HELLO, role="chat", context=NOBODY)
        assert len(service.requests) == 1


async def test_every_call_is_written_down(open_models: Opener, book: UsageBook, database: Database, conversation: ConversationId):
    context = CallContext("turn", conversation)
    async with down("fake-chat") as service, open_models(service, LLM_FALLBACK_MODEL="fake-spare") as models:
        await models.chat(HELLO, role="chat", context=context)
    failed, answered = await rows(database, book)
    assert (failed["model"], failed["ok"], failed["completion_tokens"]) == ("fake-chat", False, 0)
    assert "HTTP 503" in str(failed["error"])
    assert answered == {
        "conversation_id": conversation,
        "task": "turn",
        "role": "chat",
        "model": "fake-spare",
        "prompt_tokens": USAGE["prompt_tokens"],
        "completion_tokens": USAGE["completion_tokens"],
        "cached_tokens": 0,
        "ok": True,
        "error": None,
    }


async def test_a_cancelled_call_is_written_down(open_models: Opener, book: UsageBook, database: Database):
    arrived = asyncio.Event()

    def brain(_body: JsonObject) -> Answer:
        arrived.set()
        return Raw(completion(says("太晚了")), delay=5)

    async with FakeService(brain=brain) as service, open_models(service) as models:
        call = asyncio.create_task(models.chat(HELLO, role="chat", context=NOBODY))
        await arrived.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
    (row,) = await rows(database, book)
    assert row["ok"] is False
    assert "取消" in str(row["error"])


async def test_the_daily_budget_stops_before_the_service_is_asked(open_models: Opener, conversation: ConversationId):
    context = CallContext("turn", conversation)
    async with FakeService(says("好")) as service, open_models(service, GROUP_DAILY_CALLS="2") as models:
        await models.chat(HELLO, role="chat", context=context)
        await models.chat(HELLO, role="chat", context=context)
        with pytest.raises(BudgetExhausted, match="2/2"):
            await models.chat(HELLO, role="chat", context=context)
        assert len(service.requests) == 2
        await models.chat(HELLO, role="chat", context=NOBODY)


async def test_a_conversation_may_have_its_own_budget(open_models: Opener, conversation: ConversationId):
    async with FakeService(says("好")) as service, open_models(service, GROUP_DAILY_CALLS="0") as models:
        await models.chat(HELLO, role="chat", context=CallContext("turn", conversation, daily_limit=1))
        with pytest.raises(BudgetExhausted):
            await models.chat(HELLO, role="chat", context=CallContext("turn", conversation, daily_limit=1))
        with pytest.raises(BudgetExhausted):
            await models.chat(HELLO, role="chat", context=CallContext("turn", conversation))
        assert len(service.requests) == 1


async def test_the_fast_role_switches_reasoning_off_where_it_can(open_models: Opener):
    async with FakeService(says("好")) as service, open_models(service, FAST_MODEL="deepseek-v4-flash") as models:
        await models.chat(HELLO, role="fast", context=NOBODY)
    assert service.requests[0]["thinking"] == {"type": "disabled"}


async def test_roles_are_routed_only_to_models_that_are_set(open_models: Opener):
    async with FakeService(says("好")) as service:
        async with open_models(service, CODE_MODEL="fake-code") as models:
            assert models.route("这段 python 代码为什么报错") == "code"
            assert models.route("早上好") == "chat"
        async with open_models(service, FAST_MODEL="fake-fast") as models:
            assert models.route("早上好") == "fast"
            assert models.route("这段 python 代码为什么报错") == "chat"


async def test_the_window_is_that_of_the_roles_model(open_models: Opener):
    async with FakeService(says("好")) as service, open_models(service, FAST_MODEL="moonshot-v1-8k") as models:
        assert models.window("fast") == 8192
        assert models.window("chat") > models.window("fast")


async def test_probe_is_asked_once_a_minute(open_models: Opener):
    async with FakeService(says("好")) as service, open_models(service) as models:
        first, second = await models.probe(), await models.probe()
        assert first.ok
        assert second == first
        assert service.probes == 1
        assert service.requests == []


async def test_probe_knows_from_the_last_call(open_models: Opener):
    async with FakeService(failure(401, "bad key")) as service, open_models(service) as models:
        with pytest.raises(ModelRefused):
            await models.chat(HELLO, role="chat", context=NOBODY)
        probe = await models.probe()
        assert not probe.ok
        assert "密钥" in probe.detail
        service.script([says("好")])
        await models.chat(HELLO, role="chat", context=NOBODY)
        assert (await models.probe()).ok
        assert service.probes == 0


async def test_a_refused_request_is_not_a_service_that_is_down(open_models: Opener):
    async with FakeService(failure(400, "content policy")) as service, open_models(service) as models:
        with pytest.raises(ModelRefused):
            await models.chat(HELLO, role="chat", context=NOBODY)
        assert (await models.probe()).ok


async def test_probe_does_not_wait_for_a_service_that_hangs(open_models: Opener, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(service_module, "PROBE_WAIT_SECONDS", 0.05)
    async with FakeService(says("好")) as service, open_models(service) as models:
        service.models = Raw("", delay=30)
        assert not (await models.probe()).ok


async def test_no_key_and_no_setting_shows_in_what_is_printed(open_models: Opener, caplog: pytest.LogCaptureFixture):
    async with FakeService(failure(500, "echo sk-test-0001")) as service, open_models(service) as models:
        with pytest.raises(ModelUnavailable) as failed:
            await models.chat(HELLO, role="chat", context=NOBODY)
    assert "sk-test-0001" not in caplog.text + failed.value.reason
