"""What benchmarks ask and put into the bot's database, all statements in one place."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psycopg
from psycopg.rows import class_row, scalar_row

from bench.data import words
from bench.data.groups import BOT, Group, text
from db.migrate import migrate
from db.pool import Connection
from db.server import EmbeddedServer


@asynccontextmanager
async def embedded(data_dir: Path) -> AsyncGenerator[Connection]:
    """Join the embedded server of a data folder, or start it, and connect.

    A server that this starts notes when transactions are committed; else it is as the bot would start it.
    """
    server = await asyncio.to_thread(EmbeddedServer.start, data_dir, extra={"track_commit_timestamp": "on"})
    try:
        await migrate(server.url)
        async with await psycopg.AsyncConnection.connect(server.url, autocommit=True) as conn:
            yield conn
    finally:
        await asyncio.to_thread(server.stop)


async def wait_for(check: Callable[[], Awaitable[bool]]) -> None:
    """Ask every ten milliseconds until the answer is yes."""
    while True:
        if await check():
            return
        await asyncio.sleep(0.01)


async def is_stored(conn: Connection, message_id: int) -> bool:
    """Tell whether a message is stored under its id."""
    async with conn.cursor(row_factory=scalar_row) as cur:
        await cur.execute(
            "SELECT EXISTS (SELECT FROM message_keys WHERE account_id = %(account)s AND message_id = %(message)s)",
            {"account": BOT, "message": message_id},
        )
        return bool(await cur.fetchone())


@dataclass(frozen=True, slots=True)
class Kept:
    """How many of people's messages are stored, and how many of them stand before an earlier one."""

    messages: int
    out_of_order: int


async def kept(conn: Connection) -> Kept:
    """Count people's messages, and those whose position does not follow QQ's sequence."""
    async with conn.cursor(row_factory=class_row(Kept)) as cur:
        await cur.execute(
            """
            SELECT count(*) AS messages, count(*) FILTER (WHERE real_seq < before) AS out_of_order
            FROM (SELECT real_seq, lag(real_seq) OVER (PARTITION BY conversation_id ORDER BY pos) AS before
                  FROM messages
                  WHERE real_seq IS NOT NULL AND sender_id <> %(bot)s) AS sequence
            """,
            {"bot": BOT},
        )
        row = await cur.fetchone()
        return row if row is not None else Kept(0, 0)


@dataclass(frozen=True, slots=True)
class TurnTimes:
    """When a turn's call was committed and when its row was written, in seconds since 1970 by the same machine's clock.

    ``committed`` is noted before the commit waits for the disk, so a little before the debounce begins.
    """

    turn_id: int
    committed: float
    queued: float


async def turn_times(conn: Connection) -> list[TurnTimes]:
    """Read these times for all turns that answered one call, in order."""
    async with conn.cursor(row_factory=class_row(TurnTimes)) as cur:
        await cur.execute(
            """
            SELECT t.id AS turn_id, extract(epoch FROM pg_xact_commit_timestamp(m.xmin))::float8 AS committed,
                   extract(epoch FROM t.queued_at)::float8 AS queued
            FROM turns t
            JOIN owed o ON o.settled_by = t.id
            JOIN messages m ON m.id = o.message
            ORDER BY t.id
            """
        )
        return await cur.fetchall()


@dataclass(frozen=True, slots=True)
class Calls:
    """Turns by outcome, and the model calls they took."""

    outcome: str
    turns: int
    calls: int


async def calls_by_outcome(conn: Connection) -> list[Calls]:
    """Count ended turns and their model calls."""
    async with conn.cursor(row_factory=class_row(Calls)) as cur:
        await cur.execute(
            """
            SELECT coalesce(t.outcome, t.status) AS outcome, count(*)::integer AS turns,
                   coalesce(sum(c.calls), 0)::integer AS calls
            FROM turns t
            LEFT JOIN (SELECT turn_id, count(*) AS calls FROM model_calls GROUP BY turn_id) AS c ON c.turn_id = t.id
            GROUP BY 1
            ORDER BY 1
            """
        )
        return await cur.fetchall()


async def turn_ended(conn: Connection, message_id: int) -> bool:
    """Tell whether the turn that answered a call has ended."""
    async with conn.cursor(row_factory=scalar_row) as cur:
        await cur.execute(
            """
            SELECT EXISTS (SELECT FROM message_keys k
                           JOIN owed o ON o.message = k.message
                           WHERE k.account_id = %(account)s AND k.message_id = %(message)s AND o.settled_at IS NOT NULL)
            """,
            {"account": BOT, "message": message_id},
        )
        return bool(await cur.fetchone())


async def load_history(conn: Connection, groups: Sequence[Group], each: int, seed: int) -> None:
    """Fill every group with ``each`` stored messages of the past month, and let its numbering go on behind them."""
    rng = random.Random(seed)
    for group in groups:
        conversation = await _conversation(conn, group, each)
        await _people(conn, conversation, group)
        await _messages(conn, conversation, group, each, rng)
    await conn.execute(
        """
        INSERT INTO message_keys (account_id, message_id, message)
        SELECT %(bot)s, -id, id FROM messages
        """,
        {"bot": BOT},
    )
    await conn.execute("VACUUM ANALYZE")


async def _conversation(conn: Connection, group: Group, each: int) -> int:
    async with conn.cursor(row_factory=scalar_row) as cur:
        await cur.execute(
            """
            INSERT INTO conversations (kind, target_id, name, last_pos, watermark, diced_pos, last_no)
            VALUES ('group', %(target)s, %(name)s, %(last)s, %(last)s, %(last)s, %(people)s)
            RETURNING id
            """,
            {"target": group.group_id, "name": group.name, "last": each, "people": len(group.people)},
        )
        return int(str(await cur.fetchone()))


async def _people(conn: Connection, conversation: int, group: Group) -> None:
    async with conn.cursor() as cur:
        statement = "COPY members (conversation_id, user_id, no, nickname, card, role) FROM STDIN"
        async with cur.copy(statement) as copy:
            for number, person in enumerate(group.people, 1):
                await copy.write_row((conversation, person.user_id, number, person.nickname, person.card, person.role))


async def _messages(conn: Connection, conversation: int, group: Group, each: int, rng: random.Random) -> None:
    begin = datetime.now(UTC) - timedelta(days=30)
    step = timedelta(days=30) / each
    async with conn.cursor() as cur:
        statement = """
            COPY messages (conversation_id, pos, real_seq, sender_id, sender_name, text, body, segments, sent_at, stored_at)
            FROM STDIN
        """
        async with cur.copy(statement) as copy:
            for pos in range(1, each + 1):
                group.seq += 1
                person = group.speaker(rng)
                said = words.line(rng)
                segments = json.dumps([text(said)], ensure_ascii=False)
                name = person.card or person.nickname
                at = begin + step * pos
                await copy.write_row((conversation, pos, group.seq, person.user_id, name, said, said, segments, at, at))
