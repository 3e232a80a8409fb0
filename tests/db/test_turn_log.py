"""The record of a turn, on a real database."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.recorder import TurnRecorder
from db.models import TurnBlock, TurnStep
from db.pool import Database
from db.turn_log import save_blocks, save_step
from tests.agent.world import START, World


@pytest.fixture
async def world(database: Database, tmp_path: Path) -> World:
    """A group with members."""
    return await World.create(database, tmp_path)


BLOCKS = [TurnBlock(1, 0, "tools", "static", 500, 2000, "kept"), TurnBlock(1, 1, "history:0", "chunk", 0, 0, "dropped")]


async def test_blocks_and_steps_are_stored_once(world: World) -> None:
    request = await world.request()
    step = TurnStep(1, "tool", "speak", {"content": "好", "mentions": [1]}, "已发送", True, START, 12)
    async with world.database.connection() as conn:
        for _ in range(2):
            await save_blocks(conn, request.turn_id, BLOCKS)
            await save_step(conn, request.turn_id, step)
        cur = await conn.execute("SELECT arguments, result, ok, started_at, ms FROM turn_steps")
        assert await cur.fetchall() == [({"content": "好", "mentions": [1]}, "已发送", True, START, 12)]
        cur = await conn.execute("SELECT no, name, stability, tokens, chars, state FROM turn_blocks ORDER BY no")
        assert await cur.fetchall() == [
            (0, "tools", "static", 500, 2000, "kept"),
            (1, "history:0", "chunk", 0, 0, "dropped"),
        ]


async def test_what_postgresql_cannot_hold_is_replaced(world: World) -> None:
    request = await world.request()
    async with TurnRecorder(world.database, request.turn_id, world.clock) as recorder:
        with recorder.step("tool", "speak\x00") as step:
            step.arguments = {"content": "一\x00二\ud800", "mentions": ["\x00", 3], "n": 1, "x": float("nan")}
            step.result = "坏\ud800" + "长" * 5000
    async with world.database.connection() as conn:
        cur = await conn.execute("SELECT name, arguments, length(result) FROM turn_steps")
        name, arguments, chars = await cur.fetchone() or ("", {}, 0)
    assert (name, arguments["content"], arguments["n"], chars) == ("speak\ufffd", "一\ufffd二?", 1, 2000)
    assert (arguments["mentions"], arguments["x"]) == (["\ufffd", 3], "nan")


async def test_a_record_that_cannot_be_written_does_not_stop_the_turn(world: World, caplog: pytest.LogCaptureFixture) -> None:
    request = await world.request()
    async with TurnRecorder(world.database, request.turn_id, world.clock) as recorder:
        recorder.blocks([TurnBlock(1, 0, "tools", "sometimes", 1, 1, "kept")])  # pyright: ignore[reportArgumentType]
        with recorder.step("model", "chat") as step:
            step.ok = True
    assert "的记录时出错" in caplog.text
    assert await world.steps(request) == [("model", "chat", True, None)]
