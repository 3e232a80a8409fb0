"""Fixtures of the agent's tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from db.pool import Database
from tests.agent.world import World


@pytest.fixture
async def world(database: Database, tmp_path: Path) -> World:
    """A group in a real database."""
    return await World.create(database, tmp_path)
