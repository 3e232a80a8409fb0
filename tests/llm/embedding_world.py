"""An embedding service that counts characters, rows to embed, and short ways to open what is under test."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager

from db.embeddings import Waiting
from db.memory_models import MemoryId
from db.models import ConversationId, Json, JsonObject
from db.pool import Database
from llm.embedding import Embeddings
from llm.embedding.types import Backend, Identity, Limits, ServiceAway, TextKind, TextsRefused, Values, unit
from settings import load_settings
from tests.llm.fake_service import FakeService, Raw, failure, text_at

KEY = "sk-embed-0001-secret"


class Clock:
    """A clock that only the test moves, in seconds."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def toy(text: str, dim: int) -> list[float]:
    """A vector of a text: how often it has which characters."""
    values = [0.0] * dim
    for char in text:
        values[ord(char) % dim] += 1.0
    return values


def answer(vectors: Sequence[Json], *, order: Sequence[int] | None = None) -> Raw:
    """An answer as the service writes it; ``order`` is the order in which rows are sent."""
    rows: list[JsonObject] = [
        {"object": "embedding", "index": index, "embedding": vector} for index, vector in enumerate(vectors)
    ]
    sent: list[Json] = [rows[index] for index in (order if order is not None else range(len(rows)))]
    return Raw({"object": "list", "data": sent, "model": "toy", "usage": {"prompt_tokens": 1, "total_tokens": 1}})


class ToyService:
    """Answers ``POST /v1/embeddings``. ``asked`` holds the texts of each request, ``bodies`` the bodies.

    ``refused``: texts that it answers with 400. ``most``: how many texts it takes at once. ``broken``: what it answers
    instead. ``gate``: it answers nobody until that is set.
    """

    def __init__(self, dim: int = 16) -> None:
        self.dim = dim
        self.refused: set[str] = set()
        self.nan: set[str] = set()
        self.most: int | None = None
        self.broken: Callable[[list[str]], Raw] | None = None
        self.gate = asyncio.Event()
        self.gate.set()
        self.came = asyncio.Event()
        self.asked: list[list[str]] = []
        self.bodies: list[JsonObject] = []

    async def __call__(self, body: JsonObject) -> Raw:
        given = body["input"]
        assert isinstance(given, list)
        texts = [text_at(given, number) for number in range(len(given))]
        self.asked.append(texts)
        self.bodies.append(body)
        self.came.set()
        await self.gate.wait()
        if self.broken is not None:
            return self.broken(texts)
        if self.most is not None and len(texts) > self.most:
            return failure(400, "batch size is invalid")
        if self.refused & set(texts):
            return failure(400, "the input was flagged")
        return answer([[None] * self.dim if text in self.nan else toy(text, self.dim) for text in texts])


@asynccontextmanager
async def remote(database: Database, service: ToyService | None, **values: str) -> AsyncGenerator[Embeddings]:
    """Embeddings over a real HTTP service; None: nobody listens at the address."""
    async with FakeService() as http:
        address = http.base_url
        http.embedder = service
        if service is not None:
            async with _over(database, address, values) as embeddings:
                yield embeddings
                service.gate.set()
            return
    async with _over(database, address, values) as embeddings:
        yield embeddings


@asynccontextmanager
async def _over(database: Database, base_url: str, values: dict[str, str]) -> AsyncGenerator[Embeddings]:
    given = {"embedding_base_url": base_url, "embedding_api_key": KEY, "embedding_model": "toy"}
    embeddings = Embeddings.from_settings(load_settings({**given, **values}), database)
    await embeddings.open()
    try:
        yield embeddings
    finally:
        await embeddings.aclose()


class ToyBackend:
    """A backend in this process: ``runs`` holds what it was asked, in order. It works only while ``gate`` is set.

    ``away``: why it answers nobody, ``retry_after``: for how many seconds. ``refused``: texts that it does not take.
    """

    def __init__(self, model: str = "toy", dim: int = 16, *, texts: int = 4, local: bool = True) -> None:
        self.identity = Identity(model, dim, near=0.9)
        self.limits = Limits(texts=texts, chars=1000)
        self.local = local
        self.away: str | None = None
        self.retry_after: float | None = None
        self.refused: set[str] = set()
        self.gate = asyncio.Event()
        self.gate.set()
        self.busy = asyncio.Event()
        self.runs: list[tuple[TextKind, list[str]]] = []

    @property
    def model(self) -> str:
        return self.identity.model

    @property
    def texts(self) -> list[str]:
        """All texts it was asked for, in order."""
        return [text for _, texts in self.runs for text in texts]

    async def identify(self) -> Identity:
        if self.away is not None:
            raise ServiceAway(self.away, retry_after=self.retry_after)
        return self.identity

    async def embed(self, kind: TextKind, texts: Sequence[str]) -> list[Values | None]:
        self.runs.append((kind, list(texts)))
        self.busy.set()
        await self.gate.wait()
        if self.away is not None:
            raise ServiceAway(self.away, retry_after=self.retry_after)
        if self.refused & set(texts):
            raise TextsRefused("不收")
        return [unit(toy(text, self.identity.dim)) for text in texts]

    async def reach(self) -> str | None:
        return self.away

    async def aclose(self) -> None:
        self.gate.set()


@asynccontextmanager
async def opened(database: Database, backend: Backend, clock: Clock | None = None) -> AsyncGenerator[Embeddings]:
    """Embeddings over a backend."""
    embeddings = Embeddings(database, backend, clock=clock) if clock else Embeddings(database, backend)
    await embeddings.open()
    try:
        yield embeddings
    finally:
        await embeddings.aclose()


async def add_memories(database: Database, conversation: ConversationId, texts: Sequence[str]) -> list[MemoryId]:
    """Store memories about the group that have no vector yet."""
    async with database.connection() as conn:
        cur = await conn.execute(
            """
            INSERT INTO memories (conversation_id, subject_kind, kind, content, content_key, search, source)
            SELECT %(conversation)s, 'group', 'fact', t.text, t.text, t.text, 'person'
            FROM unnest(%(texts)s::text[]) WITH ORDINALITY AS t (text, no)
            ORDER BY t.no
            RETURNING id
            """,
            {"conversation": conversation, "texts": list(texts)},
        )
        return [MemoryId(row[0]) for row in await cur.fetchall()]


async def add_messages(database: Database, conversation: ConversationId, texts: Sequence[str]) -> list[int]:
    """Store messages that want a vector."""
    async with database.transaction() as conn:
        cur = await conn.execute(
            """
            INSERT INTO messages (conversation_id, pos, sender_id, sender_name, text, body, sent_at)
            SELECT %(conversation)s, coalesce((SELECT max(pos) FROM messages), 0) + t.no, 5000000011, '小明',
                   t.text, t.text, now()
            FROM unnest(%(texts)s::text[]) WITH ORDINALITY AS t (text, no)
            ORDER BY t.no
            RETURNING id
            """,
            {"conversation": conversation, "texts": list(texts)},
        )
        ids = [int(row[0]) for row in await cur.fetchall()]
        await conn.execute(
            """
            INSERT INTO message_vectors (message, conversation_id)
            SELECT id, %(conversation)s FROM unnest(%(ids)s::bigint[]) AS t (id)
            """,
            {"conversation": conversation, "ids": ids},
        )
    return ids


async def spaces_of(database: Database, table: str = "memories") -> dict[int, tuple[str, int] | None]:
    """Which model and how many dimensions each row's vector really has; None: it has no vector."""
    queries = {
        "memories": "SELECT r.id, s.model, vector_dims(r.embedding::vector) FROM memories r"
        " LEFT JOIN embedding_spaces s ON s.id = r.space_id",
        "message_vectors": "SELECT r.message, s.model, vector_dims(r.embedding::vector) FROM message_vectors r"
        " LEFT JOIN embedding_spaces s ON s.id = r.space_id",
    }
    async with database.connection() as conn:
        cur = await conn.execute(queries[table].encode())
        return {row[0]: None if row[1] is None else (row[1], row[2]) for row in await cur.fetchall()}


def texts_of(rows: Sequence[Waiting]) -> list[str]:
    """The texts of rows."""
    return [row.text for row in rows]
