"""Conversations get rows and locks in one order, whoever else asks for them with other names."""

from __future__ import annotations

import asyncio

from db.conversations import KnownConversation, ensure
from db.models import ConversationKey
from db.pool import Database

ONE, TWO, NEW = (ConversationKey("group", number) for number in (5700000001, 5700000002, 5700000003))


async def ensured(database: Database, *found: KnownConversation) -> list[str]:
    async with database.transaction() as conn:
        rows = await ensure(conn, found)
        await asyncio.sleep(0)
        return [row.name for row in rows]


async def test_known_ones_keep_their_name_when_an_event_has_none_and_take_a_new_one(database: Database) -> None:
    assert await ensured(database, KnownConversation(ONE, "甲"), KnownConversation(TWO, "乙")) == ["甲", "乙"]
    assert await ensured(database, KnownConversation(ONE), KnownConversation(TWO, "丙")) == ["甲", "丙"]
    assert sorted(await ensured(database, KnownConversation(NEW, "丁"), KnownConversation(ONE))) == ["丁", "甲"]


async def test_accounts_that_know_groups_by_different_names_do_not_deadlock(database: Database) -> None:
    """Two processes, whose accounts gave the groups remarks of their own, rename them back and forth."""
    await ensured(database, KnownConversation(ONE, "甲"), KnownConversation(TWO, "乙"))

    async def rename(first: str, second: str) -> None:
        for _ in range(25):
            await ensured(database, KnownConversation(ONE, first), KnownConversation(TWO, second))

    await asyncio.gather(rename("甲", "乙一"), rename("甲一", "乙"), rename("甲", "乙二"), rename("甲二", "乙"))
