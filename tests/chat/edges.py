"""Edges that tests bend: a NapCat in whose calls things happen, and connections that break."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager

import psycopg

from db import conversations
from db.models import Conversation, ConversationKey, Json, Kind
from plugins.chat.onebot import CALL_SECONDS
from tests.chat.world import GROUP, FakeNapCat, World


async def _nothing() -> None:
    return


class BusyNapCat(FakeNapCat):
    """``during`` runs inside every send, before its answer."""

    def __init__(self) -> None:
        super().__init__()
        self.during: Callable[[], Awaitable[None]] = _nothing

    async def call(self, account_id: int, action: str, *, seconds: float = CALL_SECONDS, **params: Json) -> Json:
        if action.startswith("send_"):
            await self.during()
        return await super().call(account_id, action, seconds=seconds, **params)


async def where(world: World, target: int = GROUP, kind: Kind = "group") -> Conversation:
    """The conversation's row as it is now, made where it is new."""
    async with world.database.transaction() as conn:
        known = await conversations.ensure(conn, [conversations.KnownConversation(ConversationKey(kind, target))])
    return known[0]


@asynccontextmanager
async def held(url: str, statement: str) -> AsyncGenerator[psycopg.AsyncConnection]:
    """Hold the locks that a statement takes."""
    async with await psycopg.AsyncConnection.connect(url) as conn:
        await conn.execute(statement.encode())
        yield conn
        await conn.rollback()


async def break_waiting(url: str) -> None:
    """Wait until a connection of the bot waits for a lock, and break that connection."""
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as conn:
        while True:
            cur = await conn.execute(
                """
                SELECT pg_terminate_backend(pid)
                FROM pg_stat_activity
                WHERE datname = current_database() AND application_name = 'qunyou' AND wait_event_type = 'Lock'
                """
            )
            if await cur.fetchall():
                return
            await asyncio.sleep(0.01)
