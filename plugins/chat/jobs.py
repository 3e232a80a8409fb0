"""Background work: started and forgotten, but counted, bounded and logged when it fails."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine

from nonebot.log import logger

AT_ONCE = 8
WAITING = 2000


class Jobs:
    """Runs coroutines beside everything else, a few at once."""

    def __init__(self, *, at_once: int = AT_ONCE, waiting: int = WAITING) -> None:
        self._places = asyncio.Semaphore(at_once)
        self._waiting = waiting
        self._tasks: set[asyncio.Task[None]] = set()
        self._later: dict[str, asyncio.TimerHandle] = {}

    def start(self, what: str, work: Coroutine[object, object, object], *, urgent: bool = False) -> None:
        """Start a job; ``what`` is for the log. Too many waiting: it is dropped, with a log line.

        ``urgent``: somebody waits for it, so it does not stand in line behind work that may take long.
        """
        if len(self._tasks) >= self._waiting:
            work.close()
            logger.warning(f"后台任务太多，跳过：{what}")
            return
        task = asyncio.create_task(self._run(what, work, contextlib.nullcontext() if urgent else self._places))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(lambda _: work.close())  # also when it was cancelled before its first step

    def start_after(self, seconds: float, what: str, work: Callable[[], Coroutine[object, object, object]]) -> None:
        """Start a job later, once; a second request for the same ``what`` meanwhile is the same request."""
        if what in self._later:
            return

        def due() -> None:
            del self._later[what]
            self.start(what, work())

        self._later[what] = asyncio.get_running_loop().call_later(seconds, due)

    async def close(self) -> None:
        """Cancel what still runs or waits."""
        for timer in self._later.values():
            timer.cancel()
        self._later.clear()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=5)

    async def _run(
        self, what: str, work: Coroutine[object, object, object], place: contextlib.AbstractAsyncContextManager[None]
    ) -> None:
        try:
            async with place:
                await work
        except Exception:  # noqa: BLE001 - a background job
            logger.exception(f"后台任务出错：{what}")
