"""The pool: what it lends, what it says when the database is away, and how it comes back."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import time
from collections.abc import AsyncGenerator, Generator
from pathlib import Path

import psutil
import psycopg
import pytest
from psycopg_pool import PoolTimeout

from db.pool import Connection, Database, DatabaseUnavailable, is_away
from db.server import EmbeddedServer
from db.text_query import FUZZY_THRESHOLD
from tests.support import FAST


@pytest.fixture(scope="module")
def folder() -> Generator[Path]:
    place = Path(tempfile.mkdtemp(prefix="qunyou-pool-"))
    yield place
    shutil.rmtree(place, ignore_errors=True)


@pytest.fixture
async def own_server(folder: Path) -> AsyncGenerator[EmbeddedServer]:
    """A server that a test may stop and kill."""
    server = await asyncio.to_thread(EmbeddedServer.start, folder, extra=FAST)
    yield server
    server.stop()


def died(server: EmbeddedServer) -> None:
    while server.running:
        time.sleep(0.01)


async def number(connection: Connection) -> int:
    row = await (await connection.execute("SELECT 5000000011::bigint")).fetchone()
    assert row is not None
    return int(row[0])


async def test_a_connection_commits_each_statement(database: Database) -> None:
    async with database.connection() as connection:
        await connection.execute("INSERT INTO accounts (account_id) VALUES (5000000011)")
    async with database.connection() as connection:
        row = await (await connection.execute("SELECT account_id FROM accounts")).fetchone()
    assert row == (5000000011,)


async def test_a_transaction_is_all_or_nothing(database: Database) -> None:
    async def half() -> None:
        async with database.transaction() as connection:
            await connection.execute("INSERT INTO accounts (account_id) VALUES (5000000011)")
            raise RuntimeError("half way")

    with pytest.raises(RuntimeError, match="half way"):
        await half()
    async with database.connection() as connection:
        row = await (await connection.execute("SELECT count(*) FROM accounts")).fetchone()
    assert row == (0,)


async def test_each_connection_is_set_up(database: Database) -> None:
    async with database.connection() as connection:
        row = await (
            await connection.execute(
                """
                SELECT current_setting('statement_timeout'), current_setting('timezone'), current_setting('application_name'),
                       current_setting('hnsw.iterative_scan'), current_setting('jit')
                """
            )
        ).fetchone()
    assert row == ("30s", "UTC", "qunyou", "relaxed_order", "off")


async def test_what_is_like_a_keyword_is_what_the_server_takes_for_it(database: Database) -> None:
    async with database.connection() as connection:
        cur = await connection.execute("SELECT word_similarity('a', 'a'), current_setting('pg_trgm.word_similarity_threshold')")
        assert await cur.fetchone() == (1, str(FUZZY_THRESHOLD))


async def test_errors_of_a_statement_pass_unchanged(database: Database) -> None:
    with pytest.raises(psycopg.errors.UndefinedTable):
        async with database.connection() as connection:
            await connection.execute("SELECT * FROM nowhere")
    with pytest.raises(psycopg.errors.QueryCanceled):
        async with database.connection() as connection:
            await connection.execute("SET statement_timeout = '20ms'; SELECT pg_sleep(30)")
    assert database.available


async def test_a_lock_that_somebody_keeps_says_that_the_same_may_succeed_later(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("db.pool.LOCK_SECONDS", 0.1)
    database = Database(database_url)
    await database.open()
    async with database.connection() as connection:
        await connection.execute("INSERT INTO accounts (account_id) VALUES (5000000011)")
    async with await psycopg.AsyncConnection.connect(database_url) as other:
        await other.execute("SELECT FROM accounts FOR UPDATE")
        with pytest.raises(DatabaseUnavailable):
            async with database.transaction() as connection:
                await connection.execute("UPDATE accounts SET nickname = '小满'")
    await database.run(lambda connection: connection.execute("UPDATE accounts SET nickname = '小满'"), attempts=1)
    await database.close()


async def test_a_read_only_server_is_away(database: Database) -> None:
    with pytest.raises(DatabaseUnavailable):
        async with database.transaction() as connection:
            await connection.execute("SET TRANSACTION READ ONLY; INSERT INTO accounts (account_id) VALUES (5000000011)")
    assert await database.ping()


async def test_a_connection_cut_in_the_middle_says_that_the_database_is_away(database: Database) -> None:
    with pytest.raises(DatabaseUnavailable):
        async with database.connection() as connection:
            await connection.execute("SELECT pg_terminate_backend(pg_backend_pid())")
    assert not database.available
    assert await database.ping()
    assert database.available


async def test_idle_connections_that_were_cut_are_replaced_unseen(database: Database, database_url: str) -> None:
    assert await database.run(number) == 5000000011
    async with await psycopg.AsyncConnection.connect(database_url, autocommit=True) as other:
        await other.execute(
            """
            SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity
            WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'
            """
        )
    assert await database.run(number, attempts=1) == 5000000011


async def test_the_pool_works_again_after_the_server_was_stopped_and_started(own_server: EmbeddedServer, folder: Path) -> None:
    database = Database(own_server.url)
    await database.open()
    assert await database.run(number) == 5000000011
    await asyncio.to_thread(own_server.stop)
    assert not await database.ping()
    assert not database.available
    again = await asyncio.to_thread(EmbeddedServer.start, folder, extra=FAST)
    assert await database.run(number, attempts=8) == 5000000011
    assert database.available
    await database.close()
    await asyncio.to_thread(again.stop)


async def test_work_in_hand_is_done_again_after_the_server_was_killed(own_server: EmbeddedServer) -> None:
    database = Database(own_server.url)
    await database.open()
    tries = 0

    async def work(connection: Connection) -> int:
        nonlocal tries
        tries += 1
        if tries == 1:
            psutil.Process(own_server.pid).kill()
            await asyncio.to_thread(died, own_server)
            await asyncio.to_thread(own_server.revive)
        return await number(connection)

    assert await database.run(work, attempts=8) == 5000000011
    assert tries == 2
    await database.close()


async def test_run_gives_up_after_its_attempts(database: Database) -> None:
    tries = 0

    async def work(connection: Connection) -> None:
        nonlocal tries
        tries += 1
        raise psycopg.InterfaceError("gone")

    with pytest.raises(DatabaseUnavailable):
        await database.run(work, attempts=2)
    assert tries == 2


async def test_run_does_not_repeat_an_error_of_the_statement(database: Database) -> None:
    tries = 0

    async def work(connection: Connection) -> None:
        nonlocal tries
        tries += 1
        await connection.execute("SELECT 1 / 0")

    with pytest.raises(psycopg.errors.DivisionByZero):
        await database.run(work)
    assert tries == 1


async def test_open_says_when_no_server_is_there(tmp_path: Path) -> None:
    database = Database(f"postgresql://nobody@/nowhere?host={tmp_path}")
    with pytest.raises(DatabaseUnavailable):
        await database.open(within=0.3)
    assert not database.available
    assert not await database.ping()


async def test_a_server_that_does_not_answer_is_away(own_server: EmbeddedServer) -> None:
    database = Database(own_server.url)
    await database.open()
    processes = [psutil.Process(own_server.pid), *psutil.Process(own_server.pid).children()]
    for process in processes:
        process.suspend()
    try:
        async with asyncio.timeout(10):
            assert not await database.ping()
            assert not await database.ping()
    finally:
        for process in processes:
            process.resume()
    assert await database.ping()
    assert await database.run(number, attempts=8) == 5000000011
    await database.close()


async def test_a_closed_pool_says_so_and_closing_twice_is_fine(database_url: str) -> None:
    database = Database(database_url)
    await database.open()
    await database.close()
    await database.close()
    with pytest.raises(DatabaseUnavailable):
        await database.run(number, attempts=1)


async def test_close_does_not_wait_for_a_connection_that_is_in_use(database_url: str) -> None:
    database = Database(database_url)
    await database.open()
    inside = asyncio.Event()

    async def hold() -> None:
        async with database.connection():
            inside.set()
            await asyncio.Event().wait()

    holder = asyncio.create_task(hold())
    await inside.wait()
    async with asyncio.timeout(30):
        await database.close()
    holder.cancel()
    await asyncio.wait([holder])
    assert holder.cancelled()


async def test_work_that_is_cancelled_gives_its_connection_back(database_url: str) -> None:
    database = Database(database_url, max_size=1)
    await database.open()

    async def sleep(connection: Connection) -> None:
        await connection.execute("SELECT pg_sleep(60)")

    for _ in range(3):
        task = asyncio.create_task(database.run(sleep))
        await asyncio.sleep(0.05)
        task.cancel()
        await asyncio.wait([task])
    assert await database.run(number) == 5000000011
    await database.close()


@pytest.mark.parametrize(
    ("error", "away"),
    [
        (psycopg.OperationalError("server closed the connection unexpectedly"), True),
        (psycopg.InterfaceError("the connection is closed"), True),
        (PoolTimeout("no connection"), True),
        (psycopg.errors.AdminShutdown(), True),
        (psycopg.errors.CannotConnectNow(), True),
        (psycopg.errors.ConnectionFailure(), True),
        (psycopg.errors.TooManyConnections(), True),
        (psycopg.errors.DiskFull(), True),
        (psycopg.errors.QueryCanceled(), False),
        (psycopg.errors.DeadlockDetected(), True),
        (psycopg.errors.LockNotAvailable(), True),
        (psycopg.errors.ReadOnlySqlTransaction(), True),
        (psycopg.errors.IoError(), True),
        (psycopg.errors.UniqueViolation(), False),
        (psycopg.errors.CheckViolation(), False),
        (psycopg.DataError("NUL in a text"), False),
    ],
)
def test_an_error_of_the_server_is_told_from_one_of_the_statement(error: psycopg.Error, away: bool) -> None:
    assert is_away(error) is away
