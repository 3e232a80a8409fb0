"""Recall: memories for some questions, by words and by meaning at once."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass

import psycopg

from db.fusion import Fused, Place, depth, fuse
from db.memory_models import Ask, Recalled, Scope, Wish
from db.pool import Database, DatabaseUnavailable
from db.recall_found import Near, fetch_near, fetch_recalled
from db.recall_text import text_places
from db.recall_vector import VectorAsk, vector_places
from db.text_query import read_query

__all__ = ["Near", "nearest", "recall"]

logger = logging.getLogger(__name__)

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
    vectors = [ask.vector for ask in asks[:ASKS] if ask.vector is not None]

    async def by_words() -> list[Place]:
        async with database.connection() as conn:
            return await text_places(conn, queries, scope, limit)

    async def by_meaning() -> list[Place]:
        async with database.connection() as conn:
            return await vector_places(conn, VectorAsk(vectors, scope, wish.each_first, limit))

    text, vector = await asyncio.gather(
        _leg("文字", by_words() if queries else None), _leg("向量", by_meaning() if vectors else None)
    )
    if text.away is not None and not vector.worked:
        raise text.away
    if vector.away is not None and not text.worked:
        raise vector.away
    return fuse(text.places, vector.places)


@dataclass(frozen=True, slots=True)
class _Leg:
    places: list[Place]
    worked: bool = False
    away: DatabaseUnavailable | None = None


async def _leg(name: str, work: Awaitable[list[Place]] | None) -> _Leg:
    """Run one leg; what fails is logged and kept apart from the other leg."""
    if work is None:
        return _Leg([])
    try:
        return _Leg(await work, worked=True)
    except DatabaseUnavailable as error:
        logger.warning("召回的%s一路没有连上数据库：%s", name, error)
        return _Leg([], away=error)
    except psycopg.Error as error:
        logger.warning("召回的%s一路出错，这次不用它：%s", name, str(error).strip().split("\n")[0] or type(error).__name__)
        return _Leg([])
