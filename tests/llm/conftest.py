"""A usage book on the test's own database, and models over a fake service."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Protocol
from zoneinfo import ZoneInfo

import pytest

from db.models import ConversationId
from db.pool import Database
from llm.client import RetryPolicy
from llm.service import Models
from llm.usage import UsageBook
from settings import load_settings
from tests.llm.fake_service import FakeService

QUICK = RetryPolicy(first_wait=0.001, max_wait=0.002)


class Opener(Protocol):
    """``async with open_models(service, FAST_MODEL="x") as models``; no service: the demo model."""

    def __call__(self, service: FakeService | None, **values: str) -> AbstractAsyncContextManager[Models]: ...


@pytest.fixture
async def book(database: Database) -> AsyncGenerator[UsageBook, None]:
    """The usage book of a test."""
    opened = UsageBook(database, ZoneInfo("Asia/Shanghai"))
    yield opened
    await opened.aclose()


@pytest.fixture
def open_models(book: UsageBook) -> Opener:
    """Opens models by settings."""

    @asynccontextmanager
    async def opened(service: FakeService | None, **values: str) -> AsyncGenerator[Models, None]:
        served = {"llm_base_url": service.base_url, "llm_api_key": "sk-test-0001", "llm_model": "fake-chat"} if service else {}
        settings = load_settings({**served, **{name.lower(): value for name, value in values.items()}})
        models = Models.from_settings(settings, book, policy=QUICK)
        try:
            yield models
        finally:
            await models.aclose()

    return opened


@pytest.fixture
async def conversation(database: Database) -> ConversationId:
    """A group's row."""
    async with database.connection() as conn:
        cur = await conn.execute("INSERT INTO conversations (kind, target_id) VALUES ('group', 5700000011) RETURNING id")
        row = await cur.fetchone()
    assert row is not None
    return ConversationId(row[0])
