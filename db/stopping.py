"""Stopping background tasks for certain."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

AGAIN_SECONDS = 2.0


async def stop(tasks: Iterable[asyncio.Task[object]]) -> None:
    """Cancel tasks and wait until they have ended, whatever came of them.

    One that goes on is cancelled again: until Python 3.12 ``asyncio.wait_for``, with which the pool waits for a connection,
    swallows a cancellation that comes in the moment of success. A loop would then work on for ever.
    """
    waiting = set(tasks)
    while waiting:
        for task in waiting:
            task.cancel()
        _, waiting = await asyncio.wait(waiting, timeout=AGAIN_SECONDS)
