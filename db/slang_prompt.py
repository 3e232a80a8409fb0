"""Approved slang that a text holds, for the prompt of a turn, and what a tool finds of the rest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from psycopg.rows import class_row

from db.learned_models import KnownSlang, SlangId
from db.models import ConversationId
from db.pool import Connection
from db.slang_terms import find_terms, term_key

MOST = 10
NARROWED = 300
"""Rows whose spelling stands somewhere in a text, that are looked at."""
FOUND = 5

_USABLE = """
    s.conversation_id = %(conversation)s AND s.status = 'approved' AND s.meaning <> ''
    AND (s.locked OR EXISTS (SELECT FROM slang_evidence e JOIN messages m ON m.id = e.message
                             WHERE e.slang_id = s.id AND m.withdrawn_at IS NULL))
"""
"""What may be shown to a model: approved, and its evidence stands or a person vouches for it."""


@dataclass(frozen=True, slots=True)
class _Spelling:
    id: SlangId
    term: str
    meaning: str
    occurrences: int
    spelling: str


async def in_text(conn: Connection, conversation_id: ConversationId, text: str, *, limit: int = MOST) -> list[KnownSlang]:
    """Find the approved terms that stand in a text, most specific first: the longest, of equals the rarest."""
    narrowed = await _narrow(conn, conversation_id, text)
    standing = find_terms([row.spelling for row in narrowed], text)
    found = [row for row in narrowed if row.spelling in standing]
    found.sort(key=lambda row: (-len(term_key(row.spelling)), row.occurrences, row.id))
    known: dict[SlangId, KnownSlang] = {}
    for row in found:
        known.setdefault(row.id, KnownSlang(row.id, row.term, row.meaning))
    return list(known.values())[:limit]


async def _narrow(conn: Connection, conversation_id: ConversationId, text: str) -> list[_Spelling]:
    """Find the spellings of approved terms that stand anywhere in a text, also inside words."""
    async with conn.cursor(row_factory=class_row(_Spelling)) as cur:
        await cur.execute(
            f"""
            SELECT s.id, s.term, s.meaning, s.occurrences, w.spelling
            FROM slang s
            CROSS JOIN LATERAL (
                SELECT s.term AS spelling WHERE strpos(%(text)s, s.term_key) > 0
                UNION ALL
                SELECT v.variant FROM slang_variants v WHERE v.slang_id = s.id AND strpos(%(text)s, v.variant_key) > 0
            ) AS w
            WHERE {_USABLE}
            ORDER BY char_length(w.spelling) DESC, s.id
            LIMIT %(limit)s
            """,
            {"conversation": conversation_id, "text": term_key(text), "limit": NARROWED},
        )
        return await cur.fetchall()


@dataclass(frozen=True, slots=True)
class LookedUp:
    """An approved term that was looked for, with its other spellings."""

    id: SlangId
    term: str
    meaning: str
    meaning_plain: str
    variants: Sequence[str]


async def look_up(conn: Connection, conversation_id: ConversationId, term: str, *, limit: int = FOUND) -> list[LookedUp]:
    """Find approved terms by what somebody calls them: spelled so first, then those that hold it or that it holds."""
    key = term_key(term)
    if not key:
        return []
    async with conn.cursor(row_factory=class_row(LookedUp)) as cur:
        await cur.execute(
            f"""
            SELECT s.id, s.term, s.meaning, s.meaning_plain,
                   ARRAY(SELECT v.variant FROM slang_variants v WHERE v.slang_id = s.id ORDER BY v.variant_key) AS variants
            FROM slang s
            CROSS JOIN LATERAL (
                SELECT min(CASE WHEN k.key = %(key)s THEN 0 WHEN strpos(k.key, %(key)s) > 0 THEN 1 ELSE 2 END) AS rank
                FROM (SELECT s.term_key AS key
                      UNION ALL
                      SELECT v.variant_key FROM slang_variants v WHERE v.slang_id = s.id) AS k
                WHERE strpos(k.key, %(key)s) > 0 OR strpos(%(key)s, k.key) > 0
            ) AS near
            WHERE {_USABLE} AND near.rank IS NOT NULL
            ORDER BY near.rank, char_length(s.term_key), s.occurrences DESC, s.id
            LIMIT %(limit)s
            """,
            {"conversation": conversation_id, "key": key, "limit": limit},
        )
        return await cur.fetchall()
