"""Queries of own QQ accounts: who they are, whether they are connected and online."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from psycopg.rows import class_row, scalar_row

from db.pool import Connection


@dataclass(frozen=True, slots=True)
class Account:
    """An own QQ account as last seen."""

    account_id: int
    nickname: str
    connected: bool
    online: bool
    note: str
    worker: str
    seen_at: datetime


async def save(conn: Connection, account_id: int, *, connected: bool, online: bool, note: str = "", worker: str = "") -> None:
    """Record the account's state now. ``worker``: the process that holds its socket."""
    await conn.execute(
        """
        INSERT INTO accounts (account_id, connected, online, note, worker)
        VALUES (%(id)s, %(connected)s, %(online)s, %(note)s, %(worker)s)
        ON CONFLICT (account_id) DO UPDATE
        SET connected = excluded.connected, online = excluded.online, note = excluded.note, worker = excluded.worker,
            seen_at = now()
        """,
        {"id": account_id, "connected": connected, "online": online, "note": note, "worker": worker},
    )


async def touch(conn: Connection, worker: str) -> None:
    """Record that a process still holds the sockets of its accounts."""
    await conn.execute("UPDATE accounts SET seen_at = now() WHERE worker = %(worker)s AND connected", {"worker": worker})


async def elsewhere(conn: Connection, account_id: int, *, worker: str, within: float) -> bool:
    """Tell whether another process holds the account's socket, has said so within so many seconds, and QQ is online."""
    async with conn.cursor(row_factory=scalar_row) as cur:
        await cur.execute(
            """
            SELECT EXISTS (SELECT FROM accounts
                           WHERE account_id = %(id)s AND connected AND online AND worker <> %(worker)s
                             AND seen_at > now() - %(within)s * interval '1 second')
            """,
            {"id": account_id, "worker": worker, "within": within},
        )
        return bool(await cur.fetchone())


async def set_nickname(conn: Connection, account_id: int, nickname: str) -> None:
    """Record what the account is called."""
    await conn.execute(
        "UPDATE accounts SET nickname = %(nickname)s WHERE account_id = %(id)s", {"id": account_id, "nickname": nickname}
    )


async def everyone(conn: Connection) -> list[Account]:
    """List every own account ever seen."""
    async with conn.cursor(row_factory=class_row(Account)) as cur:
        await cur.execute(
            "SELECT account_id, nickname, connected, online, note, worker, seen_at FROM accounts ORDER BY account_id"
        )
        return await cur.fetchall()


async def ids(conn: Connection) -> list[int]:
    """List the numbers of every own account ever seen."""
    async with conn.cursor(row_factory=scalar_row) as cur:
        await cur.execute("SELECT account_id FROM accounts")
        return [int(value) for value in await cur.fetchall()]


async def gone(conn: Connection, workers: Sequence[str]) -> None:
    """Mark the accounts of processes that ended as not connected."""
    await conn.execute(
        "UPDATE accounts SET connected = false WHERE connected AND worker = ANY(%(workers)s)", {"workers": list(workers)}
    )
