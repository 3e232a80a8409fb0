"""Says how far a long run of embedding is: in the log, and as a bar in a terminal."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

logger = logging.getLogger(__name__)

WORTH_SAYING = 200
"""A run with fewer rows is over before anybody reads of it."""
STEPS = 10
STEP_SECONDS = 30.0


class ProgressReport:
    """One run from the first batch to the last; ``show`` begins it when it is long enough."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, console: Console | None = None) -> None:
        self._clock = clock
        self._console = console
        self._begun_at: float | None = None
        self._begun_with = 0
        self._said_at = 0.0
        self._said = 0
        self._bar: Progress | None = None
        self._task = TaskID(0)

    def show(self, done: int, total: int) -> None:
        """Tell how many rows of how many are done."""
        if self._begun_at is None:
            if total - done >= WORTH_SAYING:
                self._begin(done, total)
            return
        if self._bar is not None:
            self._bar.update(self._task, completed=done, total=total, refresh=True)
        if done >= total:
            self.finish()
            return
        step = STEPS * done // total
        if step > self._said or self._clock() - self._said_at >= STEP_SECONDS:
            logger.info("正在计算向量：%d/%d（%d%%）%s", done, total, 100 * done // total, self._left(done, total))
            self._said, self._said_at = step, self._clock()

    def _begin(self, done: int, total: int) -> None:
        logger.info("有 %d 条记忆和消息要计算向量，在后台进行，期间检索照常", total - done)
        self._begun_at, self._begun_with = self._clock(), done
        self._said, self._said_at = STEPS * done // total, self._clock()
        console = self._console or (Console(stderr=True) if sys.stderr.isatty() else None)
        if console is not None:
            columns = (TextColumn("计算向量"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
            self._bar = Progress(*columns, console=console, auto_refresh=False, transient=True)
            self._task = self._bar.add_task("", total=total, completed=done)
            self._bar.start()

    def _left(self, done: int, total: int) -> str:
        if self._begun_at is None or done <= self._begun_with:
            return ""
        seconds = (self._clock() - self._begun_at) / (done - self._begun_with) * (total - done)
        return f"，大约还要 {max(1, round(seconds / 60))} 分钟"

    def finish(self) -> None:
        """End a run that has nothing left to do."""
        if self._begun_at is not None:
            logger.info("向量都已算好，用了 %.0f 秒", self._clock() - self._begun_at)
        self.end()

    def end(self) -> None:
        """End the run, also before it is done."""
        self._begun_at = None
        if self._bar is not None:
            self._bar.stop()
            self._bar = None
