"""Storing messages: many at once, each once, in order of arrival, with the calls they make."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from psycopg.rows import class_row
from psycopg.types.json import Jsonb

from db.models import CallKind, ConversationId, JsonObject, MessageRow, TurnId
from db.pool import Connection


@dataclass(frozen=True, slots=True)
class NewMessage:
    """A message on its way into the table; names, quotes and calls are already worked out."""

    conversation_id: ConversationId
    account_id: int
    message_id: int | None
    real_seq: int | None
    sender_id: int
    sender_name: str
    sent_at: datetime
    text: str
    body: str
    kind: Literal["message", "poke"] = "message"
    is_self: bool = False
    is_robot: bool = False
    is_command: bool = False
    quoted_id: MessageRow | None = None
    quoted_key: int | None = None
    quote_name: str | None = None
    quote_text: str | None = None
    segments: tuple[JsonObject, ...] = ()
    turn_id: TurnId | None = None
    backfilled: bool = False
    call: CallKind | None = None
    called_account: int = 0
    second_sight: bool = False
    """It may be stored already without an id that shows it: an own message, or a file and its upload notice."""
    withdrawn_at: datetime | None = None
    withdrawn_by: int | None = None


@dataclass(frozen=True, slots=True)
class Known:
    """A message that is already stored, found under one of the ways to know it."""

    id: MessageRow
    conversation_id: ConversationId
    pos: int
    real_seq: int | None


@dataclass(frozen=True, slots=True)
class Stored:
    """Where a message went. ``fresh``: this call stored it; else it was known before."""

    index: int
    id: MessageRow
    pos: int
    fresh: bool


@dataclass(frozen=True, slots=True)
class Quoted:
    """A message that a reply names."""

    account_id: int
    message_id: int
    id: MessageRow
    sender_id: int
    sender_name: str
    body: str
    withdrawn: bool


async def quoted(conn: Connection, keys: Sequence[tuple[int, int]]) -> dict[tuple[int, int], Quoted]:
    """Find messages by (account, message id)."""
    if not keys:
        return {}
    async with conn.cursor(row_factory=class_row(Quoted)) as cur:
        await cur.execute(
            """
            SELECT k.account_id, k.message_id, m.id, m.sender_id, m.sender_name, left(m.body, 200) AS body,
                   m.withdrawn_at IS NOT NULL AS withdrawn
            FROM unnest(%(accounts)s::bigint[], %(keys)s::bigint[]) AS w(account_id, message_id)
            JOIN message_keys k USING (account_id, message_id)
            JOIN messages m ON m.id = k.message
            """,
            {"accounts": [key[0] for key in keys], "keys": [key[1] for key in keys]},
        )
        return {(row.account_id, row.message_id): row for row in await cur.fetchall()}


async def known_keys(conn: Connection, batch: Sequence[NewMessage]) -> dict[tuple[int, int], Known]:
    """Find which of the batch are stored under their (account, message id)."""
    pairs = [(item.account_id, item.message_id) for item in batch if item.message_id is not None]
    cur = await conn.execute(
        """
        SELECT k.account_id, k.message_id, m.id, m.conversation_id, m.pos, m.real_seq
        FROM unnest(%(accounts)s::bigint[], %(keys)s::bigint[]) AS w(account_id, message_id)
        JOIN message_keys k USING (account_id, message_id)
        JOIN messages m ON m.id = k.message
        """,
        {"accounts": [pair[0] for pair in pairs], "keys": [pair[1] for pair in pairs]},
    )
    return {
        (account, key): Known(MessageRow(row), conversation, pos, seq)
        for account, key, row, conversation, pos, seq in await cur.fetchall()
    }


async def known_seqs(conn: Connection, batch: Sequence[NewMessage]) -> dict[tuple[ConversationId, int], Known]:
    """Find which of the batch are stored under their (conversation, real_seq)."""
    pairs = [(item.conversation_id, item.real_seq) for item in batch if item.real_seq is not None]
    async with conn.cursor(row_factory=class_row(Known)) as cur:
        await cur.execute(
            """
            SELECT m.id, m.conversation_id, m.pos, m.real_seq
            FROM unnest(%(conversations)s::bigint[], %(seqs)s::bigint[]) AS w(conversation_id, real_seq)
            JOIN messages m ON m.conversation_id = w.conversation_id AND m.real_seq = w.real_seq
            """,
            {"conversations": [pair[0] for pair in pairs], "seqs": [pair[1] for pair in pairs]},
        )
        return {(row.conversation_id, row.real_seq): row for row in await cur.fetchall() if row.real_seq is not None}


async def twin(conn: Connection, item: NewMessage) -> Known | None:
    """Find the stored message that this is another sight of: a send result has no real_seq, an upload notice no id at all.

    Same sender and same words within two minutes, and the two do not contradict each other in real_seq or in this
    account's id.
    """
    async with conn.cursor(row_factory=class_row(Known)) as cur:
        await cur.execute(
            """
            SELECT m.id, m.conversation_id, m.pos, m.real_seq
            FROM messages m
            WHERE m.conversation_id = %(conversation)s AND m.sender_id = %(sender)s AND m.kind = 'message'
              AND m.sent_at BETWEEN %(at)s - interval '2 minutes' AND %(at)s + interval '2 minutes'
              AND translate(m.body, E' \\n\\t', '') = translate(%(body)s, E' \\n\\t', '')
              AND (m.real_seq IS NULL OR %(seq)s::bigint IS NULL)
              AND (%(key)s::bigint IS NULL
                   OR NOT EXISTS (SELECT FROM message_keys k WHERE k.message = m.id AND k.account_id = %(account)s))
            ORDER BY m.pos
            LIMIT 1
            """,
            {
                "conversation": item.conversation_id,
                "sender": item.sender_id,
                "at": item.sent_at,
                "body": item.body,
                "seq": item.real_seq,
                "key": item.message_id,
                "account": item.account_id,
            },
        )
        return await cur.fetchone()


async def insert(conn: Connection, batch: Sequence[NewMessage], positions: Sequence[int]) -> list[MessageRow]:
    """Insert new messages at their positions; returns their rows in the same order.

    A withdraw notice that came first marks its message at once.
    """
    if not batch:
        return []
    cur = await conn.execute(
        """
        WITH new AS (
            SELECT * FROM unnest(
                %(conversations)s::bigint[], %(positions)s::bigint[], %(seqs)s::bigint[], %(kinds)s::text[],
                %(senders)s::bigint[],
                %(names)s::text[], %(selves)s::boolean[], %(robots)s::boolean[], %(commands)s::boolean[], %(texts)s::text[],
                %(bodies)s::text[], %(quoted)s::bigint[], %(quoted_keys)s::bigint[], %(quote_names)s::text[],
                %(quote_texts)s::text[], %(segments)s::jsonb[], %(times)s::timestamptz[], %(turns)s::bigint[],
                %(backfilled)s::boolean[], %(accounts)s::bigint[], %(keys)s::bigint[], %(withdrawn)s::timestamptz[],
                %(withdrawers)s::bigint[]
            ) AS n(conversation_id, pos, real_seq, kind, sender_id, sender_name, is_self, is_robot, is_command, text, body,
                   quoted_id, quoted_key, quote_name, quote_text, segments, sent_at, turn_id, backfilled, account_id, message_id,
                   withdrawn_at, withdrawn_by)
        )
        INSERT INTO messages (conversation_id, pos, real_seq, kind, sender_id, sender_name, is_self, is_robot, is_command, text,
                              body, quoted_id, quoted_key, quote_name, quote_text, segments, sent_at, turn_id, backfilled,
                              withdrawn_at, withdrawn_by)
        SELECT n.conversation_id, n.pos, n.real_seq, n.kind, n.sender_id, n.sender_name, n.is_self, n.is_robot, n.is_command,
               n.text, n.body, n.quoted_id, n.quoted_key, n.quote_name, n.quote_text, n.segments, n.sent_at, n.turn_id,
               n.backfilled, coalesce(n.withdrawn_at, w.withdrawn_at), coalesce(n.withdrawn_by, w.operator_id)
        FROM new n
        LEFT JOIN early_withdrawals w ON w.account_id = n.account_id AND w.message_id = n.message_id
        RETURNING id, conversation_id, pos
        """,
        _columns(batch, positions),
    )
    found = {(conversation, pos): MessageRow(row) for row, conversation, pos in await cur.fetchall()}
    return [found[item.conversation_id, pos] for item, pos in zip(batch, positions, strict=True)]


def _columns(batch: Sequence[NewMessage], positions: Sequence[int]) -> dict[str, list[object]]:
    return {
        "conversations": [item.conversation_id for item in batch],
        "positions": list(positions),
        "seqs": [item.real_seq for item in batch],
        "kinds": [item.kind for item in batch],
        "senders": [item.sender_id for item in batch],
        "names": [item.sender_name for item in batch],
        "selves": [item.is_self for item in batch],
        "robots": [item.is_robot for item in batch],
        "commands": [item.is_command for item in batch],
        "texts": [item.text for item in batch],
        "bodies": [item.body for item in batch],
        "quoted": [item.quoted_id for item in batch],
        "quoted_keys": [item.quoted_key for item in batch],
        "quote_names": [item.quote_name for item in batch],
        "quote_texts": [item.quote_text for item in batch],
        "segments": [Jsonb(list(item.segments)) for item in batch],
        "times": [item.sent_at for item in batch],
        "turns": [item.turn_id for item in batch],
        "backfilled": [item.backfilled for item in batch],
        "accounts": [item.account_id for item in batch],
        "keys": [item.message_id for item in batch],
        "withdrawn": [item.withdrawn_at for item in batch],
        "withdrawers": [item.withdrawn_by for item in batch],
    }


async def add_keys(conn: Connection, batch: Sequence[NewMessage], rows: Sequence[MessageRow]) -> None:
    """Remember under which ids the accounts know these messages."""
    latest = {
        (item.account_id, item.message_id): row for item, row in zip(batch, rows, strict=True) if item.message_id is not None
    }
    if not latest:
        return
    keys = [(account, key, row) for (account, key), row in latest.items()]
    await conn.execute(
        """
        INSERT INTO message_keys (account_id, message_id, message)
        SELECT * FROM unnest(%(accounts)s::bigint[], %(keys)s::bigint[], %(rows)s::bigint[])
        ON CONFLICT (account_id, message_id) DO UPDATE SET message = excluded.message
        WHERE message_keys.message <> excluded.message
        """,
        {"accounts": [key[0] for key in keys], "keys": [key[1] for key in keys], "rows": [key[2] for key in keys]},
    )


async def complete(conn: Connection, rows: Sequence[MessageRow], batch: Sequence[NewMessage]) -> None:
    """Fill in what a second sight of a message knows and the first did not: its real_seq, its turn."""
    await conn.execute(
        """
        UPDATE messages m
        SET real_seq = coalesce(m.real_seq, t.real_seq), turn_id = coalesce(m.turn_id, t.turn_id)
        FROM unnest(%(rows)s::bigint[], %(seqs)s::bigint[], %(turns)s::bigint[]) AS t(id, real_seq, turn_id)
        WHERE m.id = t.id
          AND ((m.real_seq IS NULL AND t.real_seq IS NOT NULL) OR (m.turn_id IS NULL AND t.turn_id IS NOT NULL))
        """,
        {"rows": list(rows), "seqs": [item.real_seq for item in batch], "turns": [item.turn_id for item in batch]},
    )


async def owe(conn: Connection, batch: Sequence[NewMessage], rows: Sequence[MessageRow]) -> None:
    """Write down the calls that these messages make. A message owes once, whoever reports it again.

    A message that was withdrawn before it came owes nothing.
    """
    calls = [(row, item.called_account, item.call) for item, row in zip(batch, rows, strict=True) if item.call is not None]
    if not calls:
        return
    await conn.execute(
        """
        INSERT INTO owed (message, conversation_id, account_id, pos, kind)
        SELECT m.id, m.conversation_id, c.account_id, m.pos, c.kind
        FROM unnest(%(rows)s::bigint[], %(accounts)s::bigint[], %(kinds)s::text[]) AS c(message, account_id, kind)
        JOIN messages m ON m.id = c.message
        WHERE m.withdrawn_at IS NULL AND NOT m.is_self
        ON CONFLICT (message) DO NOTHING
        """,
        {"rows": [call[0] for call in calls], "accounts": [call[1] for call in calls], "kinds": [call[2] for call in calls]},
    )


class _Places:
    """Where each message of a batch goes: to a known row, to an earlier one of the batch, or to a new position."""

    def __init__(self, by_key: dict[tuple[int, int], Known], by_seq: dict[tuple[ConversationId, int], Known]) -> None:
        self._by_key = by_key
        self._by_seq = by_seq
        self._batch: dict[tuple[str, int, int], int] = {}
        self._items: list[NewMessage] = []
        self.fresh: list[tuple[int, NewMessage, int]] = []
        self.known: dict[int, Known] = {}
        self.first: dict[int, int] = {}

    def look_up(self, item: NewMessage) -> Known | None:
        """Find a stored message that this is. Ids are short hashes: one that contradicts the order is another message."""
        if item.real_seq is not None:
            known = self._by_seq.get((item.conversation_id, item.real_seq))
            if known is not None:
                return known
        known = self._by_key.get((item.account_id, item.message_id)) if item.message_id is not None else None
        if known is None or known.conversation_id != item.conversation_id:
            return None
        return None if item.real_seq is not None and known.real_seq is not None else known

    def earlier(self, item: NewMessage) -> int | None:
        """Find an earlier message of the batch that this is."""
        for name in self._names(item):
            index = self._batch.get(name)
            if index is None:
                continue
            other = self._items[index].real_seq
            if item.real_seq is None or other is None or item.real_seq == other:
                return index
        return None

    def put(self, item: NewMessage, known: Known | None, pos: int) -> bool:
        """Give the next message its place; True when it took the position."""
        index = len(self._items)
        self._items.append(item)
        first = self.earlier(item) if known is None else None
        if known is not None:
            self.known[index] = known
        elif first is not None:
            self.first[index] = first
        else:
            self.fresh.append((index, item, pos))
        for name in self._names(item):
            self._batch.setdefault(name, index if first is None else first)
        return known is None and first is None

    @staticmethod
    def _names(item: NewMessage) -> list[tuple[str, int, int]]:
        names: list[tuple[str, int, int]] = []
        if item.real_seq is not None:
            names.append(("seq", item.conversation_id, item.real_seq))
        if item.message_id is not None:
            names.append(("key", item.account_id, item.message_id))
        return names


async def store(conn: Connection, batch: Sequence[NewMessage], last: dict[ConversationId, int]) -> list[Stored]:
    """Store a batch: new messages get the next positions, known ones only what they lacked.

    ``last`` holds each locked conversation's highest position and is advanced in place; the caller writes it back.
    """
    places = _Places(await known_keys(conn, batch), await known_seqs(conn, batch))
    for item in batch:
        known = places.look_up(item)
        if known is None and item.second_sight:
            known = await twin(conn, item)
        if places.put(item, known, last[item.conversation_id] + 1):
            last[item.conversation_id] += 1
    rows = await insert(conn, [item for _, item, _ in places.fresh], [pos for _, _, pos in places.fresh])
    stored: dict[int, Stored] = {
        index: Stored(index, row, pos, True) for (index, _, pos), row in zip(places.fresh, rows, strict=True)
    }
    stored |= {index: Stored(index, known.id, known.pos, False) for index, known in places.known.items()}
    for index, first in places.first.items():
        stored[index] = Stored(index, stored[first].id, stored[first].pos, False)
    result = [stored[index] for index in range(len(batch))]
    await _link(conn, batch, result)
    return result


async def _link(conn: Connection, batch: Sequence[NewMessage], stored: Sequence[Stored]) -> None:
    rows = [item.id for item in stored]
    await add_keys(conn, batch, rows)
    again = [item for item in stored if not item.fresh]
    if again:
        await complete(conn, [item.id for item in again], [batch[item.index] for item in again])
    await owe(conn, batch, rows)
