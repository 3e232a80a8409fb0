"""What the learner reads of slang: mined terms in a text, terms whose meaning is due, how they are used, whose names to avoid."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from psycopg.rows import class_row

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
    """An unlocked candidate. ``spellings`` begin with the term itself; ``confidence`` None: no model confirmed it yet."""

    id: SlangId
    term: str
    spellings: list[str]
    meaning: str
    occurrences: int
    speakers: int
    confidence: float | None


_MINED = """
    SELECT s.id, s.term,
           s.term || ARRAY(SELECT v.variant FROM slang_variants v WHERE v.slang_id = s.id ORDER BY v.variant_key) AS spellings,
           s.meaning, s.occurrences, s.speakers, s.confidence
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


async def due(conn: Connection, conversation_id: ConversationId, confirmed: Sequence[SlangId], *, limit: int) -> list[Mined]:
    """Find the candidates that a model confirmed (or just now, ``confirmed``) and whose occurrences passed a threshold."""
    async with conn.cursor(row_factory=class_row(Mined)) as cur:
        await cur.execute(
            f"""
            {_MINED}
            WHERE s.conversation_id = %(conversation)s AND s.status = 'candidate' AND NOT s.locked
              AND (s.confidence IS NOT NULL OR s.id = ANY(%(confirmed)s))
              AND EXISTS (SELECT FROM unnest(%(thresholds)s::integer[]) AS t (occurrences)
                          WHERE s.inferred_at < t.occurrences AND t.occurrences <= s.occurrences)
            ORDER BY s.occurrences DESC, s.id
            LIMIT %(limit)s
            """,
            {
                "conversation": conversation_id,
                "confirmed": list(confirmed),
                "thresholds": list(THRESHOLDS),
                "limit": limit,
            },
        )
        return await cur.fetchall()


@dataclass(frozen=True, slots=True)
class Use:
    """A message that holds a spelling of a term, as far as the search text tells."""

    slang_id: SlangId
    message: int
    text: str


async def newest_uses(
    conn: Connection, conversation_id: ConversationId, needles: Sequence[tuple[SlangId, str]], *, limit: int
) -> list[Use]:
    """Find the newest messages of people that hold terms, at most ``limit`` for each needle, newest first.

    A needle is a spelling as search texts hold it. What has evidence is looked at too: it may hold what a needle misses.
    """
    async with conn.cursor(row_factory=class_row(Use)) as cur:
        await cur.execute(
            """
            SELECT w.id AS slang_id, m.id AS message, m.text
            FROM unnest(%(ids)s::bigint[], %(needles)s::text[]) AS w (id, needle)
            CROSS JOIN LATERAL (
                (SELECT a.id, a.pos FROM messages a
                 WHERE a.conversation_id = %(conversation)s AND w.needle <> '' AND a.search LIKE '%%' || w.needle || '%%'
                   AND a.withdrawn_at IS NULL AND a.kind = 'message' AND NOT (a.is_self OR a.is_robot OR a.is_command)
                 ORDER BY a.pos DESC LIMIT %(limit)s)
                UNION
                (SELECT b.id, b.pos FROM slang_evidence e JOIN messages b ON b.id = e.message
                 WHERE e.slang_id = w.id AND b.withdrawn_at IS NULL
                 ORDER BY b.pos DESC LIMIT %(limit)s)
            ) AS h
            JOIN messages m ON m.id = h.id
            LEFT JOIN members p ON p.conversation_id = m.conversation_id AND p.user_id = m.sender_id
            WHERE NOT coalesce(p.is_robot, false)
              AND NOT EXISTS (SELECT FROM unlearned u
                              WHERE u.conversation_id = m.conversation_id AND u.user_id = m.sender_id)
            ORDER BY h.pos DESC
            """,
            {
                "conversation": conversation_id,
                "ids": [row for row, _ in needles],
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
