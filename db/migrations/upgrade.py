"""Applies all revisions to the database whose URL comes in by stdin; prints those applied as JSON."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import psycopg
from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, create_engine
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.pool import NullPool

from db.checks import SETUP_LOCK


def script_config() -> Config:
    """Configure Alembic without a file."""
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent).replace("%", "%%"))
    return config


def upgrade(url: str) -> list[str]:
    """Bring a database to the newest revision while holding its migration lock; returns what was applied."""
    engine = create_engine("postgresql+psycopg://", creator=lambda: psycopg.connect(url), poolclass=NullPool)
    with psycopg.connect(url, autocommit=True) as guard:
        guard.execute("SELECT pg_advisory_lock(%(key)s)", {"key": SETUP_LOCK})
        with engine.connect() as connection:
            return _upgrade(connection)


def _upgrade(connection: Connection) -> list[str]:
    config = script_config()
    before = MigrationContext.configure(connection).get_current_revision()
    connection.rollback()
    revisions = ScriptDirectory.from_config(config).iterate_revisions("head", before or "base")
    missing = [revision.revision for revision in revisions][::-1]
    if missing:
        config.attributes["connection"] = connection
        command.upgrade(config, "head")
    return missing


def main() -> int:
    """Upgrade, and say in one line what the database refused."""
    try:
        applied = upgrade(sys.stdin.read())
    except (SQLAlchemyError, psycopg.Error) as error:
        cause = error.orig if isinstance(error, DBAPIError) and error.orig is not None else error
        sys.stderr.write(str(cause).strip().splitlines()[0])
        return 1
    sys.stdout.write(json.dumps(applied))
    return 0


if __name__ == "__main__":
    sys.exit(main())
