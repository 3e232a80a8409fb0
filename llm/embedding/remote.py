"""Vectors from any OpenAI-compatible service."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

import openai
from pydantic import BaseModel, ConfigDict, JsonValue, ValidationError

from llm.embedding.prefixes import prefixes_of
from llm.embedding.types import CANARY, MAX_DIM, Identity, Limits, ServiceAway, TextKind, TextsRefused, Values, unit
from llm.failures import RETRYABLE_STATUS, clean, is_too_long, retry_after, words_said
from llm.wire import words_of
from settings import Settings

CONNECT_SECONDS = 5.0
QUERY_SECONDS = 10.0
PASSAGE_SECONDS = 60.0
REACH_SECONDS = 5.0
ATTEMPTS = 2
RETRY_SECONDS = 0.5
MISSET_SECONDS = 60.0
"""A wrong key or model name does not mend itself, but the service may."""
NO_KEY = "none"
"""Local servers need no key, but the SDK insists on one."""


@dataclass(frozen=True, slots=True)
class RemoteSettings:
    """Where the service is. ``dim``: the dimension to ask it for; None: the model's own."""

    base_url: str
    api_key: str
    model: str
    dim: int | None = None

    @classmethod
    def of(cls, settings: Settings) -> RemoteSettings:
        """Read them from the bot's settings."""
        base_url = settings.embedding_base_url.rstrip("/").removesuffix("/embeddings")
        return cls(base_url, settings.embedding_api_key, settings.embedding_model, settings.embedding_dim)


class _Row(BaseModel):
    model_config = ConfigDict(extra="ignore")

    index: int | None = None
    embedding: list[float | None] | None = None


class _Answer(BaseModel):
    model_config = ConfigDict(extra="ignore")

    data: list[_Row] | None = None
    error: JsonValue = None


class BadAnswer(ValueError):
    """The service answered something that is not one vector a text; the text is Chinese."""


class _Again(Exception):
    """A failure that another attempt at once may not meet."""

    def __init__(self, away: ServiceAway) -> None:
        super().__init__(away.reason)
        self.away = away


class RemoteBackend:
    """The service behind EMBEDDING_BASE_URL."""

    local = False
    # Services differ in what they take; a smaller bound is found out by halving.
    limits = Limits(texts=32, chars=16_000, fetched=2)

    def __init__(self, settings: RemoteSettings) -> None:
        self._settings = settings
        self._prefixes = prefixes_of(settings.model)
        self._dim = settings.dim
        timeout = openai.Timeout(PASSAGE_SECONDS, connect=CONNECT_SECONDS)
        self._http = openai.DefaultAsyncHttpxClient(timeout=timeout)
        self._api = openai.AsyncOpenAI(
            base_url=settings.base_url,
            api_key=settings.api_key or NO_KEY,
            timeout=timeout,
            max_retries=0,
            http_client=self._http,
        )

    @property
    def model(self) -> str:
        """EMBEDDING_MODEL."""
        return self._settings.model

    async def identify(self) -> Identity:
        """Tell model and dimension; a dimension that is not set is learned from a first call. Raises ServiceAway."""
        if self._dim is None:
            try:
                rows = await self._ask("query", [CANARY])
            except TextsRefused as refusal:
                raise ServiceAway(str(refusal), retry_after=MISSET_SECONDS) from refusal
            if not 1 <= len(rows[0]) <= MAX_DIM:
                raise ServiceAway(f"向量服务返回了 {len(rows[0])} 维的向量，最多能存 {MAX_DIM} 维")
            self._dim = len(rows[0])
        # How high unrelated texts reach differs from model to model too much to guess.
        return Identity(self._settings.model, self._dim, near=None)

    async def embed(self, kind: TextKind, texts: Sequence[str]) -> list[Values | None]:
        """Ask for vectors, at most twice. Raises ServiceAway, TextsRefused."""
        rows = await self._ask(kind, texts)
        if (
            self._dim is not None
            and (odd := next((len(row) for row in rows if len(row) not in {0, self._dim}), None)) is not None
        ):
            raise ServiceAway(self._wrong_dim(self._dim, odd), retry_after=MISSET_SECONDS)
        return await asyncio.to_thread(lambda: [unit(row) for row in rows])

    def _wrong_dim(self, wanted: int, got: int) -> str:
        if self._settings.dim is not None:
            return f"EMBEDDING_DIM={wanted}，但向量服务返回 {got} 维：请改成服务给的维数，或留空"
        return f"向量服务原来返回 {wanted} 维，现在返回 {got} 维：换了模型的话请重启"

    async def _ask(self, kind: TextKind, texts: Sequence[str]) -> list[list[float | None]]:
        prefixed = [self._prefixes.put(kind, text) for text in texts]
        seconds = QUERY_SECONDS if kind == "query" else PASSAGE_SECONDS
        for _ in range(1, ATTEMPTS):
            try:
                return await self._attempt(prefixed, seconds)
            except _Again:
                await asyncio.sleep(RETRY_SECONDS)
        try:
            return await self._attempt(prefixed, seconds)
        except _Again as failure:
            raise failure.away from failure

    async def _attempt(self, texts: list[str], seconds: float) -> list[list[float | None]]:
        try:
            # The HTTP timeout is per read; a service that drips bytes is cut here.
            async with asyncio.timeout(seconds):
                response = await self._api.embeddings.with_raw_response.create(
                    input=texts,
                    model=self._settings.model,
                    encoding_format="float",
                    dimensions=openai.omit if self._settings.dim is None else self._settings.dim,
                )
            # Thousands of numbers a text: not on the loop.
            return await asyncio.to_thread(read_rows, response.content, len(texts))
        except openai.APIStatusError as error:
            raise self._by_status(error) from error
        except (openai.APITimeoutError, TimeoutError) as error:
            raise ServiceAway(f"向量服务 {seconds:.0f} 秒内没有回答") from error
        except openai.OpenAIError as error:
            raise _Again(ServiceAway("连不上向量服务")) from error
        except BadAnswer as error:
            raise ServiceAway(clean(str(error), self._settings.api_key)) from error

    def _by_status(self, error: openai.APIStatusError) -> Exception:
        """Tell a text that is refused from a service that is away."""
        status = error.status_code
        words = clean(words_said(error), self._settings.api_key)
        said = f"（HTTP {status}）：{words}" if words else f"（HTTP {status}）"
        if self._settings.dim is not None and status in {400, 422} and "dimension" in words.lower():
            return ServiceAway(f"向量服务不接受 EMBEDDING_DIM={self._settings.dim}{said}", retry_after=MISSET_SECONDS)
        if status in {401, 402, 403, 404}:
            return ServiceAway(
                f"向量服务不认密钥、模型或地址，请检查 EMBEDDING_API_KEY、EMBEDDING_MODEL 与 EMBEDDING_BASE_URL{said}",
                retry_after=MISSET_SECONDS,
            )
        if is_too_long(words):
            return TextsRefused(f"向量服务嫌文字太长{said}")
        pause = retry_after(dict(error.response.headers))
        if status == 429:
            return ServiceAway(f"向量服务限流{said}", retry_after=pause)
        if status >= 500 or status in RETRYABLE_STATUS:
            return _Again(ServiceAway(f"向量服务出错{said}", retry_after=pause))
        return TextsRefused(f"向量服务拒绝了请求{said}")

    async def reach(self) -> str | None:
        """Ask for the list of models: any answer but 5xx or a refused key means that the service is there."""
        try:
            await self._api.models.with_raw_response.list(timeout=REACH_SECONDS)
        except openai.APIStatusError as error:
            if error.status_code in {401, 403} or error.status_code >= 500:
                return f"向量服务没有正常应答（HTTP {error.status_code}）"
        except openai.OpenAIError:
            return "连不上向量服务"
        return None

    async def aclose(self) -> None:
        """Close the connections."""
        await self._http.aclose()


def read_rows(body: bytes, count: int) -> list[list[float | None]]:
    """Read the vectors of ``count`` texts out of an answer, in the order of the texts; empty where there is none.

    Raises BadAnswer.
    """
    try:
        answer = _Answer.model_validate_json(body)
    except ValidationError as error:
        raise BadAnswer("向量服务返回的内容不是一组向量") from error
    if answer.error and not answer.data:
        raise BadAnswer(f"向量服务报错：{words_of(answer.error)}")
    rows = answer.data or []
    if len(rows) != count:
        raise BadAnswer(f"问了 {count} 段文字，向量服务返回了 {len(rows)} 个向量")
    indexes = [row.index for row in rows]
    if any(index is not None for index in indexes):
        if sorted(index for index in indexes if index is not None) != list(range(count)):
            raise BadAnswer("向量服务返回的次序（index）不对")
        rows = sorted(rows, key=lambda row: row.index or 0)
    vectors = [row.embedding or [] for row in rows]
    if len({len(vector) for vector in vectors if vector}) > 1:
        raise BadAnswer("向量服务返回的向量维数不一")
    return vectors
