"""Fixtures for everything that touches the database: it is always a real one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from db.pool import Database
from tests.support import DatabaseFactory, postgres_server


@pytest.fixture(scope="session")
def databases() -> Iterator[DatabaseFactory]:
    """The factory of databases on the session's server."""
    with postgres_server() as url:
        yield DatabaseFactory(url)


@pytest.fixture(scope="session")
async def template_url(databases: DatabaseFactory) -> AsyncIterator[str]:
    """A migrated database to copy from; nothing may connect to it."""
    url = await databases.migrated()
    yield url
    await databases.drop(url)


@pytest.fixture
async def database_url(databases: DatabaseFactory, template_url: str) -> AsyncIterator[str]:
    """The URL of this test's own migrated database."""
    url = await databases.clone(template_url)
    yield url
    await databases.drop(url)


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    """This test's own database, open."""
    opened = Database(database_url)
    await opened.open()
    yield opened
    await opened.close()
