"""Lists of memories with their filters and pages, a memory's evidence and history, and the export."""

from __future__ import annotations

import pytest

from db import memories
from db import memory_lists as lists
from db.memory_import import ImportRow, import_many
from db.memory_lists import ExportLine, HistoryLine
from db.memory_models import BOT, GROUP, Memory, MemoryId, Scope, Subject
from db.models import ConversationId
from db.pool import Database
from tests.db.memory_world import ABOUT_MING, ABOUT_WEI, WEI, MemoryWorld


@pytest.fixture
async def world(database: Database) -> MemoryWorld:
    """A group."""
    return await MemoryWorld.create(database)


async def listed(world: MemoryWorld, scope: Scope, limit: int = 50, before: MemoryId | None = None) -> list[MemoryId]:
    """The ids of a list."""
    async with world.database.connection() as conn:
        return [memory.id for memory in await lists.newest(conn, scope, limit=limit, before=before)]


async def history(world: MemoryWorld, memory: MemoryId) -> list[HistoryLine]:
    """A memory's history."""
    async with world.database.connection() as conn:
        return await lists.history_of(conn, memory)


async def test_filters_hold_alone_and_together(world: MemoryWorld) -> None:
    elsewhere = await MemoryWorld.create(world.database, 5700000002)
    cat = await world.remember("小明养猫", about=ABOUT_MING)
    tea = await world.remember("小明爱喝茶", about=ABOUT_MING, kind="preference")
    dog = await world.remember("阿伟养狗", about=ABOUT_WEI)
    games = await world.remember("群里周六桌游", kind="event")
    brings = await world.remember("小满负责带牌", about=BOT, kind="goal")
    gone = await world.remember("小明养鸟", about=ABOUT_MING)
    far = await elsewhere.remember("小明养龟", about=ABOUT_MING)
    async with world.database.connection() as conn:
        await memories.archive(conn, gone, "agent")
    here = (world.conversation,)
    assert await listed(world, Scope(here)) == [brings, games, dog, tea, cat]
    assert await listed(world, Scope(())) == [far, brings, games, dog, tea, cat]
    assert await listed(world, Scope((world.conversation, elsewhere.conversation), (ABOUT_MING,))) == [far, tea, cat]
    assert await listed(world, Scope(here, (GROUP, BOT))) == [brings, games]
    assert await listed(world, Scope(here, ())) == []
    assert await listed(world, Scope(here, (ABOUT_MING, ABOUT_WEI), ("fact",))) == [dog, cat]
    assert await listed(world, Scope(here, None, ("event", "goal"))) == [brings, games]
    assert await listed(world, Scope(here, (ABOUT_MING,), None, ("archived",))) == [gone]
    assert await listed(world, Scope(here, (ABOUT_MING,), None, ("active", "archived"))) == [gone, tea, cat]


async def test_pages_meet_without_gap_or_overlap(world: MemoryWorld) -> None:
    ids = [await world.remember(f"第 {number} 件事") for number in range(7)]
    seen: list[MemoryId] = []
    before: MemoryId | None = None
    while page := await listed(world, Scope((world.conversation,)), 3, before):
        seen += page
        before = page[-1]
    assert seen == ids[::-1]


async def test_evidence_is_listed_oldest_first_and_withdrawn_text_is_not_told(world: MemoryWorld) -> None:
    first, second = await world.say("每周六桌游"), await world.say("对，下午两点", WEI)
    games = await world.remember("群里每周六下午两点桌游", second, first)
    await world.withdraw(second)
    async with world.database.connection() as conn:
        lines = await lists.evidence_of(conn, games)
        labels = await lists.evidence_labels(conn, [games, MemoryId(2**40)])
    assert [(line.pos, line.sender_name, line.text, line.withdrawn) for line in lines] == [
        (first, "小明", "每周六桌游", False),
        (second, "阿伟", "", True),
    ]
    assert labels == {games: [first]}


async def test_at_most_five_labels_of_a_memory_are_told(world: MemoryWorld) -> None:
    positions = [await world.say(f"第 {number} 句") for number in range(7)]
    games = await world.remember("群里说了很多", *positions)
    async with world.database.connection() as conn:
        assert await lists.evidence_labels(conn, [games]) == {games: positions[:5]}


async def test_history_tells_the_whole_chain_in_both_directions(world: MemoryWorld) -> None:
    sea = await world.remember("小明住海边", about=ABOUT_MING)
    house = await world.remember("小明住海边的木屋", about=ABOUT_MING, refines=sea)
    hill = await world.remember("小明住山里", about=ABOUT_MING, supersedes=house)
    never = await world.remember("小明没有家", about=ABOUT_MING)
    async with world.database.connection() as conn:
        await memories.link(conn, hill, never, "contradicts")
    told = [(line.id, line.relation, line.newer, line.archived_why) for line in await history(world, house)]
    assert told == [
        (sea, "refines", False, "refined"),
        (hill, "supersedes", True, None),
        (never, "contradicts", True, None),
    ]
    assert [line.id for line in await history(world, never)] == [sea, house, hill]
    assert await history(world, await world.remember("群里周六桌游")) == []


async def test_a_circle_in_the_history_ends(world: MemoryWorld) -> None:
    one, two, three = [await world.remember(text) for text in ("甲", "乙", "丙")]
    async with world.database.connection() as conn:
        for old, new in ((one, two), (two, three), (three, one)):
            await memories.link(conn, old, new, "refines")
    assert {line.id for line in await history(world, one)} == {two, three}
    await world.withdraw(await world.say("随便"))


async def test_a_circle_does_not_hold_a_withdrawal_up(world: MemoryWorld) -> None:
    pos = await world.say("甲")
    one, two = await world.remember("甲事", pos), await world.remember("乙事")
    async with world.database.connection() as conn:
        await memories.link(conn, one, two, "refines")
        await memories.link(conn, two, one, "refines")
    await world.withdraw(pos)
    assert await world.states(one, two) == ["withdrawn", "withdrawn"]


async def exported(world: MemoryWorld, *conversations: ConversationId) -> list[ExportLine]:
    """An export as a list."""
    return [line async for line in lists.export(world.database, conversations)]


async def test_an_export_that_is_imported_elsewhere_exports_the_same(world: MemoryWorld) -> None:
    other = await MemoryWorld.create(world.database, 5700000002)
    for number in range(1201):
        await world.remember(f"第 {number} 件事 🐱", about=ABOUT_MING if number % 2 else GROUP)
    first = await world.remember("小满负责带牌", about=BOT, kind="goal", locked=True)
    turn = await world.turn()
    async with world.database.connection() as conn:
        await memories.used(conn, turn, [first])
        await memories.archive(conn, MemoryId(first - 1), "superseded")
    await other.remember("别的群的事")
    lines = await exported(world, world.conversation)
    assert len(lines) == 1202
    assert (lines[-1].locked, lines[-1].uses, lines[-1].used_at is not None) == (True, 1, True)
    assert {line.status for line in lines} == {"active", "archived"}
    await world.rows("DELETE FROM memories WHERE conversation_id = %(c)s RETURNING id")
    async with world.database.transaction() as conn:
        for start in range(0, len(lines), 500):
            await import_many(conn, [_row(world, line) for line in lines[start : start + 500]])
    assert await exported(world, world.conversation) == lines
    assert len(await exported(world)) == 1203


def _row(world: MemoryWorld, line: ExportLine) -> ImportRow:
    return ImportRow(
        world.conversation,
        Subject(line.subject_kind, line.subject_id),
        line.kind,
        line.content,
        line.status,
        line.locked,
        line.uses,
        line.used_at,
        line.created_at,
        line.updated_at,
    )


async def test_an_export_that_is_left_early_gives_its_connection_back(world: MemoryWorld, database_url: str) -> None:
    for number in range(3):
        await world.remember(f"第 {number} 件事")
    small = Database(database_url, max_size=1)
    await small.open()
    try:
        lines = lists.export(small, [])
        assert (await anext(lines)).content == "第 0 件事"
        await lines.aclose()
        async with small.connection() as conn:
            found: list[Memory] = await lists.newest(conn, Scope(()), limit=1)
        assert len(found) == 1
    finally:
        await small.close()
