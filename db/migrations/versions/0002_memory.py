"""Memories, embeddings, search, mood and liking."""

from __future__ import annotations

from db.migrations.script import run_script

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Make the tables of the memory."""
    run_script("0002_memory.sql")
