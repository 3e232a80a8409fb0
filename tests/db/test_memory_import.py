"""Imports: one statement a batch, the same batch again changes nothing, any text that is text."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest

from db import memories
from db.memory_import import Imported, ImportRow, import_many
from db.memory_models import BOT, GROUP
from db.pool import Database
from tests.db.memory_world import ABOUT_MING, MING, MemoryWorld

THEN = datetime(2025, 3, 1, 8, tzinfo=UTC)


@pytest.fixture
async def world(database: Database) -> MemoryWorld:
    """A group."""
    return await MemoryWorld.create(database)


async def bring_in(world: MemoryWorld, *rows: ImportRow) -> Imported:
    """Import a batch."""
    async with world.database.transaction() as conn:
        return await import_many(conn, rows)


def row(world: MemoryWorld, content: str) -> ImportRow:
    """A line about 小明."""
    return ImportRow(world.conversation, ABOUT_MING, "fact", content)


async def test_a_bare_line_is_active_locked_and_waits_for_its_vector(world: MemoryWorld) -> None:
    done = await bring_in(world, row(world, "小明养猫"))
    assert done.new == 1
    found = await world.rows(
        "SELECT id, subject_kind, subject_id, status, locked, source, uses, used_at, space_id, search FROM memories"
    )
    assert found == [(done.ids[0], "member", MING, "active", True, "import", 0, None, None, " 小明 明养 养猫 ")]


async def test_what_a_line_knows_of_the_past_is_kept(world: MemoryWorld) -> None:
    old = ImportRow(world.conversation, BOT, "goal", "带牌", "archived", False, 7, THEN, THEN, THEN)
    await bring_in(world, old)
    found = await world.rows(
        "SELECT status, archived_why, archived_at, locked, uses, used_at, created_at, updated_at FROM memories"
    )
    assert found == [("archived", "person", THEN, False, 7, THEN, THEN, THEN)]


async def test_the_same_batch_again_changes_nothing(world: MemoryWorld) -> None:
    batch = [row(world, f"第 {number} 件事") for number in range(100)]
    batch.append(ImportRow(world.conversation, GROUP, "event", "周六桌游", "archived"))
    first = await bring_in(world, *batch)
    before = await world.rows("SELECT * FROM memories ORDER BY id")
    second = await bring_in(world, *batch)
    assert (first.new, second.new) == (101, 0)
    assert set(first.ids) == set(second.ids)
    assert await world.rows("SELECT * FROM memories ORDER BY id") == before


async def test_equal_lines_of_one_batch_are_one_and_the_first_counts(world: MemoryWorld) -> None:
    other_kind = ImportRow(world.conversation, ABOUT_MING, "event", "小明养猫")
    done = await bring_in(world, row(world, "小明养猫。"), row(world, "小明養貓"), other_kind)
    assert (done.new, len(done.ids)) == (2, 2)
    assert await world.rows("SELECT kind, content FROM memories ORDER BY id") == [
        ("fact", "小明养猫。"),
        ("event", "小明养猫"),
    ]


async def test_a_memory_that_was_saved_already_is_found_and_left_as_it_is(world: MemoryWorld) -> None:
    known = await world.remember("小明养猫", about=ABOUT_MING)
    done = await bring_in(world, row(world, "小明养猫！"), row(world, "小明养狗"))
    assert done.new == 1
    assert known in done.ids
    memory = await world.memory(known)
    assert memory is not None
    assert (memory.content, memory.locked, memory.source) == ("小明养猫", False, "agent")


async def test_an_archived_memory_is_no_reason_to_leave_an_active_line_out(world: MemoryWorld) -> None:
    old = await world.remember("小明养猫", about=ABOUT_MING)
    async with world.database.connection() as conn:
        await memories.archive(conn, old, "agent")
    assert (await bring_in(world, row(world, "小明养猫"))).new == 1
    assert await world.rows("SELECT status FROM memories ORDER BY id") == [("archived",), ("active",)]


@pytest.mark.parametrize(
    "content",
    [
        "👨‍👩‍👧‍👦 一家四口",
        "é 和 e\u0301",
        "سلام",
        "𠮷野家",
        "a" * 500,
        "''; DROP TABLE memories; --",
        "%s %(x)s \\ {}",
        "！！！",
        "行一\u2028行二",
    ],
)
async def test_any_text_comes_in_and_out_as_it_is(world: MemoryWorld, content: str) -> None:
    done = await bring_in(world, row(world, content))
    assert done.new == 1
    assert await world.rows("SELECT content FROM memories") == [(content,)]
    assert (await bring_in(world, row(world, content))).new == 0


async def test_an_empty_batch_is_nothing(world: MemoryWorld) -> None:
    assert await bring_in(world) == Imported((), 0)


async def test_two_imports_of_one_file_at_once_write_each_line_once(world: MemoryWorld) -> None:
    batch = [row(world, f"第 {number} 件事") for number in range(200)]
    done = await asyncio.gather(*(bring_in(world, *batch) for _ in range(4)))
    assert sum(each.new for each in done) == 200
    assert [len(set(each.ids)) for each in done] == [200] * 4
    assert len({row for each in done for row in each.ids}) == 200
    assert await world.rows("SELECT count(*) FROM memories") == [(200,)]
