"""Liking: four steps, once a turn and member, logged, and the slow way back to the middle."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from db import intimacy
from db.intimacy import HALF_LIFE, POINTS, Change, Step, decayed, level
from db.mind import read_mind
from db.models import TurnId
from db.pool import Database
from tests.agent.world import MING, STRANGER, WEI, World

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)


@pytest.fixture
async def world(database: Database, tmp_path: Path) -> World:
    """A group with members."""
    return await World.create(database, tmp_path)


async def move(world: World, turn: TurnId, step: Step, user: int = MING, at: datetime = NOW) -> float | None:
    """Make one step."""
    async with world.database.connection() as conn:
        return await intimacy.move(conn, Change(world.conversation, user, turn, step, "帮了大忙"), at)


async def scores(world: World, at: datetime = NOW) -> dict[int, float]:
    """The scores of everybody."""
    async with world.database.connection() as conn:
        return dict((await read_mind(conn, world.conversation, [MING, WEI, STRANGER], at)).liking)


def test_levels_are_named_from_dislike_to_friendship() -> None:
    named = [level(score) for score in (-100, -40, -39, -8, 0, 7.9, 8, 29, 30, 59, 60, 100)]
    assert named == ["反感", "冷淡", "冷淡", "普通", "普通", "普通", "熟悉", "熟悉", "亲近", "亲近", "要好", "要好"]


def test_a_score_halves_in_thirty_days() -> None:
    assert decayed(40, HALF_LIFE) == 20
    assert decayed(-40, 2 * HALF_LIFE) == -10
    assert decayed(40, timedelta(days=-9)) == 40


async def test_steps_are_worth_four_and_ten_points(world: World) -> None:
    after: list[float | None] = []
    for step in POINTS:
        after.append(await move(world, (await world.request()).turn_id, step))
    assert after == [-10, -14, -10, 0]


async def test_a_turn_moves_each_member_once(world: World) -> None:
    turn = (await world.request()).turn_id
    assert await move(world, turn, 2) == 10
    assert await move(world, turn, 2) is None
    assert await move(world, turn, -1) is None
    assert await move(world, turn, -1, WEI) == -4
    assert await scores(world) == {MING: 10, WEI: -4}


async def test_two_steps_of_one_turn_at_once_end_as_one(world: World) -> None:
    turn = (await world.request()).turn_id
    made = await asyncio.gather(*(move(world, turn, 1) for _ in range(6)))
    assert [score for score in made if score is not None] == [4]
    assert await scores(world) == {MING: 4}


async def test_every_step_is_logged_with_its_reason_and_score(world: World) -> None:
    first, second = (await world.request()).turn_id, (await world.request()).turn_id
    await move(world, first, 2)
    await move(world, second, -1, at=NOW + HALF_LIFE)
    async with world.database.connection() as conn:
        cur = await conn.execute("SELECT turn_id, user_id, step, reason, score FROM intimacy_log ORDER BY id")
        assert await cur.fetchall() == [(first, MING, 2, "帮了大忙", 10.0), (second, MING, -1, "帮了大忙", 1.0)]


async def test_scores_decay_when_read_and_when_written(world: World) -> None:
    await move(world, (await world.request()).turn_id, 2)
    later = NOW + timedelta(days=17, hours=5)
    read = (await scores(world, later))[MING]
    assert read == pytest.approx(decayed(10, timedelta(days=17, hours=5)))
    assert await move(world, (await world.request()).turn_id, 1, at=later) == pytest.approx(read + 4)


async def test_a_score_stays_within_its_bounds(world: World) -> None:
    for _ in range(12):
        score = await move(world, (await world.request()).turn_id, -2)
    assert score == -100
