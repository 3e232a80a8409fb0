"""Background tasks end when they are stopped, also those that a cancellation passed by."""

from __future__ import annotations

import asyncio

import pytest

from db import stopping
from db.stopping import stop


async def test_a_loop_that_swallowed_the_first_cancellation_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stopping, "AGAIN_SECONDS", 0.01)
    swallowed = 0

    async def loop() -> None:
        nonlocal swallowed
        while True:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                swallowed += 1
                if swallowed > 2:
                    raise

    task = asyncio.create_task(loop())
    await asyncio.sleep(0)
    async with asyncio.timeout(10):
        await stop([task])
    assert task.cancelled()
    assert swallowed == 3


async def test_what_ended_with_an_error_is_stopped_too() -> None:
    async def fails() -> None:
        raise ValueError("坏了")

    failed = asyncio.create_task(fails())
    await asyncio.wait({failed})
    await stop([failed, asyncio.create_task(asyncio.sleep(60))])
    assert isinstance(failed.exception(), ValueError)


async def test_nothing_to_stop() -> None:
    await stop([])
