"""Recall: memories for some questions, by words and by meaning at once."""

from __future__ import annotations

from collections.abc import Sequence

from db.fusion import Fused, Place, depth
from db.legs import both_legs
from db.memory_models import Ask, Recalled, Scope, Wish
from db.pool import Database
from db.recall_found import Near, fetch_near, fetch_recalled
from db.recall_text import text_places
from db.recall_vector import VectorAsk, vector_places
from db.text_query import read_query

__all__ = ["Near", "nearest", "recall"]

ASKS = 16
"""Questions of one call that are asked; the rest are left out."""


async def recall(database: Database, asks: Sequence[Ask], scope: Scope, wish: Wish) -> list[Recalled]:
    """Find the memories in scope that answer some questions best, best first.

    Both legs run at once, one round trip each for all questions. A leg that fails is left out and logged.
    Raises DatabaseUnavailable when no leg reached the database.
    """
    found = await _search(database, asks, scope, wish)
    if not found:
        return []
    async with database.connection() as conn:
        return await fetch_recalled(conn, found, scope, wish)


async def nearest(database: Database, ask: Ask, scope: Scope, limit: int = 5) -> list[Near]:
    """Find the memories in scope that are most like a claim, most alike first. Raises DatabaseUnavailable."""
    found = await _search(database, [ask], scope, Wish(limit, prior=False))
    if not found:
        return []
    async with database.connection() as conn:
        return await fetch_near(conn, [fused.row for fused in found[:limit]], ask)


async def _search(database: Database, asks: Sequence[Ask], scope: Scope, wish: Wish) -> list[Fused]:
    """Ask both legs and fuse their places."""
    if not scope.conversation_ids:
        return []
    limit = depth(wish.offset + wish.limit)
    queries = [query for no, ask in enumerate(asks[:ASKS]) if (query := read_query(no, ask.text)) is not None]
    vectors = {no: ask.vector for no, ask in enumerate(asks[:ASKS]) if ask.vector is not None}

    async def by_words() -> list[Place]:
        async with database.connection() as conn:
            return await text_places(conn, queries, scope, limit)

    async def by_meaning() -> list[Place]:
        async with database.connection() as conn:
            return await vector_places(conn, VectorAsk(vectors, scope, wish.each_first, limit))

    return await both_legs("召回", by_words() if queries else None, by_meaning() if vectors else None)
