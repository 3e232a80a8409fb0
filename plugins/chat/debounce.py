"""The quiet window: it restarts with each message, but never waits longer than its maximum after the first."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Debounce:
    """One window. Times are seconds of a monotonic clock."""

    quiet: float
    longest: float
    first: float | None = None
    latest: float = 0.0

    def touch(self, now: float) -> None:
        """A message came."""
        if self.first is None:
            self.first = now
        self.latest = now

    def due(self) -> float | None:
        """When the window closes; None while nothing came."""
        if self.first is None:
            return None
        return min(self.latest + self.quiet, self.first + self.longest)

    def reset(self) -> None:
        """Start over: what came so far is being looked at."""
        self.first = None
