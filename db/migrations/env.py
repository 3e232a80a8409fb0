"""Alembic's entry: runs the revisions on the connection that ``db.migrate`` opened."""

from __future__ import annotations

from alembic import context
from sqlalchemy import Connection


def run(connection: Connection) -> None:
    """Apply the wanted revisions, each in its own transaction."""
    context.configure(connection=connection, transaction_per_migration=True)
    with context.begin_transaction():
        context.run_migrations()


run(context.config.attributes["connection"])
