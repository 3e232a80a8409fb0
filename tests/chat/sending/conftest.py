"""The chat over a NapCat in whose sends things happen."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from db.pool import Database
from tests.chat.edges import BusyNapCat
from tests.chat.world import World, open_world
from tests.llm.fake_service import FakeService


@pytest.fixture
def napcat() -> BusyNapCat:
    """A NapCat in whose sends things happen."""
    return BusyNapCat()


@pytest.fixture
async def world(
    database: Database, tmp_path: Path, service: FakeService, napcat: BusyNapCat, monkeypatch: pytest.MonkeyPatch
) -> AsyncGenerator[World, None]:
    """The chat, connected, with a pace that does not slow tests down."""
    monkeypatch.setattr("plugins.chat.outbox.GAP_SECONDS", 0.01)
    async with open_world(database, tmp_path, service, napcat) as opened:
        opened.connect()
        # What QQ says on a connect must not race with what the test does.
        await opened.until(lambda: bool(napcat.called("get_group_msg_history") and napcat.called("get_group_member_list")))
        yield opened
