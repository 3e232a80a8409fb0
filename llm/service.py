"""The one door to the models: by role, with budgets, usage, retries and fallback behind it."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from langchain_core.messages import BaseMessage
from pydantic import BaseModel

from db.models import ConversationId, JsonObject, ModelCall
from db.stopping import stop
from llm.capabilities import capabilities_of, structured_mode
from llm.client import RetryPolicy, ServiceClient
from llm.demo import DEMO_MODEL, DemoBackend
from llm.errors import BudgetExhausted, ModelError, ModelUnavailable, StructuredFailed
from llm.failures import AccountRefused, Unserved
from llm.routing import TUNE, Features, choose_role, compose
from llm.structured import Unfit, plan
from llm.types import Answer, Backend, CallContext, ModelRole, Params, Probe, Prompt, Reply, StructuredMode, Usage
from llm.usage import UsageBook
from settings import Settings

logger = logging.getLogger(__name__)

T = TypeVar("T", bound=BaseModel)

PROBE_SECONDS = 60.0
PROBE_WAIT_SECONDS = 1.0
DEMO_NOTICE = (
    "正在使用演示模型：它不是语言模型，只按固定的规则回话。设置 LLM_BASE_URL、LLM_API_KEY 和 LLM_MODEL 后重启即可换成真正的模型"
)


@dataclass(frozen=True, slots=True)
class ModelPlan:
    """Which model serves what. A role without an entry is served by ``main``; times in seconds."""

    main: str
    by_role: Mapping[ModelRole, str]
    fallback: str = ""
    structured: StructuredMode = "json_schema"
    timeout: float = 60.0
    daily_calls: int = 500
    learner_tokens: int = 300_000

    @classmethod
    def from_settings(cls, settings: Settings) -> ModelPlan:
        """Read the plan from the settings."""
        named: dict[ModelRole, str] = {
            "fast": settings.fast_model,
            "code": settings.code_model,
            "vision": settings.vision_model,
            "learner": settings.learner_model,
        }
        return cls(
            main=settings.llm_model or DEMO_MODEL,
            by_role={role: name for role, name in named.items() if name and not settings.demo},
            fallback="" if settings.demo else settings.llm_fallback_model,
            structured=settings.llm_structured,
            timeout=settings.llm_timeout_seconds,
            daily_calls=settings.group_daily_calls,
            learner_tokens=settings.learner_daily_tokens,
        )


class Models:
    """Chat models by role. One instance a process; close it with ``aclose``."""

    def __init__(self, backend: Backend, plan: ModelPlan, usage: UsageBook) -> None:
        self._backend = backend
        self._plan = plan
        self._usage = usage
        self._health = _Health(backend)

    @classmethod
    def from_settings(cls, settings: Settings, usage: UsageBook, *, policy: RetryPolicy | None = None) -> Models:
        """Build the models that the settings name, or the demo model while none is set."""
        if settings.demo:
            logger.warning(DEMO_NOTICE)
            return cls(DemoBackend(), ModelPlan.from_settings(settings), usage)
        client = ServiceClient(settings.llm_base_url, settings.llm_api_key, timeout=settings.llm_timeout_seconds, policy=policy)
        return cls(client, ModelPlan.from_settings(settings), usage)

    @property
    def is_demo(self) -> bool:
        """True while the demo model answers."""
        return isinstance(self._backend, DemoBackend)

    @property
    def own_roles(self) -> frozenset[ModelRole]:
        """The roles for which a model of their own is set."""
        return frozenset(self._plan.by_role)

    def route(self, text: str) -> ModelRole:
        """Choose the role for a turn by what the latest call says."""
        return choose_role(text, self.own_roles)

    def model_name(self, role: ModelRole) -> str:
        """The model that serves a role; empty for ``vision`` when none is set."""
        if role == "vision":
            return self._plan.by_role.get("vision", "")
        return self._plan.by_role.get(role, self._plan.main)

    def window(self, role: ModelRole) -> int:
        """The context window of a role's model, in tokens."""
        return capabilities_of(self.model_name(role)).window

    async def chat(
        self, messages: Sequence[BaseMessage], *, role: ModelRole, tools: Sequence[JsonObject] = (), context: CallContext
    ) -> Reply:
        """Ask a model once. ``tools`` are OpenAI function tools.

        Raises BudgetExhausted, ContextTooLong, ModelRefused, ModelUnavailable.
        """
        return await self._ask(messages, replace(self._params(role), tools=tuple(tools)), context)

    async def structured(
        self, task: str, schema: type[T], prompt: Sequence[Prompt], *, role: ModelRole = "learner", context: CallContext
    ) -> T:
        """Ask for one instance of a schema, named after the task; one repair attempt.

        Raises StructuredFailed, and what ``chat`` raises.
        """
        if self.is_demo:
            raise StructuredFailed("演示模型不做结构化推断：设置 LLM_BASE_URL 与 LLM_MODEL 后才能学习")
        call = plan(task, schema, self._structured_mode(self.model_name(role)))
        context = replace(context, task=task)
        params = call.params(self._params(role))
        messages = call.messages(prompt)
        reply = await self._ask(messages, params, context)
        try:
            return call.read(reply.message, schema)
        except Unfit as unfit:
            logger.info("任务 %s 的结果不合格，让模型改一次：%s", task, unfit)
            messages = [*messages, *call.repair(reply.message, str(unfit))]
        reply = await self._ask(messages, params, context)
        try:
            return call.read(reply.message, schema)
        except Unfit as unfit:
            raise StructuredFailed(f"任务 {task} 的结果两次都不合格：{unfit}") from unfit

    def _structured_mode(self, model: str) -> StructuredMode:
        """Choose the way to ask; where the service knows no schemas, the prompt says what the answer must be."""
        mode = structured_mode(self._plan.structured, capabilities_of(model))
        return "json_object" if mode == "json_schema" and self._backend.refused_format(model) else mode

    def _params(self, role: ModelRole) -> Params:
        return compose(Features("", self.own_roles), Params(role=role), TUNE)

    async def _ask(self, messages: Sequence[BaseMessage], params: Params, context: CallContext) -> Reply:
        await self._check_budget(params.role, context)
        started = time.monotonic()
        model = self.model_name(params.role)
        if not model:
            raise ModelUnavailable("没有设置 VISION_MODEL，不能看图")
        fallback = self._plan.fallback if self._plan.fallback != model else ""
        within = self._plan.timeout * (1.5 if fallback else 2.0)
        try:
            answer = await self._ask_one(model, messages, params, within=within, context=context)
        except (ModelUnavailable, Unserved) as failure:
            if not fallback:
                raise
            logger.warning("模型 %s 没有回答，改用 %s：%s", model, fallback, failure)
            model = fallback
            answer = await self._ask_one(model, messages, params, within=self._plan.timeout, context=context)
        return Reply(answer.message, answer.usage, model, params.role, _ms(started))

    async def learner_left(self, conversation_id: ConversationId) -> int:
        """How many tokens the learner may still use for a conversation today; 0: none."""
        return max(0, self._plan.learner_tokens - await self._usage.learner_tokens_today(conversation_id))

    async def usage_written(self) -> bool:
        """Wait a few seconds at most until all calls so far are rows; False: not all of them are."""
        return await self._usage.flush()

    async def _check_budget(self, role: ModelRole, context: CallContext) -> None:
        if context.conversation_id is None:
            return
        if role == "learner" and context.turn_id is None:
            if await self.learner_left(context.conversation_id) == 0:
                raise BudgetExhausted(f"今天学习用的 token 已用完（{self._plan.learner_tokens}），明天再学")
            return
        limit = self._plan.daily_calls if context.daily_limit is None else context.daily_limit
        spent = await self._usage.spent_today(context.conversation_id)
        if spent >= limit:
            raise BudgetExhausted(f"今天的模型调用次数已用完（{spent}/{limit}），明天再说")

    async def _ask_one(
        self, model: str, messages: Sequence[BaseMessage], params: Params, *, within: float, context: CallContext
    ) -> Answer:
        """Ask one model, and write down how it went, whatever happens."""
        started = time.monotonic()
        answer: Answer | None = None
        error = "没有等到回答就被取消了"
        try:
            answer = await self._backend.ask(model, messages, params, within=within)
        except ModelError as failure:
            error = failure.reason
            if isinstance(failure, ModelUnavailable | Unserved | AccountRefused):
                self._health.note(False, _ms(started), error)
            raise
        else:
            self._health.note(True, _ms(started), "最近一次调用成功")
            return answer
        finally:
            used = answer.usage if answer else Usage()
            self._usage.record(
                ModelCall(
                    conversation_id=context.conversation_id,
                    turn_id=context.turn_id,
                    task=context.task,
                    role=params.role,
                    model=model,
                    prompt_tokens=used.prompt_tokens,
                    completion_tokens=used.completion_tokens,
                    cached_tokens=used.cached_tokens,
                    latency_ms=_ms(started),
                    ok=answer is not None,
                    error=None if answer else error,
                )
            )

    async def probe(self) -> Probe:
        """Tell whether the service answers, from the last calls or asked at most once a minute; takes ≤ 1 s."""
        return await (self._backend.reach() if self.is_demo else self._health.probe())

    async def aclose(self) -> None:
        """Close the connections to the service. The usage book is closed by its owner."""
        await self._health.aclose()
        await self._backend.aclose()


class _Health:
    """What is known about the service; a look that takes longer goes on in the background."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._known: Probe | None = None
        self._known_at = 0.0
        self._look: asyncio.Task[Probe] | None = None

    def note(self, ok: bool, latency_ms: int, detail: str) -> None:
        """Learn from a call."""
        self._known, self._known_at = Probe(ok, latency_ms, detail), time.monotonic()

    async def probe(self) -> Probe:
        """Answer from what is known and fresh, else look."""
        if self._known is not None and time.monotonic() - self._known_at < PROBE_SECONDS:
            return self._known
        if self._look is None or self._look.done():
            self._look = asyncio.create_task(self._reach(), name="model-probe")
        done, _ = await asyncio.wait({self._look}, timeout=PROBE_WAIT_SECONDS)
        if done:
            return self._look.result()
        return self._known or Probe(False, round(PROBE_WAIT_SECONDS * 1000), "模型服务还没有应答")

    async def _reach(self) -> Probe:
        result = await self._backend.reach()
        self.note(result.ok, result.latency_ms, result.detail)
        return result

    async def aclose(self) -> None:
        """Stop looking."""
        if self._look is not None:
            await stop([self._look])


def _ms(started: float) -> int:
    return round((time.monotonic() - started) * 1000)
