"""What the learner reads of slang: mined terms in a text, terms whose meaning is due, how they are used, whose names to avoid."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from psycopg.rows import class_row, scalar_row

from db.learnable import LEARNABLE
from db.learned_models import SlangId
from db.models import ConversationId
from db.pool import Connection
from db.slang_terms import term_key

THRESHOLDS = (3, 8, 25, 100)
"""Occurrences at which a candidate's meaning is inferred again."""
DENIALS = 5
"""A term that the model saw so often without confirming it is not shown again."""
NARROWED = 200


@dataclass(frozen=True, slots=True)
class Mined:
    """An unlocked candidate. ``spellings`` begin with the term itself; ``confidence`` None: no model confirmed it yet.

    ``inferred_at``: its occurrences when its meaning was last inferred.
    """

    id: SlangId
    term: str
    key: str
    spellings: list[str]
    meaning: str
    occurrences: int
    speakers: int
    confidence: float | None
    inferred_at: int


_MINED = """
    SELECT s.id, s.term, s.term_key AS key,
           s.term || ARRAY(SELECT v.variant FROM slang_variants v WHERE v.slang_id = s.id ORDER BY v.variant_key) AS spellings,
           s.meaning, s.occurrences, s.speakers, s.confidence, s.inferred_at
    FROM slang s
"""


async def candidates_in(conn: Connection, conversation_id: ConversationId, text: str) -> list[Mined]:
    """Find the candidates that a text holds anywhere, also inside words: those to be judged first, then by score."""
    async with conn.cursor(row_factory=class_row(Mined)) as cur:
        await cur.execute(
            f"""
            {_MINED}
            WHERE s.conversation_id = %(conversation)s AND s.status = 'candidate' AND NOT s.locked AND s.denied < %(denials)s
              AND (strpos(%(text)s, s.term_key) > 0
                   OR EXISTS (SELECT FROM slang_variants v WHERE v.slang_id = s.id AND strpos(%(text)s, v.variant_key) > 0))
            ORDER BY s.confidence IS NOT NULL, s.denied, s.score DESC, s.occurrences DESC, s.id
            LIMIT %(limit)s
            """,
            {"conversation": conversation_id, "text": term_key(text), "denials": DENIALS, "limit": NARROWED},
        )
        return await cur.fetchall()


async def due(conn: Connection, conversation_id: ConversationId, *, limit: int) -> list[Mined]:
    """Find the candidates that a model confirmed and whose occurrences, as last counted, passed a threshold."""
    async with conn.cursor(row_factory=class_row(Mined)) as cur:
        await cur.execute(
            f"""
            {_MINED}
            WHERE s.conversation_id = %(conversation)s AND s.status = 'candidate' AND NOT s.locked
              AND s.confidence IS NOT NULL
              AND EXISTS (SELECT FROM unnest(%(thresholds)s::integer[]) AS t (occurrences)
                          WHERE s.inferred_at < t.occurrences AND t.occurrences <= s.occurrences)
            ORDER BY s.occurrences DESC, s.id
            LIMIT %(limit)s
            """,
            {"conversation": conversation_id, "thresholds": list(THRESHOLDS), "limit": limit},
        )
        return await cur.fetchall()


def passed(inferred_at: int, occurrences: int) -> bool:
    """Tell whether a term passed a threshold since its meaning was inferred."""
    return any(inferred_at < threshold <= occurrences for threshold in THRESHOLDS)


async def standing_in(conn: Connection, conversation_id: ConversationId, text: str) -> list[SlangId]:
    """Find the rows, but those rejected, whose term a text holds anywhere, also inside words."""
    async with conn.cursor(row_factory=scalar_row) as cur:
        await cur.execute(
            """
            SELECT s.id
            FROM slang s
            WHERE s.conversation_id = %(conversation)s AND s.status <> 'rejected'
              AND (strpos(%(text)s, s.term_key) > 0
                   OR EXISTS (SELECT FROM slang_variants v WHERE v.slang_id = s.id AND strpos(%(text)s, v.variant_key) > 0))
            """,
            {"conversation": conversation_id, "text": term_key(text)},
        )
        return await cur.fetchall()


@dataclass(frozen=True, slots=True)
class Use:
    """A message that holds a spelling of a term (by its number), as far as the search text tells."""

    no: int
    message: int
    text: str


async def newest_uses(
    conn: Connection, conversation_id: ConversationId, needles: Sequence[tuple[int, str]], *, limit: int
) -> list[Use]:
    """Find the newest messages of people that hold terms (number, needle), at most ``limit`` for each, newest first."""
    async with conn.cursor(row_factory=class_row(Use)) as cur:
        await cur.execute(
            f"""
            SELECT w.no, r.id AS message, r.text
            FROM unnest(%(numbers)s::bigint[], %(needles)s::text[]) AS w (no, needle)
            CROSS JOIN LATERAL (
                SELECT m.id, m.pos, m.text
                FROM messages m
                WHERE m.conversation_id = %(conversation)s AND m.search LIKE '%%' || w.needle || '%%' AND {LEARNABLE}
                ORDER BY m.pos DESC
                LIMIT %(limit)s
            ) AS r
            ORDER BY r.pos DESC
            """,
            {
                "conversation": conversation_id,
                "numbers": [no for no, _ in needles],
                "needles": [needle for _, needle in needles],
                "limit": limit,
            },
        )
        return await cur.fetchall()


async def texts(conn: Connection, messages: Sequence[int]) -> dict[int, str]:
    """Read what was said in messages (row ids), without names of mentioned members; withdrawn ones are left out."""
    cur = await conn.execute(
        "SELECT id, text FROM messages WHERE id = ANY(%(messages)s) AND withdrawn_at IS NULL", {"messages": list(messages)}
    )
    return dict(await cur.fetchall())


async def names_like(conn: Connection, conversation_id: ConversationId, terms: Sequence[str]) -> list[str]:
    """List the names of members and own accounts, now or earlier, in which one of these terms stands."""
    cur = await conn.execute(
        """
        SELECT DISTINCT n.name
        FROM (SELECT name FROM member_names WHERE conversation_id = %(conversation)s
              UNION ALL
              SELECT unnest(ARRAY[card, nickname]) FROM members WHERE conversation_id = %(conversation)s
              UNION ALL
              SELECT nickname FROM accounts) AS n (name)
        WHERE EXISTS (SELECT FROM unnest(%(terms)s::text[]) AS t (term)
                      WHERE strpos(lower(normalize(replace(n.name, ' ', ''), NFKC)), t.term) > 0)
        """,
        {"conversation": conversation_id, "terms": [form for term in terms for form in (term_key(term), _plain(term))]},
    )
    return [row[0] for row in await cur.fetchall()]


def _plain(term: str) -> str:
    """A term as the statement folds names: traditional letters stay."""
    return unicodedata.normalize("NFKC", term.replace(" ", "")).lower()
