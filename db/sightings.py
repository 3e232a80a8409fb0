"""Messages on their way into the table, and the ways to find that one is there already."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from psycopg.rows import class_row

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
    """It may be stored already without an id that shows it: an own message, a file and its upload notice, or history that an
    import brought before."""
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


@dataclass(frozen=True, slots=True)
class KnownSeq:
    """A stored message at a real_seq; ``own_key`` is the id under which the asking account knows it."""

    account_id: int
    id: MessageRow
    conversation_id: ConversationId
    pos: int
    real_seq: int
    sender_id: int
    body: str
    own_key: int | None


async def known_seqs(conn: Connection, batch: Sequence[NewMessage]) -> dict[tuple[int, ConversationId, int], KnownSeq]:
    """Find which of the batch are stored under their (conversation, real_seq), as each account knows them."""
    asked = [(item.account_id, item.conversation_id, item.real_seq) for item in batch if item.real_seq is not None]
    async with conn.cursor(row_factory=class_row(KnownSeq)) as cur:
        await cur.execute(
            """
            SELECT w.account_id, m.id, m.conversation_id, m.pos, m.real_seq, m.sender_id, m.body, k.message_id AS own_key
            FROM unnest(%(accounts)s::bigint[], %(conversations)s::bigint[], %(seqs)s::bigint[])
                 AS w(account_id, conversation_id, real_seq)
            JOIN messages m ON m.conversation_id = w.conversation_id AND m.real_seq = w.real_seq
            LEFT JOIN message_keys k ON k.message = m.id AND k.account_id = w.account_id
            """,
            {
                "accounts": [item[0] for item in asked],
                "conversations": [item[1] for item in asked],
                "seqs": [item[2] for item in asked],
            },
        )
        return {(row.account_id, row.conversation_id, row.real_seq): row for row in await cur.fetchall()}


async def twin(conn: Connection, item: NewMessage, taken: Sequence[MessageRow] = ()) -> Known | None:
    """Find the stored message that this is another sight of: a send result has no real_seq, an upload notice no id at all.

    Same sender and same words within two minutes (a nudge: two seconds), and the two do not contradict each other in
    real_seq or in this account's id. ``taken``: rows that an earlier message of the same batch is.
    """
    async with conn.cursor(row_factory=class_row(Known)) as cur:
        await cur.execute(
            """
            SELECT m.id, m.conversation_id, m.pos, m.real_seq
            FROM messages m
            WHERE m.conversation_id = %(conversation)s AND m.sender_id = %(sender)s AND m.kind = %(kind)s
              AND m.sent_at BETWEEN %(at)s - %(window)s * interval '1 second' AND %(at)s + %(window)s * interval '1 second'
              AND translate(m.body, E' \\n\\t', '') = translate(%(body)s, E' \\n\\t', '')
              AND (m.real_seq IS NULL OR %(seq)s::bigint IS NULL)
              AND m.id <> ALL(%(taken)s)
              AND (%(key)s::bigint IS NULL
                   OR NOT EXISTS (SELECT FROM message_keys k WHERE k.message = m.id AND k.account_id = %(account)s))
            ORDER BY m.pos
            LIMIT 1
            """,
            {
                "conversation": item.conversation_id,
                "sender": item.sender_id,
                "kind": item.kind,
                "window": 120 if item.kind == "message" else 2,
                "at": item.sent_at,
                "body": item.body,
                "seq": item.real_seq,
                "taken": list(taken),
                "key": item.message_id,
                "account": item.account_id,
            },
        )
        return await cur.fetchone()
