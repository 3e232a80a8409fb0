"""Queries of own QQ accounts: who they are, whether they are connected and online."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from psycopg.rows import class_row

from db.pool import Connection


@dataclass(frozen=True, slots=True)
class Account:
    """An own QQ account as last seen."""

    account_id: int
    nickname: str
    connected: bool
    online: bool
    note: str
    seen_at: datetime


async def save(conn: Connection, account_id: int, *, connected: bool, online: bool, note: str = "") -> None:
    """Record the account's state now."""
    await conn.execute(
        """
        INSERT INTO accounts (account_id, connected, online, note)
        VALUES (%(id)s, %(connected)s, %(online)s, %(note)s)
        ON CONFLICT (account_id) DO UPDATE
        SET connected = excluded.connected, online = excluded.online, note = excluded.note, seen_at = now()
        """,
        {"id": account_id, "connected": connected, "online": online, "note": note},
    )


async def set_nickname(conn: Connection, account_id: int, nickname: str) -> None:
    """Record what the account is called."""
    await conn.execute(
        "UPDATE accounts SET nickname = %(nickname)s WHERE account_id = %(id)s", {"id": account_id, "nickname": nickname}
    )


async def everyone(conn: Connection) -> list[Account]:
    """List every own account ever seen."""
    async with conn.cursor(row_factory=class_row(Account)) as cur:
        await cur.execute("SELECT account_id, nickname, connected, online, note, seen_at FROM accounts ORDER BY account_id")
        return await cur.fetchall()


async def all_gone(conn: Connection) -> None:
    """Mark every account as not connected: nothing is, when the process starts or ends."""
    await conn.execute("UPDATE accounts SET connected = false WHERE connected")
