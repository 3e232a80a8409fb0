"""The pool of connections, and the one error that says the database is away."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from selectors import EVENT_READ, DefaultSelector
from typing import TypeAlias, TypeVar

import psycopg
from psycopg import AsyncConnection
from psycopg.rows import TupleRow
from psycopg_pool import AsyncConnectionPool, PoolClosed, PoolTimeout, TooManyRequests

from db.text_query import FUZZY_THRESHOLD
from db.vectors import INDEX_SETTINGS

logger = logging.getLogger(__name__)

Connection: TypeAlias = "AsyncConnection[TupleRow]"
T = TypeVar("T")

STATEMENT_SECONDS = 30
LOCK_SECONDS = 10
_CONNECT_SECONDS = 5
_WAIT_SECONDS = 5.0
_CLOSE_SECONDS = 5.0
_PING_SECONDS = 1.0
_RETRY_SECONDS = 0.2
_CONNECT = {
    "autocommit": True,
    "connect_timeout": _CONNECT_SECONDS,
    "application_name": "qunyou",
    # A network that swallows everything is noticed within a minute; sockets on this machine ignore these.
    "keepalives_idle": 20,
    "keepalives_interval": 5,
    "keepalives_count": 4,
    "tcp_user_timeout": 40_000,
}
# 08: the connection broke. 53: no disk, memory or connection left. 57P: shutting down, starting, dropped.
# 58: the disk fails. 25006: read-only, as after a failover. 40: the victim of a deadlock. 55P03: somebody keeps a lock.
_AWAY = ("08", "53", "57P", "58", "25006", "40", "55P03")


class DatabaseUnavailable(Exception):
    """The database cannot be reached or cannot work now; the same call may succeed later."""


class Database:
    """Connections to one PostgreSQL. They come back by themselves after the server was away."""

    def __init__(self, url: str, *, max_size: int = 10) -> None:
        self._url = url
        self._max_size = max_size
        self._pool: AsyncConnectionPool[Connection] | None = None
        self._available = False
        self._probe: asyncio.Task[bool] | None = None

    @property
    def available(self) -> bool:
        """Whether the last use reached the database."""
        return self._available

    async def open(self, within: float = 10.0) -> None:
        """Connect. Raises DatabaseUnavailable when no connection came up ``within`` so many seconds."""
        if self._pool is not None:
            return
        pool = AsyncConnectionPool(
            self._url,
            connection_class=AsyncConnection[TupleRow],
            kwargs=_CONNECT,
            configure=_configure,
            check=_check,
            min_size=1,
            max_size=self._max_size,
            timeout=_WAIT_SECONDS,
            max_idle=120,
            max_lifetime=1800,
            # Short, so that the pause between two attempts never grows long: the next use starts afresh.
            reconnect_timeout=3,
            open=False,
        )
        try:
            await pool.open(wait=True, timeout=within)
        except PoolTimeout as error:
            await _close(pool)
            raise DatabaseUnavailable(f"{within:.0f} 秒内没有连上数据库") from error
        self._pool = pool
        self._available = True

    async def close(self) -> None:
        """Close all connections within a few seconds, whatever they do. A second call does nothing."""
        pool, self._pool = self._pool, None
        self._available = False
        if self._probe is not None:
            self._probe.cancel()
        if pool is not None:
            await _close(pool)

    @asynccontextmanager
    async def connection(self) -> AsyncGenerator[Connection]:
        """Lend a connection that commits each statement. Raises DatabaseUnavailable."""
        async with self._lend(_WAIT_SECONDS) as connection:
            yield connection

    @asynccontextmanager
    async def _lend(self, wait: float) -> AsyncGenerator[Connection]:
        if self._pool is None:
            raise DatabaseUnavailable("数据库连接还没有打开，或已经关闭")
        try:
            async with self._pool.connection(wait) as connection:
                yield connection
        except psycopg.Error as error:
            if not is_away(error):
                raise
            self._available = False
            raise DatabaseUnavailable(f"数据库暂时不可用：{str(error).strip() or type(error).__name__}") from error
        else:
            self._available = True

    @asynccontextmanager
    async def transaction(self) -> AsyncGenerator[Connection]:
        """Lend a connection inside a transaction, committed at the end of the block. Raises DatabaseUnavailable."""
        async with self.connection() as connection, connection.transaction():
            yield connection

    async def run(self, work: Callable[[Connection], Awaitable[T]], *, attempts: int = 4) -> T:
        """Do work that may be repeated safely, again with growing pauses while the database is away.

        Raises DatabaseUnavailable after the last attempt.
        """
        for attempt in range(1, attempts):
            try:
                async with self.connection() as connection:
                    return await work(connection)
            except DatabaseUnavailable as error:
                pause = _RETRY_SECONDS * 2**attempt
                logger.warning("第 %d 次访问数据库失败，%.1f 秒后再试：%s", attempt, pause, error)
                await asyncio.sleep(pause)
        async with self.connection() as connection:
            return await work(connection)

    async def ping(self) -> bool:
        """Ask the database for a sign of life; answers within two seconds."""
        # A query to a server that hangs takes long to cancel, so one probe stays out until it is answered.
        probe = self._probe
        if probe is None or probe.done():
            probe = self._probe = asyncio.create_task(self._answers(), name="database-probe")
        answered, _ = await asyncio.wait({probe}, timeout=2 * _PING_SECONDS)
        if not answered or probe.cancelled() or not probe.result():
            self._available = False
            return False
        return True

    async def _answers(self) -> bool:
        try:
            async with self._lend(_PING_SECONDS) as connection:
                await connection.execute("SELECT 1")
        except DatabaseUnavailable:
            return False
        return True


def is_away(error: psycopg.Error) -> bool:
    """Tell an error of the connection or the server's state from an error of the statement."""
    if isinstance(error, psycopg.InterfaceError | PoolTimeout | PoolClosed | TooManyRequests):
        return True
    if error.sqlstate is None:
        return isinstance(error, psycopg.OperationalError)
    return error.sqlstate.startswith(_AWAY)


async def _configure(connection: Connection) -> None:
    values = {
        "statement_timeout": f"{STATEMENT_SECONDS}s",
        "lock_timeout": f"{LOCK_SECONDS}s",
        "timezone": "UTC",
        # Each statement's work is small: nothing is worth compiling.
        "jit": "off",
        "pg_trgm.word_similarity_threshold": str(FUZZY_THRESHOLD),
        **INDEX_SETTINGS,
    }
    await connection.execute(
        "SELECT set_config(s.name, s.value, false) FROM unnest(%(names)s::text[], %(values)s::text[]) AS s (name, value)",
        {"names": list(values), "values": list(values.values())},
    )


async def _check(connection: Connection) -> None:
    """See whether the server hung up, before a connection is lent. Raises psycopg.Error.

    A server that ends says so on the socket: only where something came is it asked. Asking every time costs each use a round
    trip, and finds nothing more.
    """
    with DefaultSelector() as selector:
        selector.register(connection.fileno(), EVENT_READ)
        if not selector.select(0):
            return
    await AsyncConnectionPool.check_connection(connection)


async def _close(pool: AsyncConnectionPool[Connection]) -> None:
    try:
        async with asyncio.timeout(_CLOSE_SECONDS + 1):
            await pool.close(timeout=_CLOSE_SECONDS)
    except TimeoutError:
        logger.warning("数据库连接池 %.0f 秒内没有关完，不再等待", _CLOSE_SECONDS)
