"""Vectors of the local models for measuring recall, through the parts that the bot uses."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager

from bench.recall_rows import Rows
from db.memory_models import Vector
from llm.embedding import EmbeddingKeeper, Embeddings
from llm.embedding.local import Engine, LocalBackend

PIECE = 32
_PATIENCE_SECONDS = 600.0


@asynccontextmanager
async def embedded(rows: Rows, engine: Engine, tell: Callable[[int], None]) -> AsyncGenerator[Embeddings]:
    """Give all rows vectors of one model, and lend it. ``tell``: how many are done. Raises EmbeddingUnavailable."""
    embeddings = Embeddings(rows.database, LocalBackend([engine]))
    await embeddings.open()
    keeper = EmbeddingKeeper(rows.database, embeddings)
    try:
        for start in range(0, len(rows.ids), PIECE):
            await keeper.settled(rows.ids[start : start + PIECE])
            tell(start + PIECE)
        yield embeddings
    finally:
        await keeper.aclose()
        await embeddings.aclose()


async def query_vectors(embeddings: Embeddings, texts: Sequence[str]) -> list[Vector]:
    """Embed questions, however long that takes. Raises ValueError when one gets no vector."""
    vectors: list[Vector] = []
    for start in range(0, len(texts), PIECE):
        piece = await embeddings.queries(texts[start : start + PIECE], within=_PATIENCE_SECONDS)
        vectors += [vector for vector in piece if vector is not None]
    if len(vectors) != len(texts):
        raise ValueError(f"{len(texts)} 个问题里只有 {len(vectors)} 个有向量")
    return vectors
