"""The working note, and the one read of what the bot brings to a turn."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from psycopg.errors import CheckViolation

from db import intimacy, moods, notes
from db.intimacy import Change
from db.mind import Mind, read_mind
from db.moods import HALF_LIFE, Mood
from db.pool import Database
from tests.agent.world import MING, WEI, World

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)


@pytest.fixture
async def world(database: Database, tmp_path: Path) -> World:
    """A group with members."""
    return await World.create(database, tmp_path)


async def test_a_conversation_has_one_note(world: World) -> None:
    async with world.database.connection() as conn:
        assert (await read_mind(conn, world.conversation, [], NOW)).note == ""
        await notes.write(conn, world.conversation, "周六提醒大家带零食", NOW)
        await notes.write(conn, world.conversation, "改到周日", NOW)
        assert (await read_mind(conn, world.conversation, [], NOW)).note == "改到周日"
        assert await notes.clear(conn, world.conversation)
        assert not await notes.clear(conn, world.conversation)
        assert (await read_mind(conn, world.conversation, [], NOW)).note == ""


async def test_a_note_has_at_most_300_characters(world: World) -> None:
    async with world.database.connection() as conn:
        await notes.write(conn, world.conversation, "长" * notes.NOTE_CHARS, NOW)
        with pytest.raises(CheckViolation):
            await notes.write(conn, world.conversation, "长" * (notes.NOTE_CHARS + 1), NOW)


async def test_a_mind_that_never_felt_anything_is_empty(world: World) -> None:
    async with world.database.connection() as conn:
        assert await read_mind(conn, world.conversation, [MING], NOW) == Mind()


async def test_a_mind_is_read_as_it_is_now(world: World) -> None:
    turn = (await world.request()).turn_id
    async with world.database.connection() as conn:
        await notes.write(conn, world.conversation, "等老王的照片", NOW)
        await moods.move(conn, world.conversation, Mood(0.6, -0.2, 0), NOW)
        for user in (MING, WEI):
            await intimacy.move(conn, Change(world.conversation, user, turn, 2, "聊得来"), NOW)
        await conn.execute(
            """
            INSERT INTO memories (conversation_id, subject_kind, kind, content, content_key, search, source)
            VALUES (%(c)s, 'group', 'fact', '周六桌游', 'k', 's', 'agent')
            """,
            {"c": world.conversation},
        )
        mind = await read_mind(conn, world.conversation, [MING], NOW + HALF_LIFE)
        assert (mind.remembers, mind.note, mind.mood) == (True, "等老王的照片", Mood(0.3, -0.1, 0))
        assert list(mind.liking) == [MING]
        await conn.execute("UPDATE memories SET status = 'archived', archived_at = now()")
        assert not (await read_mind(conn, world.conversation, [], NOW)).remembers
