"""Runs one file of plain SQL as a revision."""

from __future__ import annotations

from pathlib import Path

from alembic import op

FOLDER = Path(__file__).parent / "sql"


def run_script(name: str) -> None:
    """Execute a file of ``sql/`` in the revision's transaction, as it stands: no parameters, no escapes."""
    text = (FOLDER / name).read_text("utf-8")
    op.get_bind().exec_driver_sql(text, execution_options={"no_parameters": True})
