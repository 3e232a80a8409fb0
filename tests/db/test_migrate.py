"""Migrations: once, together, and never backwards."""

from __future__ import annotations

import asyncio
import subprocess
import sys

import psycopg
import pytest
from alembic.script import ScriptDirectory

from db.checks import DatabaseProblem
from db.migrate import ROOT, current_revision, known_revisions, migrate
from db.migrations.upgrade import script_config
from tests.support import DatabaseFactory


def test_the_file_names_say_what_alembic_says() -> None:
    script = ScriptDirectory.from_config(script_config())
    ordered = [revision.revision for revision in script.walk_revisions()][::-1]
    assert known_revisions() == ordered
    assert script.get_current_head() == ordered[-1]


async def test_an_empty_database_gets_everything_and_the_second_run_does_nothing(databases: DatabaseFactory) -> None:
    url = await databases.empty()
    assert await current_revision(url) is None
    assert await migrate(url) == known_revisions()
    assert await current_revision(url) == known_revisions()[-1]
    assert await migrate(url) == []
    await databases.drop(url)


async def test_two_processes_at_once_migrate_once(databases: DatabaseFactory) -> None:
    url = await databases.empty()
    results = await asyncio.gather(migrate(url), migrate(url))
    assert sorted(results) == [[], known_revisions()]
    await databases.drop(url)


async def test_a_database_from_the_future_is_refused_with_a_sentence(database_url: str) -> None:
    async with await psycopg.AsyncConnection.connect(database_url, autocommit=True) as connection:
        await connection.execute("UPDATE alembic_version SET version_num = '9999'")
    with pytest.raises(DatabaseProblem, match=r"9999.*请升级程序"):
        await migrate(database_url)


async def test_a_failure_changes_nothing_and_says_why(databases: DatabaseFactory) -> None:
    url = await databases.empty()
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
        await connection.execute("CREATE TABLE members (mine text)")
    with pytest.raises(DatabaseProblem, match=r'没有改动：relation "members" already exists'):
        await migrate(url)
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
        row = await (await connection.execute("SELECT to_regclass('accounts'), to_regclass('conversations')")).fetchone()
    assert row == (None, None)
    await databases.drop(url)


def test_looking_for_migrations_does_not_load_alembic() -> None:
    code = "import sys, db.start; print([name for name in ('alembic', 'sqlalchemy') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
