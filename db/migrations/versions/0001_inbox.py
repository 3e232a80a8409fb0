"""Accounts, conversations, members, messages, owed calls, turns, outbox and usage."""

from __future__ import annotations

from db.migrations.script import run_script

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Make the first tables."""
    run_script("0001_inbox.sql")
