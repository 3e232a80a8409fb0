"""A world per test."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from db.pool import Database
from tests.chat.world import World, open_world
from tests.llm.fake_service import FakeService, call, calls


@pytest.fixture
async def service() -> AsyncGenerator[FakeService, None]:
    """A model that says 好 to everything."""
    async with FakeService(calls(call("speak", content="好"))) as opened:
        yield opened


@pytest.fixture
async def world(database: Database, tmp_path: Path, service: FakeService) -> AsyncGenerator[World, None]:
    """The chat, connected."""
    async with open_world(database, tmp_path, service) as opened:
        opened.connect()
        yield opened
