"""Memories as rows: one of each claim, never half written, changed only in the state that was read, used once a turn."""

from __future__ import annotations

import asyncio

import psycopg
import pytest

from db import memories
from db.memory_models import GROUP, Claim, MemoryId, Vector
from db.pool import Database
from tests.db.memory_world import ABOUT_MING, ABOUT_WEI, MemoryWorld


@pytest.fixture
async def world(database: Database) -> MemoryWorld:
    """A group."""
    return await MemoryWorld.create(database)


async def write(world: MemoryWorld, claim: Claim) -> MemoryId | None:
    """Write a claim in a transaction of its own."""
    async with world.database.transaction() as conn:
        return await memories.insert(conn, claim)


async def test_a_claim_is_written_with_its_evidence_and_can_be_read(world: MemoryWorld) -> None:
    pos = await world.say("我养了一只猫")
    turn = await world.turn()
    claim = Claim(world.conversation, ABOUT_MING, "fact", "小明养了一只猫", "agent", (await world.row(pos),), turn)
    row = await write(world, claim)
    assert row is not None
    memory = await world.memory(row)
    assert memory is not None
    assert (memory.subject, memory.kind, memory.content, memory.source) == (ABOUT_MING, "fact", "小明养了一只猫", "agent")
    assert (memory.status, memory.locked, memory.version, memory.uses, memory.turn_id) == ("active", False, 1, 0, turn)
    assert await world.supported_by(row) == [pos]
    assert await world.rows("SELECT search, space_id FROM memories") == [(" 小明 明养 养了 了一 一只 只猫 ", None)]


async def test_a_vector_comes_with_its_space(world: MemoryWorld) -> None:
    [(space,)] = await world.rows("INSERT INTO embedding_spaces (model, dim) VALUES ('toy', 2) RETURNING id")
    row = await world.remember("群里周六桌游", vector=Vector(int(str(space)), (0.6, 0.8)))
    assert await world.rows("SELECT id, space_id, embedding::text FROM memories") == [(row, space, "[0.60009766,0.7998047]")]


async def test_an_unknown_memory_is_none(world: MemoryWorld) -> None:
    assert await world.memory(MemoryId(2**40)) is None


async def test_the_same_words_in_other_clothes_are_found(world: MemoryWorld) -> None:
    row = await world.remember("小明喜欢 HTML5。", about=ABOUT_MING, kind="preference")
    async with world.database.connection() as conn:
        same = await memories.find_exact(conn, world.conversation, ABOUT_MING, "小明喜歡ｈｔｍｌ５")
        assert same is not None
        assert same.id == row
        assert await memories.find_exact(conn, world.conversation, ABOUT_WEI, "小明喜欢html5") is None
        assert await memories.find_exact(conn, world.conversation, ABOUT_MING, "小明不喜欢html5") is None
        assert await memories.archive(conn, row, "agent")
        assert await memories.find_exact(conn, world.conversation, ABOUT_MING, "小明喜欢html5") is None


async def test_a_second_equal_claim_is_not_written_while_one_is_active(world: MemoryWorld) -> None:
    claim = await world.claim("群里周六桌游", [], GROUP, "event")
    first = await write(world, claim)
    assert first is not None
    assert await write(world, claim) is None
    async with world.database.connection() as conn:
        await memories.archive(conn, first, "agent")
    assert await write(world, claim) is not None


async def test_forty_writers_of_one_claim_leave_one_row(world: MemoryWorld) -> None:
    claim = await world.claim("群里周六桌游", [], GROUP, "event")
    written = await asyncio.gather(*(write(world, claim) for _ in range(40)))
    assert len([row for row in written if row is not None]) == 1
    assert await world.rows("SELECT count(*) FROM memories") == [(1,)]


async def test_evidence_is_added_once_and_only_to_what_is_active(world: MemoryWorld) -> None:
    first, second = await world.say("我养了一只猫"), await world.say("我家猫叫年糕")
    row = await world.remember("小明养了一只猫", first, about=ABOUT_MING)
    messages = [await world.row(first), await world.row(second)]
    async with world.database.transaction() as conn:
        assert await memories.add_evidence(conn, row, messages)
        assert await memories.add_evidence(conn, row, messages)
    assert await world.supported_by(row) == [first, second]
    async with world.database.transaction() as conn:
        assert await memories.archive(conn, row, "agent")
        assert not await memories.add_evidence(conn, row, messages)


async def test_archiving_names_the_reason_and_happens_once(world: MemoryWorld) -> None:
    row = await world.remember("群里周六桌游")
    turn = await world.turn()
    async with world.database.transaction() as conn:
        await memories.used(conn, turn, [row])
        assert await memories.archive(conn, row, "superseded")
        assert not await memories.archive(conn, row, "agent")
    memory = await world.memory(row)
    assert memory is not None
    assert (memory.status, memory.archived_why, memory.version) == ("archived", "superseded", 2)
    assert memory.archived_at is not None
    assert await world.rows("SELECT * FROM memory_uses") == []


async def test_what_a_person_locked_is_not_archived(world: MemoryWorld) -> None:
    row = await world.remember("群里周六桌游", locked=True)
    async with world.database.connection() as conn:
        assert not await memories.archive(conn, row, "superseded")
    assert await world.states(row) == ["active"]


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE memories SET version = version + 1 WHERE id = %(id)s RETURNING id",
        "UPDATE memories SET locked = true WHERE id = %(id)s RETURNING id",
        "UPDATE memories SET status = 'archived', archived_at = now() WHERE id = %(id)s RETURNING id",
        "DELETE FROM memories WHERE id = %(id)s RETURNING id",
    ],
)
async def test_a_memory_is_held_only_as_it_was_read(world: MemoryWorld, change: str) -> None:
    row = await world.remember("群里周六桌游")
    memory = await world.memory(row)
    assert memory is not None
    async with world.database.transaction() as conn:
        assert await memories.hold(conn, memory)
    await world.rows(change, id=row)
    async with world.database.transaction() as conn:
        assert not await memories.hold(conn, memory)


async def test_uses_are_counted_once_a_turn_and_for_active_memories_only(world: MemoryWorld) -> None:
    first, second, archived = [await world.remember(text) for text in ("群里周六桌游", "群主爱猫", "群里周日休息")]
    one, two = await world.turn(), await world.turn()
    async with world.database.connection() as conn:
        assert await memories.archive(conn, archived, "agent")
        for turn, ids in ((one, [first, second, archived]), (one, [first, first]), (two, [first]), (two, [])):
            await memories.used(conn, turn, ids)
    counted = await world.rows("SELECT id, uses, used_at IS NOT NULL FROM memories ORDER BY id")
    assert counted == [(first, 2, True), (second, 1, True), (archived, 0, False)]
    assert await world.rows("SELECT turn_id, memory_id FROM memory_uses ORDER BY 1, 2") == [
        (one, first),
        (one, second),
        (two, first),
    ]


async def test_a_memory_that_is_being_archived_is_not_used(world: MemoryWorld) -> None:
    row, turn = await world.remember("群里周六桌游"), await world.turn()
    async with world.database.connection() as other:
        async with world.database.transaction() as conn:
            assert await memories.archive(conn, row, "agent")
            using = asyncio.create_task(memories.used(other, turn, [row]))
            await world.blocked()
        await using
    assert await world.rows("SELECT * FROM memory_uses") == []


async def test_links_are_written_once_and_go_with_their_memories(world: MemoryWorld) -> None:
    old, new = await world.remember("群里周六桌游"), await world.remember("群里周日桌游")
    async with world.database.connection() as conn:
        await memories.link(conn, old, new, "contradicts")
        await memories.link(conn, old, new, "contradicts")
    assert await world.rows("SELECT old_id, new_id, relation FROM memory_links") == [(old, new, "contradicts")]
    await world.rows("DELETE FROM memories WHERE id = %(id)s RETURNING id", id=old)
    assert await world.rows("SELECT * FROM memory_links") == []


@pytest.mark.parametrize("content", ["", "长" * 501])
async def test_the_table_takes_no_text_that_is_empty_or_too_long(world: MemoryWorld, content: str) -> None:
    claim = await world.claim(content, [], GROUP, "fact")
    with pytest.raises(psycopg.errors.CheckViolation):
        await write(world, claim)
