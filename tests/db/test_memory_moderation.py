"""What people do with memories: each act locks the row and is in the audit log."""

from __future__ import annotations

import asyncio

import pytest

from db import memories
from db import memory_moderation as moderation
from db.memory_models import GROUP, Claim, Memory, MemoryId, Vector
from db.memory_moderation import Duplicate, Edit, Outdated
from db.pool import Database
from tests.db.memory_world import ABOUT_MING, MING, MemoryWorld

OWNER = "5000000099"


@pytest.fixture
async def world(database: Database) -> MemoryWorld:
    """A group."""
    return await MemoryWorld.create(database)


async def create(world: MemoryWorld, content: str, kind: str = "fact") -> tuple[Memory, bool]:
    """A person writes a claim about 小明."""
    claim = Claim(world.conversation, ABOUT_MING, "preference" if kind == "preference" else "fact", content, "person")
    async with world.database.transaction() as conn:
        return await moderation.create(conn, claim, actor=OWNER)


async def edit(world: MemoryWorld, memory: MemoryId, wanted: Edit) -> Memory | None:
    """A person changes a memory."""
    async with world.database.transaction() as conn:
        return await moderation.edit(conn, memory, wanted, actor=OWNER)


async def acts(world: MemoryWorld) -> list[tuple[object, ...]]:
    """The audit log: who did what, what it said before and after."""
    return await world.rows("SELECT actor, action, before ->> 'content', after ->> 'content' FROM audit ORDER BY id")


async def embedded(world: MemoryWorld, content: str) -> MemoryId:
    """A memory with a vector."""
    [(space,)] = await world.rows("INSERT INTO embedding_spaces (model, dim) VALUES ('toy', 2) RETURNING id")
    return await world.remember(content, about=ABOUT_MING, vector=Vector(int(str(space)), (0.6, 0.8)))


async def test_what_a_person_writes_is_locked_and_needs_no_evidence(world: MemoryWorld) -> None:
    memory, fresh = await create(world, "小明养猫")
    assert (fresh, memory.locked, memory.source, memory.subject) == (True, True, "person", ABOUT_MING)
    assert await world.supported_by(memory.id) == []
    assert await acts(world) == [(OWNER, "memory.create", None, "小明养猫")]


async def test_an_equal_memory_of_the_kind_is_locked_instead(world: MemoryWorld) -> None:
    other_kind = await world.remember("小明养猫", about=ABOUT_MING, kind="event")
    known = await world.remember("小明养猫。", await world.say("我养猫"), about=ABOUT_MING)
    memory, fresh = await create(world, "小明養貓！")
    assert (fresh, memory.id, memory.locked, memory.content, memory.source) == (False, known, True, "小明养猫。", "agent")
    other = await world.memory(other_kind)
    assert other is not None
    assert not other.locked
    assert await acts(world) == [(OWNER, "memory.lock", None, "小明养猫。")]


async def test_an_equal_memory_that_is_archived_is_written_anew(world: MemoryWorld) -> None:
    old = await world.remember("小明养猫", about=ABOUT_MING)
    async with world.database.connection() as conn:
        await memories.archive(conn, old, "superseded")
    memory, fresh = await create(world, "小明养猫")
    assert fresh
    assert memory.id != old


async def test_an_edit_locks_and_finds_the_new_words_and_waits_for_a_new_vector(world: MemoryWorld) -> None:
    row = await embedded(world, "小明养猫")
    memory = await edit(world, row, Edit(content="小明养狗", version=1))
    assert memory is not None
    assert (memory.content, memory.locked, memory.version, memory.kind) == ("小明养狗", True, 2, "fact")
    found = await world.rows("SELECT search, content_key, space_id, embedding FROM memories")
    assert found == [(" 小明 明养 养狗 ", "小明养狗", None, None)]
    assert await acts(world) == [(OWNER, "memory.change", "小明养猫", "小明养狗")]


async def test_a_change_of_kind_keeps_the_vector_and_the_evidence(world: MemoryWorld) -> None:
    row = await embedded(world, "小明养猫")
    async with world.database.transaction() as conn:
        await memories.add_evidence(conn, row, [await world.row(await world.say("我养猫"))])
    memory = await edit(world, row, Edit(kind="event"))
    assert memory is not None
    assert (memory.kind, memory.content, memory.locked) == ("event", "小明养猫", True)
    assert await world.rows("SELECT embedding IS NULL FROM memories") == [(False,)]
    assert await world.supported_by(row) == [1]


async def test_who_read_an_older_version_changes_nothing(world: MemoryWorld) -> None:
    row = await world.remember("小明养猫", about=ABOUT_MING)
    await edit(world, row, Edit(content="小明养狗", version=1))
    with pytest.raises(Outdated) as raised:
        await edit(world, row, Edit(content="小明养鱼", version=1))
    assert raised.value.current.content == "小明养狗"
    memory = await world.memory(row)
    assert memory is not None
    assert (memory.content, memory.version) == ("小明养狗", 2)
    assert len(await acts(world)) == 1


async def test_two_edits_of_one_version_at_once_are_one(world: MemoryWorld) -> None:
    row = await world.remember("小明养猫", about=ABOUT_MING)
    wanted = [Edit(content=f"小明养了 {number} 只猫", version=1) for number in range(2, 8)]
    ended = await asyncio.gather(*(edit(world, row, each) for each in wanted), return_exceptions=True)
    assert sum(isinstance(result, Memory) for result in ended) == 1
    assert sum(isinstance(result, Outdated) for result in ended) == 5
    assert len(await acts(world)) == 1


async def test_an_edit_does_not_make_a_second_equal_memory(world: MemoryWorld) -> None:
    twin = await world.remember("小明养狗", about=ABOUT_MING)
    row = await world.remember("小明养猫", about=ABOUT_MING)
    with pytest.raises(Duplicate) as raised:
        await edit(world, row, Edit(content="小明養狗。"))
    assert raised.value.existing.id == twin
    assert str(raised.value) == f"已经有一条相同的记忆（编号 {twin}）"
    assert await acts(world) == []


async def test_an_equal_memory_written_at_that_moment_is_told_as_such(world: MemoryWorld) -> None:
    row = await world.remember("小明养猫", about=ABOUT_MING)
    claim = await world.claim("小明养狗", [], ABOUT_MING, "fact")
    async with world.database.transaction() as conn:
        twin = await memories.insert(conn, claim)
        editing = asyncio.create_task(edit(world, row, Edit(content="小明养狗")))
        await world.blocked()
    with pytest.raises(Duplicate) as raised:
        await editing
    assert raised.value.existing.id == twin


async def test_a_person_archives_and_brings_back(world: MemoryWorld) -> None:
    row, turn = await world.remember("小明养猫", about=ABOUT_MING), await world.turn()
    async with world.database.connection() as conn:
        await memories.used(conn, turn, [row])
    archived = await edit(world, row, Edit(status="archived"))
    assert archived is not None
    assert (archived.status, archived.archived_why, archived.locked) == ("archived", "person", True)
    assert archived.archived_at is not None
    assert await world.rows("SELECT * FROM memory_uses") == []
    back = await edit(world, row, Edit(status="active", version=2))
    assert back is not None
    assert (back.status, back.archived_why, back.archived_at, back.locked, back.version) == ("active", None, None, True, 3)


async def test_what_is_brought_back_clashes_with_an_equal_one(world: MemoryWorld) -> None:
    row = await world.remember("小明养猫", about=ABOUT_MING)
    await edit(world, row, Edit(status="archived"))
    twin = await world.remember("小明养猫", about=ABOUT_MING)
    with pytest.raises(Duplicate) as raised:
        await edit(world, row, Edit(status="active"))
    assert raised.value.existing.id == twin


async def test_a_claim_that_a_person_brought_back_outlives_its_evidence(world: MemoryWorld) -> None:
    pos = await world.say("我养猫")
    row = await world.remember("小明养猫", pos, about=ABOUT_MING)
    await world.withdraw(pos)
    await edit(world, row, Edit(status="active"))
    await world.withdraw(pos)
    assert await world.states(row) == ["active"]


async def test_an_archived_memory_keeps_why_it_was_archived_when_it_is_edited(world: MemoryWorld) -> None:
    row = await world.remember("小明养猫", about=ABOUT_MING)
    async with world.database.connection() as conn:
        await memories.archive(conn, row, "superseded")
    memory = await edit(world, row, Edit(content="小明养过猫"))
    assert memory is not None
    assert (memory.status, memory.archived_why, memory.content) == ("archived", "superseded", "小明养过猫")


async def test_a_deleted_memory_is_gone_and_the_log_says_what_it_was(world: MemoryWorld) -> None:
    row = await world.remember("小明养猫", await world.say("我养猫"), about=ABOUT_MING)
    async with world.database.transaction() as conn:
        assert await moderation.delete(conn, row, actor=OWNER)
        assert not await moderation.delete(conn, row, actor=OWNER)
    assert await world.states(row) == ["gone"]
    assert await world.rows("SELECT * FROM memory_evidence") == []
    assert await acts(world) == [(OWNER, "memory.delete", "小明养猫", None)]
    [(before,)] = await world.rows("SELECT before FROM audit")
    assert before == {
        "id": row,
        "subject_kind": "member",
        "subject_id": MING,
        "kind": "fact",
        "content": "小明养猫",
        "status": "active",
        "version": 1,
    }


async def test_an_unknown_memory_cannot_be_changed(world: MemoryWorld) -> None:
    assert await edit(world, MemoryId(2**40), Edit(content="没有")) is None
    assert await acts(world) == []


async def test_an_act_that_fails_leaves_no_trace_in_the_log(world: MemoryWorld) -> None:
    claim = Claim(world.conversation, GROUP, "fact", "群里周六桌游", "person")
    async with world.database.connection() as conn, conn.transaction(force_rollback=True):
        await moderation.create(conn, claim, actor=OWNER)
    assert await acts(world) == []
    assert await world.rows("SELECT * FROM memories") == []
