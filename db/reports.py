"""What the API reads: messages, turns, the outbox, accounts and the audit log, as their readers see them."""

from __future__ import annotations

from datetime import datetime

from psycopg.rows import class_row
from pydantic import BaseModel, ConfigDict

from db.pool import Connection


class Row(BaseModel):
    """A row as the API shows it. Times are UTC."""

    model_config = ConfigDict(frozen=True)


class LastCall(Row):
    """The newest model call: when, and whether it worked."""

    called_at: datetime
    ok: bool


async def last_model_call(conn: Connection) -> LastCall | None:
    """Read how the newest model call went, or None before the first."""
    async with conn.cursor(row_factory=class_row(LastCall)) as cursor:
        await cursor.execute("SELECT called_at, ok FROM model_calls ORDER BY called_at DESC, id DESC LIMIT 1")
        return await cursor.fetchone()
