"""What the miner reads of messages and names, and the candidates that it writes. As sets."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from psycopg import AsyncCursor
from psycopg.rows import class_row, scalar_row

from db.learnable import LEARNABLE
from db.learned_models import SlangId
from db.models import ConversationId
from db.pool import Connection

Row = TypeVar("Row")

PIECE = 500
REST = 0.25
"""What is left of the score of a candidate that a mining did not find again."""
KEPT = 500
"""Mined candidates of one conversation that nobody has looked at: beyond these, the worst go."""


@dataclass(frozen=True, slots=True)
class Heard:
    """A message. ``day`` is a local day's number, counted on from any day; ``text`` has at most so many letters as asked for."""

    message: int
    speaker: int
    day: int
    text: str


@dataclass(frozen=True, slots=True)
class HeardElsewhere:
    """A message of some conversation."""

    conversation_id: ConversationId
    text: str


@dataclass(frozen=True, slots=True)
class Term:
    """A term on its way in, with its key and messages (row ids) as evidence. ``variants`` are other spellings with their keys."""

    term: str
    key: str
    variants: tuple[tuple[str, str], ...]
    score: float
    messages: tuple[int, ...]


async def _in_pieces(cur: AsyncCursor[Row]) -> list[Row]:
    """Read all rows, and let others work after every PIECE: to make thousands of records at once takes long."""
    rows: list[Row] = []
    while piece := await cur.fetchmany(PIECE):
        rows += piece
        await asyncio.sleep(0)
    return rows


async def window(
    conn: Connection, conversation_id: ConversationId, upto: int, *, limit: int, chars: int, zone: str
) -> list[Heard]:
    """Read the newest messages of people up to a position, in order."""
    async with conn.cursor(row_factory=class_row(Heard)) as cur:
        await cur.execute(
            f"""
            SELECT w.message, w.speaker, w.day, w.text
            FROM (SELECT m.pos, m.id AS message, m.sender_id AS speaker, left(m.text, %(chars)s) AS text,
                         (m.sent_at AT TIME ZONE %(zone)s)::date - DATE '2000-01-01' AS day
                  FROM messages m
                  WHERE m.conversation_id = %(conversation)s AND m.pos <= %(upto)s AND {LEARNABLE}
                  ORDER BY m.pos DESC
                  LIMIT %(limit)s) AS w
            ORDER BY w.pos
            """,
            {"conversation": conversation_id, "upto": upto, "limit": limit, "chars": chars, "zone": zone},
        )
        return await _in_pieces(cur)


async def others(conn: Connection, *, conversations: int, each: int, chars: int) -> list[HeardElsewhere]:
    """Read the newest messages of people in the groups that were lively last."""
    async with conn.cursor(row_factory=class_row(HeardElsewhere)) as cur:
        await cur.execute(
            f"""
            WITH lively AS (
                SELECT c.id FROM conversations c
                WHERE c.kind = 'group' AND c.learning
                ORDER BY (SELECT m.stored_at FROM messages m WHERE m.conversation_id = c.id ORDER BY m.pos DESC LIMIT 1)
                         DESC NULLS LAST
                LIMIT %(conversations)s
            )
            SELECT l.id AS conversation_id, r.text
            FROM lively l
            CROSS JOIN LATERAL (
                SELECT left(m.text, %(chars)s) AS text FROM messages m
                WHERE m.conversation_id = l.id AND {LEARNABLE}
                ORDER BY m.pos DESC
                LIMIT %(each)s
            ) AS r
            """,
            {"conversations": conversations, "each": each, "chars": chars},
        )
        return await _in_pieces(cur)


async def names(conn: Connection, conversation_id: ConversationId) -> list[str]:
    """List what members and own accounts are called in a conversation, now or earlier."""
    async with conn.cursor(row_factory=scalar_row) as cur:
        await cur.execute(
            """
            SELECT name FROM member_names WHERE conversation_id = %(conversation)s
            UNION
            SELECT unnest(ARRAY[card, nickname, title]) FROM members WHERE conversation_id = %(conversation)s
            UNION
            SELECT nickname FROM accounts
            UNION
            SELECT name FROM conversations WHERE id = %(conversation)s
            """,
            {"conversation": conversation_id},
        )
        return await cur.fetchall()


async def spellings(conn: Connection, conversation_id: ConversationId) -> list[tuple[SlangId, str]]:
    """List all spellings of all terms of a conversation."""
    cur = await conn.execute(
        """
        SELECT s.id, s.term FROM slang s WHERE s.conversation_id = %(conversation)s
        UNION
        SELECT v.slang_id, v.variant FROM slang_variants v WHERE v.conversation_id = %(conversation)s
        """,
        {"conversation": conversation_id},
    )
    return await cur.fetchall()


async def insert(conn: Connection, conversation_id: ConversationId, terms: Sequence[Term]) -> list[SlangId]:
    """Write new candidates; what is there already stays as it is. Gives the new rows."""
    async with conn.cursor(row_factory=scalar_row) as cur:
        await cur.execute(
            """
            INSERT INTO slang (conversation_id, term, term_key, source)
            SELECT %(conversation)s, t.term, t.key, 'miner'
            FROM unnest(%(terms)s::text[], %(keys)s::text[]) AS t (term, key)
            ON CONFLICT (conversation_id, term_key) DO NOTHING
            RETURNING id
            """,
            {"conversation": conversation_id, "terms": [term.term for term in terms], "keys": [term.key for term in terms]},
        )
        return await cur.fetchall()


async def rate(conn: Connection, scores: Sequence[tuple[SlangId, float]]) -> None:
    """Write the miner's scores, of several for one row the best. What people decided on keeps the score it had."""
    await conn.execute(
        """
        UPDATE slang s
        SET score = t.score
        FROM (SELECT id, max(score) AS score FROM unnest(%(ids)s::bigint[], %(scores)s::float8[]) AS u (id, score)
              GROUP BY id) AS t
        WHERE s.id = t.id AND s.status = 'candidate' AND NOT s.locked AND s.score <> t.score
        """,
        {"ids": [row for row, _ in scores], "scores": [score for _, score in scores]},
    )


async def fade(conn: Connection, conversation_id: ConversationId, found: Sequence[SlangId]) -> None:
    """Lower the scores of candidates that a mining did not find again and that no model has confirmed."""
    await conn.execute(
        """
        UPDATE slang s
        SET score = s.score * %(rest)s
        WHERE s.conversation_id = %(conversation)s AND s.source = 'miner' AND s.status = 'candidate' AND NOT s.locked
          AND s.confidence IS NULL AND s.score > 0 AND s.id <> ALL(%(found)s)
        """,
        {"conversation": conversation_id, "found": list(found), "rest": REST},
    )


async def spell(conn: Connection, conversation_id: ConversationId, spelled: Sequence[tuple[SlangId, str, str]]) -> None:
    """Add other spellings (row, key, text) of candidates that nobody locked, and of what was rejected: it shall not come anew.

    A spelling that belongs to a term already, or is a term itself, stays where it is.
    """
    await conn.execute(
        """
        INSERT INTO slang_variants (conversation_id, variant_key, variant, slang_id)
        SELECT %(conversation)s, v.key, v.variant, v.id
        FROM unnest(%(ids)s::bigint[], %(keys)s::text[], %(variants)s::text[]) AS v (id, key, variant)
        JOIN slang s ON s.id = v.id AND (s.status = 'rejected' OR (s.status = 'candidate' AND NOT s.locked))
        WHERE NOT EXISTS (SELECT FROM slang t WHERE t.conversation_id = %(conversation)s AND t.term_key = v.key)
        ON CONFLICT DO NOTHING
        """,
        {
            "conversation": conversation_id,
            "ids": [row for row, _, _ in spelled],
            "keys": [key for _, key, _ in spelled],
            "variants": [text for _, _, text in spelled],
        },
    )


async def prune(conn: Connection, conversation_id: ConversationId, *, keep: int = KEPT) -> int:
    """Delete the worst of the mined candidates that no model and no person has looked at; gives how many."""
    cur = await conn.execute(
        """
        DELETE FROM slang s
        USING (SELECT id FROM slang
               WHERE conversation_id = %(conversation)s AND source = 'miner' AND status = 'candidate' AND NOT locked
                 AND confidence IS NULL AND denied = 0 AND decided_by IS NULL AND meaning = '' AND note = '' AND version = 1
               ORDER BY score DESC, occurrences DESC, id
               OFFSET %(keep)s) AS w
        -- Somebody may have decided on it while this waited for the row.
        WHERE s.id = w.id AND s.status = 'candidate' AND NOT s.locked AND s.decided_by IS NULL AND s.version = 1
        """,
        {"conversation": conversation_id, "keep": keep},
    )
    return cur.rowcount
