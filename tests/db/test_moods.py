"""Mood: steps within bounds, and the way back to rest, the same in Python and in SQL."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from db import moods
from db.mind import read_mind
from db.models import ConversationId
from db.moods import HALF_LIFE, REST, Mood, decayed
from db.pool import Connection, Database
from tests.agent.world import World

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)


@pytest.fixture
async def where(database: Database, tmp_path: Path) -> ConversationId:
    """A conversation."""
    return (await World.create(database, tmp_path)).conversation


async def read(conn: Connection, where: ConversationId, at: datetime = NOW) -> Mood:
    """The mood as a turn reads it."""
    return (await read_mind(conn, where, [], at)).mood


def test_a_mood_halves_with_each_half_life_and_never_grows() -> None:
    mood = Mood(0.8, -0.4, 1.0)
    assert decayed(mood, HALF_LIFE) == Mood(0.4, -0.2, 0.5)
    assert decayed(mood, 2 * HALF_LIFE) == Mood(0.2, -0.1, 0.25)
    assert decayed(mood, timedelta(hours=-5)) == mood
    assert abs(decayed(mood, timedelta(days=30)).valence) < 1e-9


async def test_a_conversation_without_a_mood_is_at_rest(database: Database, where: ConversationId) -> None:
    async with database.connection() as conn:
        assert await read(conn, where, NOW) == REST


async def test_a_step_adds_to_what_is_left(database: Database, where: ConversationId) -> None:
    async with database.connection() as conn:
        assert await moods.move(conn, where, Mood(0.3, -0.3, 0.1), NOW) == Mood(0.3, -0.3, 0.1)
        later = NOW + HALF_LIFE
        assert await read(conn, where, later) == Mood(0.15, -0.15, 0.05)
        moved = await moods.move(conn, where, Mood(0.3, 0.0, 0.0), later)
        assert (moved.valence, moved.energy, moved.sociability) == pytest.approx((0.45, -0.15, 0.05))
        assert await read(conn, where, later) == moved


async def test_sql_and_python_decay_alike(database: Database, where: ConversationId) -> None:
    start = Mood(0.9, -0.7, 0.3)
    odd = timedelta(hours=7, minutes=13, microseconds=123457)
    async with database.connection() as conn:
        await moods.move(conn, where, start, NOW)
        seen = await read(conn, where, NOW + odd)
        written = await moods.move(conn, where, REST, NOW + odd)
    assert (written.valence, written.energy, written.sociability) == pytest.approx(
        (seen.valence, seen.energy, seen.sociability), rel=1e-9
    )


async def test_a_mood_stays_within_its_bounds(database: Database, where: ConversationId) -> None:
    async with database.connection() as conn:
        for _ in range(5):
            mood = await moods.move(conn, where, Mood(0.3, -0.3, 0.3), NOW)
        assert mood == Mood(1.0, -1.0, 1.0)
        assert await moods.move(conn, where, Mood(-9, 9, -9), NOW) == Mood(-1.0, 1.0, -1.0)


async def test_a_clock_that_goes_back_changes_nothing_by_itself(database: Database, where: ConversationId) -> None:
    async with database.connection() as conn:
        await moods.move(conn, where, Mood(0.4, 0, 0), NOW)
        assert (await moods.move(conn, where, REST, NOW - HALF_LIFE)).valence == pytest.approx(0.4)
        assert (await read(conn, where, NOW + HALF_LIFE)).valence == pytest.approx(0.2)


async def test_steps_at_the_same_moment_all_count(database: Database, where: ConversationId) -> None:
    async def step() -> None:
        async with database.connection() as conn:
            await moods.move(conn, where, Mood(0.1, 0, 0), NOW)

    await asyncio.gather(*(step() for _ in range(6)))
    async with database.connection() as conn:
        assert (await read(conn, where, NOW)).valence == pytest.approx(0.6)
