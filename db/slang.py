"""Slang rows: read by id or by how somebody spells a term."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from psycopg.rows import class_row

from db.learned_models import ReviewStatus, SlangId
from db.models import ConversationId
from db.pool import Connection

TERM_CHARS = 40
MEANING_CHARS = 500
NOTE_CHARS = 500

SlangSource = Literal["miner", "model", "person"]

SLANG_ROWS = """
    SELECT s.id, s.conversation_id, s.term, s.term_key,
           ARRAY(SELECT v.variant FROM slang_variants v WHERE v.slang_id = s.id ORDER BY v.variant_key) AS variants,
           s.meaning, s.meaning_plain, s.note, s.status, s.locked, s.decided_by, s.source, s.score, s.confidence, s.denied,
           s.occurrences, s.speakers, s.days, s.first_seen, s.last_seen, s.inferred_at, s.merged_into, s.version,
           s.created_at, s.updated_at,
           (SELECT count(*) FROM slang_evidence e JOIN messages m ON m.id = e.message
            WHERE e.slang_id = s.id AND m.withdrawn_at IS NULL) AS evidence
    FROM slang s
"""
"""What a Slang is read from, up to its WHERE."""


@dataclass(frozen=True, slots=True)
class Slang:
    """A slang row with its other spellings and how many standing messages support it. ``meaning_plain``: without context."""

    id: SlangId
    conversation_id: ConversationId
    term: str
    term_key: str
    variants: list[str]
    meaning: str
    meaning_plain: str
    note: str
    status: ReviewStatus
    locked: bool
    decided_by: str | None
    source: SlangSource
    score: float
    confidence: float | None
    denied: int
    occurrences: int
    speakers: int
    days: int
    first_seen: datetime | None
    last_seen: datetime | None
    inferred_at: int
    merged_into: SlangId | None
    version: int
    created_at: datetime
    updated_at: datetime
    evidence: int


async def get(conn: Connection, slang_id: SlangId) -> Slang | None:
    """Read one row; None: there is none."""
    async with conn.cursor(row_factory=class_row(Slang)) as cur:
        await cur.execute(f"{SLANG_ROWS} WHERE s.id = %(id)s", {"id": slang_id})
        return await cur.fetchone()


async def hold(conn: Connection, slang_id: SlangId) -> Slang | None:
    """Read one row and keep others from changing it until the commit."""
    await conn.execute("SELECT FROM slang WHERE id = %(id)s FOR NO KEY UPDATE", {"id": slang_id})
    return await get(conn, slang_id)


@dataclass(frozen=True, slots=True)
class _Spelled:
    key: str
    id: SlangId


async def spelled(conn: Connection, conversation_id: ConversationId, keys: Sequence[str]) -> dict[str, SlangId]:
    """Find the rows of spellings (keys): a row's own term, else the row that it was merged into, or whose variant it is."""
    async with conn.cursor(row_factory=class_row(_Spelled)) as cur:
        await cur.execute(
            """
            SELECT w.key, coalesce(s.merged_into, s.id, v.slang_id) AS id
            FROM unnest(%(keys)s::text[]) AS w (key)
            LEFT JOIN slang s ON s.conversation_id = %(conversation)s AND s.term_key = w.key
            LEFT JOIN slang_variants v ON v.conversation_id = %(conversation)s AND v.variant_key = w.key
            WHERE coalesce(s.id, v.slang_id) IS NOT NULL
            """,
            {"conversation": conversation_id, "keys": list(keys)},
        )
        return {row.key: row.id for row in await cur.fetchall()}
