"""How often slang is said: a message once, people and local days apart, whatever batch it came in."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from db import slang_counts, unlearned
from db.learned_models import SlangId
from db.pool import Database
from tests.db.memory_world import BOT, MING, ROBOT, WANG, WEI
from tests.db.slang_world import SlangWorld


@pytest.fixture
async def world(database: Database) -> SlangWorld:
    """A group."""
    return await SlangWorld.create(database)


async def counted(world: SlangWorld, row: SlangId, zone: str = "Asia/Shanghai") -> tuple[int, int, int]:
    """Occurrences, speakers and days, counted now."""
    async with world.database.connection() as conn:
        await slang_counts.recount(conn, [row], zone=zone)
    found = await world.there(row)
    return found.occurrences, found.speakers, found.days


async def test_a_message_counts_once_in_however_many_spellings(world: SlangWorld) -> None:
    await world.talk("yyds yyds 永远的神", "YYDS！", "他是永遠的神", "yydsx", "无关")
    row = await world.put("yyds")
    await world.spell(row, "永远的神")
    assert await counted(world, row) == (3, 3, 1)


async def test_only_what_people_said_and_did_not_withdraw_counts(world: SlangWorld) -> None:
    for user in (BOT, ROBOT, MING, WEI, WANG):
        await world.hear("今晚开黑", user)
    await world.hear("/群友 开黑", MING, is_command=True)
    row = await world.put("开黑")
    assert await counted(world, row) == (3, 3, 1)
    await world.withdraw(3)
    async with world.database.connection() as conn:
        await unlearned.set(conn, world.conversation, WEI)
    assert await counted(world, row) == (1, 1, 1)


async def test_days_are_local(world: SlangWorld) -> None:
    for hour in (15, 17):
        await world.hear("今晚开黑", sent_at=datetime(2026, 11, 25, hour, tzinfo=UTC))
    row = await world.put("开黑")
    assert await counted(world, row) == (2, 1, 2)
    assert await counted(world, row, "UTC") == (2, 1, 1)
    found = await world.there(row)
    assert (found.first_seen, found.last_seen) == (datetime(2026, 11, 25, 15, tzinfo=UTC), datetime(2026, 11, 25, 17, tzinfo=UTC))


async def test_other_groups_do_not_count(world: SlangWorld) -> None:
    other = await SlangWorld.create(world.database, 5700000002)
    await other.talk("开黑", "开黑")
    assert await counted(world, await world.put("开黑")) == (0, 0, 0)


async def test_a_term_that_nobody_says_any_more_is_counted_down(world: SlangWorld) -> None:
    row = await world.put("开黑", occurrences=9, speakers=3, days=2)
    assert await counted(world, row) == (0, 0, 0)
    assert (await world.there(row)).last_seen is None


async def test_many_terms_are_counted_without_writing(world: SlangWorld) -> None:
    await world.talk("今晚开黑", "真牛b", "去B站看")
    async with world.database.connection() as conn:
        found = await slang_counts.occurrences(
            conn, world.conversation, [["开黑", "今晚"], ["牛b"], ["b站"], ["没有"], ["😀"], []]
        )
        assert await slang_counts.occurrences(conn, world.conversation, []) == []
    assert found == [1, 1, 1, 0, 0, 0]
