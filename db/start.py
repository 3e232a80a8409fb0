"""Brings a database up at start: ours or another's, checked, migrated, with an open pool."""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import dataclass, field
from pathlib import Path

import psycopg
from psycopg.conninfo import conninfo_to_dict

from db.checks import DatabaseProblem, check_database
from db.migrate import migrate
from db.pool import Database, DatabaseUnavailable
from db.server import EmbeddedServer, ServerProblem
from settings import Settings

logger = logging.getLogger(__name__)

REACH_SECONDS = 10.0
_WATCH_SECONDS = 5.0
_TRIM_SECONDS = 3600.0


@dataclass(slots=True)
class RunningDatabase:
    """An open database, and the server behind it when it is ours."""

    database: Database
    server: EmbeddedServer | None
    _watch: asyncio.Task[None] | None = field(default=None, repr=False)

    async def close(self) -> None:
        """Close the pool and give the embedded server back, within bounds. A second call does nothing."""
        watch, self._watch = self._watch, None
        if watch is not None:
            watch.cancel()
            await asyncio.wait([watch])
        await self.database.close()
        if self.server is not None:
            await _stop(self.server)


async def start_database(settings: Settings) -> RunningDatabase:
    """Start or reach the database that the settings want. Raises DatabaseProblem."""
    if settings.database_url:
        return RunningDatabase(await _open(settings.database_url), None)
    server = await _start_embedded(settings.data_dir)
    try:
        database = await _open(server.url)
    except BaseException:
        await _stop(server)
        raise
    return RunningDatabase(database, server, asyncio.create_task(_keep(server), name="embedded-postgres"))


async def _start_embedded(data_dir: Path) -> EmbeddedServer:
    start = asyncio.create_task(asyncio.to_thread(EmbeddedServer.start, data_dir))
    try:
        return await asyncio.shield(start)
    except ServerProblem as error:
        raise DatabaseProblem(str(error)) from error
    except asyncio.CancelledError:
        # The thread cannot be stopped: give back what it brings.
        await asyncio.wait([start])
        if start.exception() is None:
            await _stop(start.result())
        raise


async def _open(url: str) -> Database:
    await _reach(url)
    try:
        await check_database(url)
        await migrate(url)
        database = Database(url)
        await database.open()
    except (psycopg.OperationalError, DatabaseUnavailable) as error:
        raise DatabaseProblem(f"数据库 {place(url)} 在启动途中断开了（{_first_line(error)}）：请查看它的日志后再启动") from error
    except psycopg.Error as error:
        raise DatabaseProblem(f"数据库 {place(url)} 不能用（{_first_line(error)}）：请检查 DATABASE_URL 的权限和版本") from error
    return database


async def _reach(url: str) -> None:
    """Connect once, trying again for a while. Raises DatabaseProblem."""
    try:
        where = place(url)
    except psycopg.ProgrammingError as error:
        raise DatabaseProblem("DATABASE_URL 的格式不对：应为 postgresql://用户:密码@主机:端口/库名") from error
    deadline = time.monotonic() + REACH_SECONDS
    while True:
        try:
            async with await psycopg.AsyncConnection.connect(url, autocommit=True, connect_timeout=5):
                return
        except psycopg.OperationalError as error:
            final = refusal(str(error))
            if final is None and time.monotonic() + 1 < deadline:
                logger.info("还连不上数据库 %s，继续等待", where)
                await asyncio.sleep(1)
                continue
            raise DatabaseProblem(
                f"连不上数据库 {where}（{_first_line(error)}）：{final or '请确认它已启动、地址和端口没有写错'}"
            ) from error


def refusal(message: str) -> str | None:
    """Say what to mend when a server answered but refused us for good; None: it may still come up."""
    if "authentication failed" in message or "no password supplied" in message:
        return "请检查 DATABASE_URL 里的用户名和密码"
    if "does not exist" in message:
        return "请先建好这个用户和数据库，或改正 DATABASE_URL"
    if "no pg_hba.conf entry" in message:
        return "请在数据库的 pg_hba.conf 里允许这台机器连接"
    return None


def place(url: str) -> str:
    """Name a database for people: host, port and database, never user or password. Raises psycopg.ProgrammingError."""
    parts = conninfo_to_dict(url)
    host = parts.get("host") or parts.get("hostaddr") or "localhost"
    return f"{host}:{parts.get('port') or 5432}/{parts.get('dbname') or ''}"


def _first_line(error: Exception) -> str:
    text = str(error).strip() or type(error).__name__
    return text.splitlines()[0][:300]


async def _stop(server: EmbeddedServer) -> None:
    try:
        await asyncio.to_thread(server.stop)
    except ServerProblem as error:
        logger.warning("%s", error)


async def _keep(server: EmbeddedServer) -> None:
    """Start the embedded server again when it dies, and keep its log small."""
    trimmed = time.monotonic()
    while True:
        await asyncio.sleep(_WATCH_SECONDS)
        try:
            await asyncio.to_thread(server.revive)
            if time.monotonic() - trimmed > _TRIM_SECONDS:
                trimmed = time.monotonic()
                await asyncio.to_thread(server.trim_log)
        except Exception:
            logger.exception("照看内置数据库时出错，%.0f 秒后再试", _WATCH_SECONDS)
