"""Two ways to find rows, run at once; each works alone while the other fails."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable
from dataclasses import dataclass

import psycopg

from db.fusion import Fused, Place, fuse
from db.pool import DatabaseUnavailable

logger = logging.getLogger(__name__)

LEG_SECONDS = 6.0
"""A leg that takes longer is left out; waiting for a connection fails before."""


async def both_legs(what: str, text: Awaitable[list[Place]] | None, vector: Awaitable[list[Place]] | None) -> list[Fused]:
    """Run the legs (None: there is nothing to look for) and fuse their places; ``what`` is for the log.

    A leg whose statement fails is left out. Raises DatabaseUnavailable when no leg reached the database.
    """
    words, meaning = await asyncio.gather(_leg(f"{what}：文字", text), _leg(f"{what}：向量", vector))
    if words.away is not None and not meaning.worked:
        raise words.away
    if meaning.away is not None and not words.worked:
        raise meaning.away
    return fuse(words.places, meaning.places)


@dataclass(frozen=True, slots=True)
class _Leg:
    places: list[Place]
    worked: bool = False
    away: DatabaseUnavailable | None = None


async def _leg(name: str, work: Awaitable[list[Place]] | None) -> _Leg:
    if work is None:
        return _Leg([])
    try:
        async with asyncio.timeout(LEG_SECONDS):
            places = await work
    except TimeoutError:
        logger.warning("%s一路超过 %.0f 秒，这次不用它", name, LEG_SECONDS)
        return _Leg([])
    except DatabaseUnavailable as error:
        logger.warning("%s一路没有连上数据库：%s", name, error)
        return _Leg([], away=error)
    except psycopg.Error as error:
        logger.warning("%s一路出错，这次不用它：%s", name, str(error).strip().split("\n")[0] or type(error).__name__)
        return _Leg([])
    return _Leg(places, worked=True)
