"""Whether the embedding service is away, and when it is asked again."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from llm.embedding.types import TextKind

logger = logging.getLogger(__name__)

FIRST_PAUSE = 5.0
MAX_PAUSE = 300.0
QUERY_PAUSE = 30.0
"""A question is tried again sooner than the background work: people notice when it finds less."""


class Outage:
    """Counts failures in a row. Says so once in the log when they begin, and once when they end."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._reason: str | None = None
        self._failures = 0
        self._failed_at = 0.0
        self._pause = 0.0

    @property
    def reason(self) -> str | None:
        """Why it is away; None while it is not."""
        return self._reason

    @property
    def remaining(self) -> float:
        """Seconds until background work tries again."""
        return max(0.0, self._failed_at + self._pause - self._clock()) if self._reason is not None else 0.0

    def blocks(self, kind: TextKind) -> bool:
        """Tell whether a text of this kind need not be tried yet."""
        if self._reason is None:
            return False
        pause = min(self._pause, QUERY_PAUSE) if kind == "query" else self._pause
        return self._clock() < self._failed_at + pause

    def failed(self, reason: str, retry_after: float | None = None) -> None:
        """Note a failure; the pause doubles with each in a row, and is never shorter than the service asked for."""
        if self._reason is None:
            logger.warning("向量服务不可用，先只用文字检索，好了会自动接上：%s", reason)
        else:
            logger.debug("向量服务仍不可用：%s", reason)
        self._reason = reason
        self._pause = min(MAX_PAUSE, max(FIRST_PAUSE * 2.0 ** min(self._failures, 10), retry_after or 0.0))
        self._failures += 1
        self._failed_at = self._clock()

    def recovered(self) -> None:
        """Note a success."""
        if self._reason is not None:
            logger.info("向量服务恢复了")
        self._reason = None
        self._failures = 0
