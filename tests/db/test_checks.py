"""What is said about databases that do not fit, and how a start comes up or fails."""

from __future__ import annotations

import os
import shutil
import socket
import tempfile
from collections.abc import Generator
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

import psycopg
import pytest
from psycopg import sql

from db import start
from db.checks import DatabaseProblem, ServerFacts, check_database, complaint
from db.start import place, refusal, start_database
from settings import Settings, load_settings
from tests.support import DatabaseFactory, with_database

GOOD = ServerFacts(180006, "UTF8", False, "0.8.1", "0.8.1", "1.6", "1.6")
FRESH = replace(GOOD, vector_installed=None, trgm_installed=None)


@pytest.fixture
def data_dir() -> Generator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="qunyou-start-"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


def wanted(data_dir: Path, database_url: str = "") -> Settings:
    return load_settings({"data_dir": str(data_dir), "database_url": database_url})


async def test_a_database_fits_before_and_after_its_tables_exist(databases: DatabaseFactory, database_url: str) -> None:
    empty = await databases.empty()
    await check_database(empty)
    async with await psycopg.AsyncConnection.connect(empty) as connection:
        row = await (await connection.execute("SELECT count(*) FROM pg_extension WHERE extname = 'vector'")).fetchone()
    assert row == (0,)
    await databases.drop(empty)
    await check_database(database_url)


async def created(databases: DatabaseFactory, name: str, options: str) -> str:
    async with await psycopg.AsyncConnection.connect(databases.admin_url, autocommit=True) as connection:
        await connection.execute(f"CREATE DATABASE {name} TEMPLATE template0 {options}".encode())
    return with_database(databases.admin_url, name)


async def test_a_database_blind_to_chinese_is_refused(databases: DatabaseFactory) -> None:
    url = await created(databases, f"{databases.prefix}_blind", "ENCODING 'UTF8' LOCALE 'C'")
    with pytest.raises(DatabaseProblem, match=r"不认识汉字.*C\.UTF-8"):
        await check_database(url)
    await databases.drop(url)


async def test_a_database_of_another_encoding_is_refused(databases: DatabaseFactory) -> None:
    url = await created(databases, f"{databases.prefix}_latin", "ENCODING 'LATIN1' LOCALE 'C'")
    with pytest.raises(DatabaseProblem, match=r"LATIN1.*ENCODING 'UTF8'"):
        await check_database(url)
    await databases.drop(url)


async def test_a_user_who_may_not_make_extensions_is_told_what_to_ask_for(databases: DatabaseFactory) -> None:
    url = await databases.empty()
    role = f"{databases.prefix}_guest"
    async with await psycopg.AsyncConnection.connect(databases.admin_url, autocommit=True) as connection:
        await connection.execute(sql.SQL("CREATE ROLE {role} LOGIN PASSWORD 'guest'").format(role=sql.Identifier(role)))
    guest = url.replace("//postgres@", f"//{role}:guest@")
    with pytest.raises(DatabaseProblem, match="CREATE EXTENSION pg_trgm; CREATE EXTENSION vector;"):
        await check_database(guest)
    await databases.drop(url)
    async with await psycopg.AsyncConnection.connect(databases.admin_url, autocommit=True) as connection:
        await connection.execute(sql.SQL("DROP ROLE {role}").format(role=sql.Identifier(role)))


async def test_trigrams_outside_the_search_path_are_named(databases: DatabaseFactory) -> None:
    url = await databases.empty()
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
        await connection.execute("CREATE SCHEMA away")
        await connection.execute("CREATE EXTENSION pg_trgm SCHEMA away")
    with pytest.raises(DatabaseProblem, match="SET SCHEMA public"):
        await check_database(url)
    await databases.drop(url)


async def test_a_read_only_database_is_named(databases: DatabaseFactory) -> None:
    url = await databases.empty()
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
        name = sql.Identifier(connection.info.dbname)
        await connection.execute(sql.SQL("ALTER DATABASE {} SET default_transaction_read_only = on").format(name))
    with pytest.raises(DatabaseProblem, match="只读"):
        await check_database(url)
    await databases.drop(url)


@pytest.mark.parametrize("facts", [GOOD, FRESH, replace(GOOD, version=150000), replace(GOOD, vector_installed="0.10.0")])
def test_facts_that_fit(facts: ServerFacts) -> None:
    assert complaint(facts) is None


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        (replace(GOOD, version=140011), "版本太旧（14）"),
        (replace(GOOD, encoding="SQL_ASCII"), "SQL_ASCII"),
        (replace(GOOD, read_only=True), "只读"),
        (replace(FRESH, trgm_available=None), "没有 pg_trgm"),
        (replace(FRESH, vector_available=None), "没有 pgvector"),
        (replace(FRESH, vector_available="0.7.4"), "太旧（0.7.4）"),
        (replace(GOOD, vector_installed="0.7.4"), "ALTER EXTENSION vector UPDATE"),
        (replace(GOOD, vector_installed="0.7.4", vector_available="0.7.4"), "在服务器上升级"),
    ],
)
def test_facts_that_do_not_fit_are_said(facts: ServerFacts, words: str) -> None:
    assert words in (complaint(facts) or "")


async def test_an_embedded_start_brings_everything_up_and_takes_it_down(data_dir: Path) -> None:
    running = await start_database(wanted(data_dir))
    assert running.server is not None
    assert await running.database.ping()
    async with running.database.connection() as connection:
        row = await (await connection.execute("SELECT count(*) FROM messages")).fetchone()
    assert row == (0,)
    await running.close()
    await running.close()
    assert not running.server.running
    again = await start_database(wanted(data_dir))
    assert await again.database.ping()
    await again.close()


async def test_an_embedded_start_that_fails_says_so_in_one_sentence(data_dir: Path) -> None:
    (data_dir / "postgres").mkdir()
    (data_dir / "postgres" / "photo.jpg").write_bytes(b"x")
    with pytest.raises(DatabaseProblem, match="不是 PostgreSQL 的数据"):
        await start_database(wanted(data_dir))


async def test_an_external_start_uses_the_database_of_the_settings(databases: DatabaseFactory, data_dir: Path) -> None:
    url = await databases.empty()
    running = await start_database(wanted(data_dir, url))
    assert running.server is None
    assert await running.database.ping()
    assert not os.listdir(data_dir)
    await running.close()
    await databases.drop(url)


async def test_a_database_that_is_not_there_is_named_without_its_password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(start, "REACH_SECONDS", 0.0)
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        port = nobody.getsockname()[1]
        url = f"postgresql://xiaoman:hunter22@127.0.0.1:{port}/qunyou"
        with pytest.raises(DatabaseProblem) as caught:
            await start_database(wanted(Path("unused"), url))
    assert f"127.0.0.1:{port}/qunyou" in str(caught.value)
    assert "hunter22" not in str(caught.value)
    assert "请确认它已启动" in str(caught.value)


async def test_a_missing_database_is_refused_at_once(databases: DatabaseFactory) -> None:
    with pytest.raises(DatabaseProblem, match="请先建好这个用户和数据库"):
        await start_database(wanted(Path("unused"), with_database(databases.admin_url, "no_such_database")))


async def test_a_url_that_makes_no_sense_is_named_without_its_password() -> None:
    with pytest.raises(DatabaseProblem, match="DATABASE_URL 的格式不对") as caught:
        await start_database(wanted(Path("unused"), "postgresql://xiaoman:hunter22@127.0.0.1/qunyou?nonsense=1"))
    assert "hunter22" not in str(caught.value)


def test_a_place_holds_no_secret() -> None:
    assert place(f"postgresql://xiaoman:{quote('p@ss:word')}@db.example:6543/qunyou") == "db.example:6543/qunyou"
    assert place("postgresql://xiaoman@/qunyou") == "localhost:5432/qunyou"


def test_only_refusals_for_good_are_final() -> None:
    assert "用户名和密码" in (refusal('FATAL:  password authentication failed for user "xiaoman"') or "")
    assert "pg_hba.conf" in (refusal('FATAL:  no pg_hba.conf entry for host "10.0.0.2"') or "")
    assert refusal("FATAL:  the database system is starting up") is None
    assert refusal("connection refused") is None
