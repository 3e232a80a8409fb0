"""What people do with traits, and taking it back."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from db import trait_review, traits
from db.learned_models import TraitId
from db.pool import Database
from db.trait_review import Edit, Outdated, Taken
from db.traits import NewTrait, Trait
from tests.db.memory_world import MING
from tests.db.trait_world import TraitWorld


@pytest.fixture
async def world(database: Database) -> TraitWorld:
    """A group."""
    return await TraitWorld.create(database)


async def edit(world: TraitWorld, row: TraitId, wanted: Edit) -> Trait | None:
    """A person changes one."""
    async with world.database.transaction() as conn:
        return await trait_review.edit(conn, row, wanted, actor="api")


async def drop(world: TraitWorld, row: TraitId, version: int | None = None) -> Trait | None:
    """A person takes one away."""
    async with world.database.transaction() as conn:
        return await trait_review.drop(conn, row, version=version, actor="api")


async def undo(world: TraitWorld) -> bool:
    """The last act is taken back."""
    [(target, before, after)] = await world.rows("SELECT target_id, before, after FROM audit ORDER BY id DESC LIMIT 1")
    async with world.database.transaction() as conn:
        return await trait_review.restore(conn, target, before, after["version"])


async def test_an_edit_locks_and_can_be_taken_back(world: TraitWorld) -> None:
    row = await world.put("interest", "喜欢爬山")
    assert await world.prompted() == []
    changed = await edit(world, row, Edit(1, content="喜欢徒步"))
    assert changed is not None
    assert (changed.content, changed.locked, changed.version) == ("喜欢徒步", True, 2)
    assert await world.prompted() == ["喜欢徒步"]
    assert await undo(world)
    left = await world.there(row)
    assert (left.content, left.locked, left.version) == ("喜欢爬山", False, 3)
    assert await world.rows("SELECT action, target_kind, target_id FROM audit") == [("trait.change", "trait", row)]
    assert await world.rows("SELECT id FROM traits") == [(row,)]


async def test_words_that_a_person_replaced_do_not_come_back_by_themselves(world: TraitWorld) -> None:
    row = await world.put("interest", "喜欢爬山")
    await edit(world, row, Edit(1, content="喜欢徒步"))
    async with world.database.connection() as conn:
        assert await traits.refused(conn, world.conversation, MING, "喜欢爬山")
    await edit(world, row, Edit(2, content="喜欢爬山"))
    async with world.database.connection() as conn:
        assert not await traits.refused(conn, world.conversation, MING, "喜欢爬山")
        assert await traits.refused(conn, world.conversation, MING, "喜欢徒步")
    assert await world.profile() == [("interest", "喜欢爬山")]


async def test_what_a_person_takes_away_is_refused_in_any_kind_until_it_is_taken_back(world: TraitWorld) -> None:
    row = await world.put("interest", "喜欢爬山", locked=True)
    dropped = await drop(world, row, 1)
    assert dropped is not None
    assert (dropped.dropped_why, dropped.version) == ("person", 2)
    assert await world.prompted() == []
    async with world.database.connection() as conn:
        assert await traits.refused(conn, world.conversation, MING, "喜欢爬山！")
        assert not await traits.refused(conn, world.conversation, MING, "喜欢钓鱼")
    assert await drop(world, row) is None
    assert await undo(world)
    left = await world.there(row)
    assert (left.dropped_at, left.locked, left.version) == (None, True, 3)
    async with world.database.connection() as conn:
        assert not await traits.refused(conn, world.conversation, MING, "喜欢爬山")


async def test_a_stale_version_changes_nothing(world: TraitWorld) -> None:
    row = await world.put("interest", "喜欢爬山")
    await edit(world, row, Edit(1, kind="fact"))
    with pytest.raises(Outdated) as refused:
        await edit(world, row, Edit(1, content="喜欢徒步"))
    assert refused.value.current.version == 2
    with pytest.raises(Outdated):
        await drop(world, row, 1)
    same = await edit(world, row, Edit(2, kind="fact"))
    assert same is not None
    assert same.version == 2


async def test_a_trait_that_is_there_already_is_refused(world: TraitWorld) -> None:
    first = await world.put("interest", "喜欢爬山")
    second = await world.put("interest", "喜欢徒步")
    with pytest.raises(Taken) as refused:
        await edit(world, second, Edit(1, content="喜欢，爬山"))
    assert refused.value.current.id == first
    await drop(world, first)
    await edit(world, second, Edit(1, content="喜欢爬山"))
    async with world.database.transaction() as conn:
        old = {"kind": "interest", "content": "喜欢爬山", "locked": False, "dropped": None}
        assert not await trait_review.restore(conn, first, old, 2)
        assert not await trait_review.restore(conn, 99999, old, 1)
        assert await trait_review.restore(conn, second, None, 2)
    assert await world.trait(second) is None


async def test_a_stale_version_of_what_was_dropped_since_is_told_with_the_row(world: TraitWorld) -> None:
    row = await world.put("interest", "喜欢爬山")
    await drop(world, row, 1)
    with pytest.raises(Outdated) as refused:
        await edit(world, row, Edit(1, content="喜欢徒步"))
    assert (refused.value.current.version, refused.value.current.dropped_why) == (2, "person")
    with pytest.raises(Outdated):
        await drop(world, row, 1)


async def test_taking_back_and_doing_again_buries_the_old_words_again(world: TraitWorld) -> None:
    row = await world.put("interest", "喜欢爬山")
    await edit(world, row, Edit(1, content="喜欢徒步"))
    [(after,)] = await world.rows("SELECT after FROM audit")
    assert await undo(world)
    async with world.database.transaction() as conn:
        assert not await traits.refused(conn, world.conversation, MING, "喜欢爬山")
        assert await trait_review.restore(conn, row, after, 3)
        assert await traits.refused(conn, world.conversation, MING, "喜欢爬山")
        assert not await traits.refused(conn, world.conversation, MING, "喜欢徒步")
    assert await world.profile() == [("interest", "喜欢徒步")]


async def test_what_is_dropped_already_is_nobodys_to_edit(world: TraitWorld) -> None:
    row = await world.put("interest", "喜欢爬山", dropped_at=datetime.now(UTC), dropped_why="withdrawn")
    assert await edit(world, row, Edit(1, content="喜欢徒步")) is None
    assert await edit(world, TraitId(99999), Edit(1, content="喜欢徒步")) is None


async def test_saving_the_same_again_adds_evidence_and_keeps_the_newest(world: TraitWorld) -> None:
    pos = await world.says(MING, *(f"爬山{number}" for number in range(25)))
    rows = tuple([await world.row(number) for number in pos])
    async with world.database.transaction() as conn:
        first = await traits.save(conn, world.conversation, NewTrait(MING, "interest", "喜欢爬山", False, rows[:2]))
        again = await traits.save(conn, world.conversation, NewTrait(MING, "fact", "喜欢 爬山", False, rows[2:]))
    assert (first[1], again) == (True, (first[0], False))
    assert await world.supporting(first[0]) == pos[5:]
