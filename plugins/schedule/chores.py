"""What has to be done now and then, in short pieces, so that nothing waits long."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from typing import TypeAlias

from db import embeddings, message_index, upkeep, withdraw
from db.pool import Connection, Database

PIECE = 1000
FILL_PIECE = 500
REST_SECONDS = 0.2
EARLY_DAYS = 7

Piece: TypeAlias = Callable[[Connection], Awaitable[int]]


async def clean(database: Database, before: datetime, now: datetime) -> int:
    """Delete everything older than ``before``; returns how many messages went."""
    await _until_done(database, lambda conn: upkeep.old_traits(conn, before, limit=PIECE))
    gone = await _until_done(database, lambda conn: upkeep.old_messages(conn, before, limit=PIECE))
    await _until_done(database, lambda conn: upkeep.empty_topics(conn, limit=PIECE))
    await _until_done(database, lambda conn: upkeep.bare_expressions(conn, limit=PIECE))
    await _until_done(database, lambda conn: upkeep.old_memories(conn, before, limit=PIECE))
    await _until_done(database, lambda conn: upkeep.old_turns(conn, before, limit=PIECE))
    await _until_done(database, lambda conn: embeddings.trim_message_vectors(conn, limit=PIECE))
    async with database.connection() as conn:
        await upkeep.old_records(conn, before)
        await withdraw.forget_early(conn, now - timedelta(days=EARLY_DAYS))
    return gone


async def make_searchable(database: Database) -> int:
    """Make the messages findable that were stored before there was a search; returns how many those were."""
    filled = 0
    while piece := await message_index.fill(database, piece=FILL_PIECE):
        filled += piece
        await asyncio.sleep(REST_SECONDS)
    return filled


async def _until_done(database: Database, work: Piece) -> int:
    """Repeat a bounded piece of work until it comes back with less than a piece; returns how much it was."""
    done, piece = 0, PIECE
    while piece >= PIECE:
        async with database.connection() as conn:
            piece = await work(conn)
        done += piece
        await asyncio.sleep(REST_SECONDS)
    return done
