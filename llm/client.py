"""One OpenAI-compatible service: asks a model, with retries bounded in count and in time."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from json import JSONDecodeError
from typing import Any

import openai
from langchain_core.messages import AIMessage, BaseMessage
from pydantic import SecretStr
from tenacity import AsyncRetrying, RetryCallState, retry_if_exception_type, stop_after_attempt, stop_before_delay
from tenacity.wait import wait_exponential, wait_random

from llm.capabilities import blames_format, capabilities_of, relax, strip
from llm.errors import ModelRefused, ModelUnavailable
from llm.failures import AccountRefused, Passing, Unserved, classify
from llm.types import Answer, Params, Probe
from llm.wire import BadAnswer, ServiceSaid, WireModel, joined, request_fields, usage_of

logger = logging.getLogger(__name__)

REACH_SECONDS = 5.0
CONNECT_SECONDS = 10.0
# Local servers need no key, but the SDK insists on one.
NO_KEY = "none"


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often and how patiently one model is tried. ``first_wait`` and ``max_wait`` in seconds."""

    attempts: int = 3
    first_wait: float = 0.5
    max_wait: float = 8.0


class ServiceClient:
    """The service behind LLM_BASE_URL. One HTTP connection pool for all of its models."""

    def __init__(self, base_url: str, api_key: str, *, timeout: float, policy: RetryPolicy | None = None) -> None:
        self._base_url = base_url.rstrip("/").removesuffix("/chat/completions")
        self._api_key = api_key
        self._timeout = timeout
        self._policy = policy or RetryPolicy()
        self._http = openai.DefaultAsyncHttpxClient(
            timeout=openai.Timeout(timeout, connect=min(timeout, CONNECT_SECONDS)),
        )
        self._api = openai.AsyncOpenAI(
            base_url=self._base_url, api_key=api_key or NO_KEY, timeout=timeout, max_retries=0, http_client=self._http
        )
        self._models: dict[str, WireModel] = {}
        self._complaints: dict[str, list[str]] = {}

    async def ask(self, model: str, messages: Sequence[BaseMessage], params: Params, *, within: float) -> Answer:
        """Ask a model, retrying what may pass for at most ``within`` seconds.

        Raises ModelUnavailable, ContextTooLong, ModelRefused.
        """
        first = self._policy.first_wait
        backoff = wait_exponential(multiplier=first, max=self._policy.max_wait) + wait_random(0, first)

        def pause(state: RetryCallState) -> float:
            error = state.outcome.exception() if state.outcome else None
            asked = error.retry_after if isinstance(error, Passing) else None
            return backoff(state) if asked is None else asked

        deadline = time.monotonic() + within
        retrying = AsyncRetrying(
            retry=retry_if_exception_type(Passing),
            stop=stop_after_attempt(self._policy.attempts) | stop_before_delay(within),
            wait=pause,
            before_sleep=self._note_retry(model),
            reraise=True,
        )
        try:
            return await retrying(self._attempt, model, messages, params, deadline)
        except Passing as failure:
            raise ModelUnavailable(failure.reason) from failure

    async def _attempt(self, model: str, messages: Sequence[BaseMessage], params: Params, deadline: float) -> Answer:
        """Ask once; a refusal that names an optional parameter is asked again without it."""
        capabilities = capabilities_of(model)
        wanted = strip(params, capabilities)
        messages = joined(messages) if capabilities.alternating else messages
        complaints = self._complaints.setdefault(model, [])
        for words in complaints:
            wanted = relax(wanted, words) or wanted
        while True:
            try:
                message = await self._send(model, messages, request_fields(wanted, capabilities), deadline)
            except (AccountRefused, Unserved):
                raise
            except ModelRefused as refusal:
                relaxed = relax(wanted, refusal.reason)
                if relaxed is None:
                    raise
                logger.warning("模型 %s 不认其中一个参数，去掉后重试：%s", model, refusal.reason)
                wanted = relaxed
                complaints.append(refusal.reason)
                continue
            return Answer(_bare(message), usage_of(message))

    async def _send(self, model: str, messages: Sequence[BaseMessage], fields: dict[str, Any], deadline: float) -> AIMessage:
        wired = self._model(model)
        seconds = max(0.001, min(self._timeout, deadline - time.monotonic()))
        try:
            # The HTTP timeout is per read; a service that drips bytes is cut here.
            async with asyncio.timeout(seconds):
                return await wired.ainvoke(list(messages), **fields)
        except (openai.OpenAIError, TimeoutError, BadAnswer, ServiceSaid, UnicodeEncodeError, JSONDecodeError) as error:
            raise classify(error, self._api_key) from error

    def _model(self, name: str) -> WireModel:
        if name not in self._models:
            self._models[name] = WireModel(
                model=name,
                base_url=self._base_url,
                api_key=SecretStr(self._api_key or NO_KEY),
                timeout=openai.Timeout(self._timeout, connect=min(self._timeout, CONNECT_SECONDS)),
                max_retries=0,
                use_responses_api=False,
                streaming=False,
                disable_streaming=True,
                cache=False,
                http_async_client=self._http,
                openai_proxy=None,
                echo_reasoning=capabilities_of(name).echo,
            )
        return self._models[name]

    def _note_retry(self, model: str) -> Callable[[RetryCallState], None]:
        def note(state: RetryCallState) -> None:
            error = state.outcome.exception() if state.outcome else None
            logger.warning(
                "模型 %s 第 %d 次没有成功，%.1f 秒后重试：%s", model, state.attempt_number, state.upcoming_sleep, error
            )

        return note

    def refused_format(self, model: str) -> bool:
        """Tell whether the service refused a response format of this model since the start."""
        return any(blames_format(words) for words in self._complaints.get(model, ()))

    async def reach(self) -> Probe:
        """Ask for the list of models: any answer but 5xx or a refused key means that the service is there."""
        started = time.monotonic()
        try:
            await self._api.models.with_raw_response.list(timeout=REACH_SECONDS)
        except openai.APIStatusError as error:
            status = error.status_code
            if status in {401, 403}:
                return Probe(False, _ms(started), f"模型服务不认密钥（HTTP {status}）")
            if status >= 500:
                return Probe(False, _ms(started), f"模型服务出错（HTTP {status}）")
        except openai.OpenAIError:
            return Probe(False, _ms(started), "连不上模型服务")
        return Probe(True, _ms(started), "模型服务有应答")

    async def aclose(self) -> None:
        """Close the connections."""
        await self._http.aclose()


def _ms(started: float) -> int:
    return round((time.monotonic() - started) * 1000)


def _bare(message: AIMessage) -> AIMessage:
    """Keep what a turn needs of a message; run ids and metadata would make equal answers differ."""
    return AIMessage(
        content=message.content,
        tool_calls=message.tool_calls,
        invalid_tool_calls=message.invalid_tool_calls,
        additional_kwargs=message.additional_kwargs,
    )
