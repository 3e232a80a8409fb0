"""A real PostgreSQL for tests: one server, one migrated template, one clone for each test."""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import tempfile
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import psutil
import psycopg
from psycopg import sql

from db.handles import HandleFile
from db.migrate import migrate
from db.postmaster import find_postmaster
from db.server import EmbeddedServer

_PREFIX = "qunyou-tests-"
# Tests may lose their data in a power cut.
FAST = {"fsync": "off", "full_page_writes": "off", "synchronous_commit": "off", "autovacuum": "off"}


def with_database(url: str, name: str) -> str:
    """Point a database URL at another database of the same server."""
    return urlunsplit(urlsplit(url)._replace(path=f"/{name}"))


@contextmanager
def postgres_server() -> Generator[str]:
    """Give the URL of a server: TEST_DATABASE_URL, or an embedded one in a folder of its own."""
    given = os.environ.get("TEST_DATABASE_URL")
    if given:
        yield given
        return
    _sweep()
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
    server = EmbeddedServer.start(folder, extra=FAST)
    try:
        yield server.url
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)


def _sweep() -> None:
    """Stop the servers of test runs that were killed, and remove their folders."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with suppress(OSError, psutil.Error):
            handles = folder / "postgres.handles.json"
            if not handles.exists() or HandleFile(handles).live():
                continue
            postmaster = find_postmaster(folder / "postgres")
            if postmaster is not None:
                process = psutil.Process(postmaster.pid)
                process.send_signal(signal.SIGINT)
                process.wait(10)
            shutil.rmtree(folder, ignore_errors=True)


@dataclass(slots=True)
class DatabaseFactory:
    """Makes databases on a server. ``admin_url`` must be allowed to create them."""

    admin_url: str
    prefix: str = field(default_factory=lambda: f"qunyou_test_{os.getpid()}")
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    async def empty(self) -> str:
        """Make an empty database; returns its URL."""
        return await self._create(sql.SQL("CREATE DATABASE {name} TEMPLATE template0 ENCODING 'UTF8'"))

    async def migrated(self) -> str:
        """Make a database with all tables; returns its URL."""
        url = await self.empty()
        await migrate(url)
        return url

    async def clone(self, template_url: str) -> str:
        """Copy a database that nobody is connected to; returns the copy's URL."""
        # Its files are copied as they are: through the log a copy takes six times as long.
        template = urlsplit(template_url).path[1:]
        statement = sql.SQL("CREATE DATABASE {name} TEMPLATE {template} STRATEGY file_copy")
        return await self._create(statement, template)

    async def drop(self, url: str) -> None:
        """Remove a database, whoever is connected to it."""
        name = urlsplit(url).path[1:]
        await self._execute(sql.SQL("DROP DATABASE IF EXISTS {name} WITH (FORCE)").format(name=sql.Identifier(name)))

    async def _create(self, statement: sql.SQL, template: str = "template0") -> str:
        name = f"{self.prefix}_{next(self._numbers)}"
        await self._execute(statement.format(name=sql.Identifier(name), template=sql.Identifier(template)))
        return with_database(self.admin_url, name)

    async def _execute(self, statement: sql.Composed) -> None:
        async with await psycopg.AsyncConnection.connect(self.admin_url, autocommit=True) as connection:
            await connection.execute(statement)
