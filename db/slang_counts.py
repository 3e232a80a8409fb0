"""How often slang is said: counted over the stored messages, a message once, people and days apart."""

from __future__ import annotations

from collections.abc import Sequence

from db.learnable import LEARNABLE
from db.models import ConversationId
from db.pool import Connection
from db.slang_terms import needle

ZONE = "Asia/Shanghai"


_SAID = f"""
    SELECT DISTINCT w.id, m.id AS message, m.sender_id, m.sent_at
    FROM unnest(%(ids)s::bigint[], %(conversations)s::bigint[], %(needles)s::text[]) AS w (id, conversation_id, needle)
    JOIN messages m ON ARRAY[m.conversation_id] && ARRAY[w.conversation_id] AND m.search LIKE '%%' || w.needle || '%%'
    WHERE {LEARNABLE} AND m.sender_id IS DISTINCT FROM %(without)s::bigint
"""
"""The messages of people who may be learned from in which terms stand: each once for a term, in however many spellings."""


async def occurrences(conn: Connection, conversation_id: ConversationId, terms: Sequence[Sequence[str]]) -> list[int]:
    """Count in how many messages of people each term stands, given as its spellings."""
    wanted = [(no, text) for no, spellings in enumerate(terms) for text in map(needle, spellings) if text]
    cur = await conn.execute(
        f"SELECT s.id, count(*) FROM ({_SAID}) AS s GROUP BY s.id",
        {
            "ids": [no for no, _ in wanted],
            "conversations": [conversation_id for _ in wanted],
            "needles": [text for _, text in wanted],
            "without": None,
        },
    )
    counted = dict(await cur.fetchall())
    return [counted.get(no, 0) for no in range(len(terms))]


async def recount(conn: Connection, ids: Sequence[int], *, zone: str = ZONE, without: int | None = None) -> None:
    """Count anew in how many messages of people these terms stand in any spelling, by how many people, on how many local days.

    ``without``: a member whose messages do not count, since they are about to be forgotten.
    """
    spellings = await _spellings(conn, ids)
    await conn.execute(
        f"""
        WITH said AS ({_SAID}), counted AS (
            SELECT id, count(*) AS occurrences, count(DISTINCT sender_id) AS speakers,
                   count(DISTINCT (sent_at AT TIME ZONE %(zone)s)::date) AS days,
                   min(sent_at) AS first_seen, max(sent_at) AS last_seen
            FROM said GROUP BY id
        )
        UPDATE slang s
        SET occurrences = coalesce(c.occurrences, 0), speakers = coalesce(c.speakers, 0), days = coalesce(c.days, 0),
            first_seen = c.first_seen, last_seen = c.last_seen
        FROM slang t
        LEFT JOIN counted c ON c.id = t.id
        WHERE t.id = ANY(%(all)s) AND s.id = t.id
        """,
        {
            "all": list(ids),
            "ids": [row for row, _, _ in spellings],
            "conversations": [conversation for _, conversation, _ in spellings],
            "needles": [text for _, _, text in spellings],
            "zone": zone,
            "without": without,
        },
    )


async def _spellings(conn: Connection, ids: Sequence[int]) -> list[tuple[int, int, str]]:
    """Read the spellings of terms as search texts hold them: row, conversation, needle."""
    cur = await conn.execute(
        """
        SELECT s.id, s.conversation_id, s.term FROM slang s WHERE s.id = ANY(%(ids)s)
        UNION
        SELECT v.slang_id, v.conversation_id, v.variant FROM slang_variants v WHERE v.slang_id = ANY(%(ids)s)
        """,
        {"ids": list(ids)},
    )
    found = [(row, conversation, needle(term)) for row, conversation, term in await cur.fetchall()]
    return [item for item in found if item[2]]
