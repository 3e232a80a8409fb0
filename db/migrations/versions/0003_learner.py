"""What the learner keeps: cursors, topics, slang, expressions, traits."""

from __future__ import annotations

from db.migrations.script import run_script

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Make the tables of the learner."""
    run_script("0003_learner.sql")
