"""Reading slang for people: lists, the messages that support a term, and what its meaning was."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from psycopg.rows import class_row

from db.learned_models import ReviewStatus, SlangId
from db.models import ConversationId
from db.pool import Connection
from db.searchtext import fold
from db.slang import SLANG_ROWS, Slang
from db.slang_terms import term_key

AROUND = 2
"""Visible messages before and after one that supports a term."""
EVIDENCE = 20
HISTORY = 50

Order = Literal["useful", "newest"]


@dataclass(frozen=True, slots=True)
class SlangFilter:
    """Which slang is wanted. None: any. ``useful`` comes first what is said often, by many, lately, and is sure."""

    conversation_id: ConversationId | None
    statuses: tuple[ReviewStatus, ...]
    text: str = ""
    order: Order = "useful"
    limit: int = 50
    offset: int = 0


@dataclass(frozen=True, slots=True)
class UseLine:
    """A message that holds a term (``side`` 0), or one that stands before (-1) or after (1) the one in row ``hit``."""

    hit: int
    message: int
    side: int
    pos: int
    sender_id: int
    sender_name: str
    text: str
    sent_at: datetime


@dataclass(frozen=True, slots=True)
class MeaningLine:
    """What a term meant after one inference or edit."""

    occurrences: int
    meaning: str
    meaning_plain: str
    confidence: float | None
    change: str
    source: Literal["model", "person"]
    made_at: datetime


async def some(conn: Connection, wanted: SlangFilter) -> list[Slang]:
    """List slang. A text finds parts of terms, of their spellings and of what they mean."""
    async with conn.cursor(row_factory=class_row(Slang)) as cur:
        await cur.execute(
            f"""
            {SLANG_ROWS}
            WHERE (%(conversation)s::bigint IS NULL OR s.conversation_id = %(conversation)s)
              AND s.status = ANY(%(statuses)s)
              AND (%(text)s = ''
                   OR (%(key)s <> '' AND (strpos(s.term_key, %(key)s) > 0
                                          OR EXISTS (SELECT FROM slang_variants v
                                                     WHERE v.slang_id = s.id AND strpos(v.variant_key, %(key)s) > 0)))
                   OR strpos(lower(s.meaning), %(text)s) > 0 OR strpos(lower(s.note), %(text)s) > 0)
            ORDER BY CASE WHEN %(order)s = 'useful'
                          THEN ln(1 + s.occurrences) * ln(1 + s.speakers) * coalesce(s.confidence, s.score / 2) / (1 + s.denied)
                               * power(0.5, extract(epoch FROM now() - coalesce(s.last_seen, s.updated_at)) / 2592000)
                     END DESC NULLS LAST,
                     s.id DESC
            LIMIT %(limit)s OFFSET %(offset)s
            """,
            {
                "conversation": wanted.conversation_id,
                "statuses": list(wanted.statuses),
                "text": fold(wanted.text).strip(),
                "key": term_key(wanted.text),
                "order": wanted.order,
                "limit": wanted.limit,
                "offset": wanted.offset,
            },
        )
        return await cur.fetchall()


async def evidence_of(conn: Connection, slang_id: SlangId) -> list[UseLine]:
    """Read the newest messages that support a term, each with what stands around it; withdrawn ones are left out.

    In reading order, hit by hit.
    """
    return await uses(conn, await _supporting(conn, slang_id))


async def _supporting(conn: Connection, slang_id: SlangId) -> list[int]:
    cur = await conn.execute(
        """
        SELECT m.id
        FROM slang_evidence e
        JOIN messages m ON m.id = e.message
        WHERE e.slang_id = %(id)s AND m.withdrawn_at IS NULL
        ORDER BY m.pos DESC
        LIMIT %(limit)s
        """,
        {"id": slang_id, "limit": EVIDENCE},
    )
    return [row[0] for row in await cur.fetchall()]


async def uses(conn: Connection, messages: Sequence[int]) -> list[UseLine]:
    """Read messages (row ids), oldest first, each with AROUND visible ones before and after it."""
    async with conn.cursor(row_factory=class_row(UseLine)) as cur:
        await cur.execute(
            """
            SELECT h.id AS hit, m.id AS message, a.side, m.pos, m.sender_id, m.sender_name, m.body AS text, m.sent_at
            FROM messages h
            CROSS JOIN LATERAL (
                (SELECT b.id, -1 AS side FROM messages b
                 WHERE b.conversation_id = h.conversation_id AND b.pos < h.pos AND b.withdrawn_at IS NULL
                 ORDER BY b.pos DESC LIMIT %(around)s)
                UNION ALL
                SELECT h.id, 0
                UNION ALL
                (SELECT f.id, 1 FROM messages f
                 WHERE f.conversation_id = h.conversation_id AND f.pos > h.pos AND f.withdrawn_at IS NULL
                 ORDER BY f.pos LIMIT %(around)s)
            ) AS a
            JOIN messages m ON m.id = a.id
            WHERE h.id = ANY(%(messages)s) AND h.withdrawn_at IS NULL
            ORDER BY h.pos, m.pos
            """,
            {"messages": list(messages), "around": AROUND},
        )
        return await cur.fetchall()


async def meanings_of(conn: Connection, slang_id: SlangId) -> list[MeaningLine]:
    """Read what a term's meaning was, oldest first."""
    async with conn.cursor(row_factory=class_row(MeaningLine)) as cur:
        await cur.execute(
            """
            SELECT n.occurrences, n.meaning, n.meaning_plain, n.confidence, n.change, n.source, n.made_at
            FROM (SELECT * FROM slang_meanings WHERE slang_id = %(id)s ORDER BY id DESC LIMIT %(limit)s) AS n
            ORDER BY n.id
            """,
            {"id": slang_id, "limit": HISTORY},
        )
        return await cur.fetchall()
