"""What of a message can be found: its words as soon as it is stored, and whether it waits for a vector."""

from __future__ import annotations

import re
from dataclasses import dataclass

from psycopg.rows import class_row

from db.models import MessageRow
from db.pool import Connection, Database
from db.searchtext import search_text
from db.sightings import NewMessage

VECTOR_LETTERS = 4
"""A vector of fewer letters (好的, 哈哈哈) tells nothing."""
_FACE = re.compile(r"\[[^\[\]\s]{1,12}\]")


def words(item: NewMessage) -> str:
    """Write what a reader may search of a message: what it shows without its quote. Nudges and commands are not found."""
    return search_text(item.body) if item.kind == "message" and not item.is_command else ""


def worth_vector(text: str) -> bool:
    """Tell whether what was said has enough letters for a vector to mean something; faces are none."""
    return sum(map(str.isalpha, _FACE.sub("", text))) >= VECTOR_LETTERS


def wants_vector(item: NewMessage) -> bool:
    """Tell whether a message should have a vector: a person's or the bot's own words, enough of them, and no command."""
    return item.kind == "message" and not item.is_robot and not item.is_command and worth_vector(item.text)


@dataclass(frozen=True, slots=True)
class _Old:
    id: MessageRow
    text: str
    body: str
    findable: bool


async def fill(database: Database, *, piece: int = 500) -> int:
    """Make messages searchable that were stored before there was a search, the newest first.

    At most ``piece`` a call; returns how many, 0 when there are no more. Several callers at once share the work.
    """
    async with database.transaction() as conn:
        rows = await _unsearchable(conn, piece)
        await _write(conn, rows)
        return len(rows)


async def _unsearchable(conn: Connection, limit: int) -> list[_Old]:
    async with conn.cursor(row_factory=class_row(_Old)) as cur:
        await cur.execute(
            """
            SELECT id, text, body, kind = 'message' AND NOT is_command AND withdrawn_at IS NULL AS findable
            FROM messages
            WHERE search IS NULL
            ORDER BY id DESC
            LIMIT %(limit)s
            FOR NO KEY UPDATE SKIP LOCKED
            """,
            {"limit": limit},
        )
        return await cur.fetchall()


async def _write(conn: Connection, rows: list[_Old]) -> None:
    if not rows:
        return
    await conn.execute(
        """
        WITH filled AS (
            UPDATE messages m
            SET search = f.search
            FROM unnest(%(ids)s::bigint[], %(searches)s::text[]) AS f(id, search)
            WHERE m.id = f.id
        )
        INSERT INTO message_vectors (message, conversation_id)
        SELECT m.id, m.conversation_id
        FROM messages m
        JOIN conversations c ON c.id = m.conversation_id AND c.learning
        WHERE m.id = ANY(%(worth)s::bigint[]) AND NOT m.is_robot
          AND NOT EXISTS (SELECT FROM unlearned u WHERE u.conversation_id = m.conversation_id AND u.user_id = m.sender_id)
        ON CONFLICT (message) DO NOTHING
        """,
        {
            "ids": [row.id for row in rows],
            "searches": [search_text(row.body) if row.findable else "" for row in rows],
            "worth": [row.id for row in rows if row.findable and worth_vector(row.text)],
        },
    )


async def set_body(conn: Connection, message: MessageRow, *, old: str, new: str) -> None:
    """Put what was fetched later (a forward's lines) in the place of its placeholder, findable from then on."""
    async with conn.transaction(), conn.cursor(row_factory=class_row(_Old)) as cur:
        await cur.execute(
            """
            SELECT id, text, body, kind = 'message' AND NOT is_command AND withdrawn_at IS NULL AS findable
            FROM messages WHERE id = %(message)s FOR NO KEY UPDATE
            """,
            {"message": message},
        )
        row = await cur.fetchone()
        if row is None:
            return
        body = row.body.replace(old, new)
        await cur.execute(
            "UPDATE messages SET body = %(body)s, search = %(search)s WHERE id = %(message)s",
            {"message": message, "body": body, "search": search_text(body) if row.findable else ""},
        )
