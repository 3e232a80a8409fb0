"""Calling the bot once at a time, in one group after another."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from bench.data.groups import Group, called
from bench.model import FakeModel
from bench.napcat import FakeNapCat
from bench.process import BARE, TOKEN, Process, bot_settings

GROUPS = 20


@dataclass(slots=True)
class Caller:
    """Somebody in each group who calls the bot in turn, so that no group's pace limit counts."""

    napcat: FakeNapCat
    groups: Sequence[Group]
    rng: Random = field(default_factory=lambda: Random(11))
    calls: int = 0

    async def call(self) -> float:
        """Mention the bot in the next group; gives when, in seconds since 1970."""
        group = self.groups[self.calls % len(self.groups)]
        self.calls += 1
        event = group.message(group.speaker(self.rng), called(self.rng))
        return await self.napcat.send(json.dumps(event, ensure_ascii=False))


@asynccontextmanager
async def running(
    command: Sequence[str], data_dir: Path, settings: Mapping[str, str], groups: Sequence[Group]
) -> AsyncGenerator[Caller]:
    """Start a program and connect to it."""
    async with Process(command, data_dir, settings) as process, FakeNapCat(process.port, TOKEN, groups) as napcat:
        yield Caller(napcat, groups)


@asynccontextmanager
async def bare_answering(data_dir: Path, model: FakeModel) -> AsyncGenerator[Caller]:
    """Start the baseline that asks the model at once."""
    groups = [Group(number) for number in range(GROUPS)]
    settings = bot_settings(groups, LOG_LEVEL="WARNING", BENCH_KIND="answer", BENCH_MODEL_URL=model.url)
    async with running(BARE, data_dir, settings, groups) as caller:
        yield caller
