"""The texts that wait for a vector: questions before passages, each text once."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from llm.embedding.types import Limits, Outcome, TextKind


@dataclass(slots=True, eq=False)
class Job:
    """One text that waits. ``waiting`` counts those who still want it; one that nobody wants is not begun."""

    kind: TextKind
    text: str
    outcome: asyncio.Future[Outcome]
    waiting: int = 1


class Desk:
    """Takes texts in and hands them out in batches."""

    def __init__(self) -> None:
        self._queues: dict[TextKind, deque[Job]] = {"query": deque(), "passage": deque()}
        self._open: dict[tuple[TextKind, str], Job] = {}
        self._arrived = asyncio.Event()

    def length(self, kind: TextKind) -> int:
        """How many texts of a kind wait to be begun."""
        return len(self._queues[kind])

    def submit(self, kind: TextKind, text: str) -> Job:
        """Put a text in, or join those who wait for the same. Say ``leave`` when no longer waiting."""
        job = self._open.get((kind, text))
        if job is not None:
            job.waiting += 1
            return job
        job = Job(kind, text, asyncio.get_running_loop().create_future())
        self._open[kind, text] = job
        self._queues[kind].append(job)
        self._arrived.set()
        return job

    def leave(self, job: Job) -> None:
        """Stop waiting for a text."""
        job.waiting -= 1
        if job.waiting == 0 and job in self._queues[job.kind]:
            self._queues[job.kind].remove(job)
            self._forget(job)

    async def take(self, kinds: Sequence[TextKind], limits: Limits) -> list[Job]:
        """Wait for work and take a batch of the first kind that has any."""
        while True:
            self._arrived.clear()
            for kind in kinds:
                if batch := self._batch(self._queues[kind], limits):
                    return batch
            await self._arrived.wait()

    @staticmethod
    def _batch(queue: deque[Job], limits: Limits) -> list[Job]:
        batch: list[Job] = []
        chars = 0
        while queue and len(batch) < limits.texts:
            chars += len(queue[0].text)
            if batch and chars > limits.chars:
                break
            batch.append(queue.popleft())
        return batch

    def settle(self, job: Job, outcome: Outcome) -> None:
        """Hand a text's outcome to all who wait for it."""
        self._forget(job)
        if not job.outcome.done():
            job.outcome.set_result(outcome)

    def settle_all(self, outcome: Outcome) -> None:
        """Hand one outcome to all who wait for anything."""
        for queue in self._queues.values():
            queue.clear()
        for job in list(self._open.values()):
            self.settle(job, outcome)

    def _forget(self, job: Job) -> None:
        if self._open.get((job.kind, job.text)) is job:
            del self._open[job.kind, job.text]
