"""What the learner writes about slang: confirmed terms with evidence, meanings, denials, approval by the rule. As sets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from psycopg.rows import class_row, scalar_row

from db.audit import Act, write
from db.learned_models import ReviewStatus, SlangId, Target
from db.models import ConversationId
from db.pool import Connection

EVIDENCE = 50
"""Newest messages that are kept as evidence of one term."""
AUTO_OCCURRENCES, AUTO_SPEAKERS, AUTO_CONFIDENCE = 8, 3, 0.85


@dataclass(frozen=True, slots=True)
class Found:
    """A term that a model confirmed. ``meaning`` is empty where its evidence no longer stands as the model saw it."""

    term: str
    key: str
    meaning: str
    meaning_plain: str
    confidence: float
    evidence: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Inferred:
    """What a term (by its key) means, inferred anew from messages (``sources``). An empty meaning: no model could tell."""

    key: str
    meaning: str
    meaning_plain: str
    confidence: float
    change: str
    sources: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Row:
    id: SlangId
    status: ReviewStatus


async def hold(conn: Connection, ids: Sequence[SlangId]) -> dict[SlangId, ReviewStatus]:
    """Keep rows from changing until the commit; gives the state of each that is there."""
    async with conn.cursor(row_factory=class_row(_Row)) as cur:
        await cur.execute(
            "SELECT id, status FROM slang WHERE id = ANY(%(ids)s) ORDER BY id FOR NO KEY UPDATE", {"ids": list(ids)}
        )
        return {row.id: row.status for row in await cur.fetchall()}


async def insert(conn: Connection, conversation_id: ConversationId, found: Sequence[Found]) -> list[SlangId]:
    """Write new candidates, without meaning yet; what is there already stays as it is. Gives the new rows."""
    async with conn.cursor(row_factory=scalar_row) as cur:
        await cur.execute(
            """
            INSERT INTO slang (conversation_id, term, term_key, source)
            SELECT %(conversation)s, f.term, f.key, 'model'
            FROM unnest(%(terms)s::text[], %(keys)s::text[]) AS f (term, key)
            ON CONFLICT (conversation_id, term_key) DO NOTHING
            RETURNING id
            """,
            {
                "conversation": conversation_id,
                "terms": [term.term for term in found],
                "keys": [term.key for term in found],
            },
        )
        return await cur.fetchall()


async def support(conn: Connection, pairs: Sequence[tuple[SlangId, int]]) -> None:
    """Add evidence (row, message), and keep the newest EVIDENCE messages of each row."""
    values = {"ids": [row for row, _ in pairs], "messages": [message for _, message in pairs], "most": EVIDENCE}
    await conn.execute(
        """
        INSERT INTO slang_evidence (slang_id, message)
        SELECT * FROM unnest(%(ids)s::bigint[], %(messages)s::bigint[])
        ON CONFLICT DO NOTHING
        """,
        values,
    )
    await conn.execute(
        """
        DELETE FROM slang_evidence e
        USING (SELECT slang_id, message, row_number() OVER (PARTITION BY slang_id ORDER BY message DESC) AS place
               FROM slang_evidence WHERE slang_id = ANY(%(ids)s)) AS r
        WHERE e.slang_id = r.slang_id AND e.message = r.message AND r.place > %(most)s
        """,
        values,
    )


async def confirm(conn: Connection, found: Sequence[tuple[SlangId, Found]]) -> int:
    """Write what a model says of candidates that nobody locked: how sure it is, and the meaning of those without one.

    Gives how many meanings were written.
    """
    async with conn.cursor(row_factory=scalar_row) as cur:
        await cur.execute(
            """
            WITH told AS (
                SELECT * FROM unnest(%(ids)s::bigint[], %(meanings)s::text[], %(plains)s::text[], %(confidences)s::float8[])
                    AS t (id, meaning, plain, confidence)
            ), bare AS (
                SELECT s.id FROM slang s JOIN told t ON t.id = s.id AND t.meaning <> ''
                WHERE s.status = 'candidate' AND NOT s.locked AND s.meaning = ''
            ), changed AS (
                UPDATE slang s
                SET confidence = (coalesce(s.confidence, t.confidence) + t.confidence) / 2,
                    meaning = CASE WHEN s.meaning = '' THEN t.meaning ELSE s.meaning END,
                    meaning_plain = CASE WHEN s.meaning = '' THEN t.plain ELSE s.meaning_plain END,
                    version = s.version + CASE WHEN s.meaning = '' AND t.meaning <> '' THEN 1 ELSE 0 END,
                    updated_at = now()
                FROM told t
                WHERE s.id = t.id AND s.status = 'candidate' AND NOT s.locked
            )
            INSERT INTO slang_meanings (slang_id, occurrences, meaning, meaning_plain, confidence, source, sources)
            SELECT s.id, s.occurrences, t.meaning, t.plain, t.confidence, 'model',
                   ARRAY(SELECT e.message FROM unnest(%(evidence_ids)s::bigint[], %(messages)s::bigint[]) AS e (id, message)
                         WHERE e.id = s.id)
            FROM bare b
            JOIN slang s ON s.id = b.id
            JOIN told t ON t.id = b.id
            RETURNING slang_id
            """,
            {
                "ids": [row for row, _ in found],
                "meanings": [term.meaning for _, term in found],
                "plains": [term.meaning_plain for _, term in found],
                "confidences": [term.confidence for _, term in found],
                "evidence_ids": [row for row, term in found for _ in term.evidence],
                "messages": [message for _, term in found for message in term.evidence],
            },
        )
        return len(await cur.fetchall())


async def deny(conn: Connection, ids: Sequence[SlangId]) -> None:
    """Count that a model saw these candidates and confirmed none; what one confirmed earlier is not counted."""
    await conn.execute(
        """
        UPDATE slang SET denied = denied + 1
        WHERE id = ANY(%(ids)s) AND status = 'candidate' AND NOT locked AND confidence IS NULL
        """,
        {"ids": list(ids)},
    )


async def infer(conn: Connection, slang_id: SlangId, inferred: Inferred) -> bool:
    """Write a new meaning of a candidate that nobody locked, and keep the difference; False: it is no such row.

    Where the model could not tell, the text stays and the row waits for the next threshold. What the earlier meaning stood
    on counts among the sources: the model was shown it.
    """
    cur = await conn.execute(
        """
        WITH earlier AS (
            SELECT n.sources FROM slang_meanings n WHERE n.slang_id = %(id)s ORDER BY n.id DESC LIMIT 1
        ), changed AS (
            UPDATE slang s
            SET inferred_at = s.occurrences,
                meaning = CASE WHEN %(meaning)s = '' THEN s.meaning ELSE %(meaning)s END,
                meaning_plain = CASE WHEN %(meaning)s = '' THEN s.meaning_plain ELSE %(plain)s END,
                confidence = CASE WHEN %(meaning)s = '' THEN s.confidence ELSE %(confidence)s END,
                version = s.version + CASE WHEN %(meaning)s IN ('', s.meaning) THEN 0 ELSE 1 END,
                updated_at = now()
            WHERE s.id = %(id)s AND s.status = 'candidate' AND NOT s.locked
            RETURNING s.id, s.occurrences
        )
        INSERT INTO slang_meanings (slang_id, occurrences, meaning, meaning_plain, confidence, change, source, sources)
        SELECT c.id, c.occurrences, %(meaning)s, %(plain)s, %(confidence)s, %(change)s, 'model',
               ARRAY(SELECT unnest(%(sources)s::bigint[]) UNION SELECT unnest(e.sources) FROM earlier e)
        FROM changed c
        WHERE %(meaning)s <> ''
        """,
        {
            "id": slang_id,
            "meaning": inferred.meaning,
            "plain": inferred.meaning_plain,
            "confidence": inferred.confidence,
            "change": inferred.change,
            "sources": list(inferred.sources),
        },
    )
    return cur.rowcount > 0


async def standing(conn: Connection, messages: Sequence[int]) -> frozenset[int]:
    """Tell which messages are not withdrawn, and hold them against a withdrawal until the commit."""
    async with conn.cursor(row_factory=scalar_row) as cur:
        await cur.execute(
            "SELECT id FROM messages WHERE id = ANY(%(messages)s) AND withdrawn_at IS NULL ORDER BY id FOR SHARE",
            {"messages": list(messages)},
        )
        return frozenset(await cur.fetchall())


@dataclass(frozen=True, slots=True)
class _Approved:
    id: SlangId
    term: str
    meaning: str
    meaning_plain: str
    note: str
    version: int


async def approve_sure(conn: Connection, conversation_id: ConversationId) -> int:
    """Approve the candidates of a conversation that the rule is sure of and nobody decided on; each is in the audit log.

    Gives how many. Must run inside a transaction.
    """
    async with conn.cursor(row_factory=class_row(_Approved)) as cur:
        await cur.execute(
            """
            UPDATE slang s
            SET status = 'approved', decided_by = 'auto', version = s.version + 1, updated_at = now()
            WHERE s.conversation_id = %(conversation)s AND s.status = 'candidate' AND NOT s.locked AND s.decided_by IS NULL
              AND s.meaning <> ''
              AND s.occurrences >= %(occurrences)s AND s.speakers >= %(speakers)s AND s.confidence >= %(confidence)s
              AND EXISTS (SELECT FROM slang_evidence e JOIN messages m ON m.id = e.message
                          WHERE e.slang_id = s.id AND m.withdrawn_at IS NULL)
            RETURNING s.id, s.term, s.meaning, s.meaning_plain, s.note, s.version
            """,
            {
                "conversation": conversation_id,
                "occurrences": AUTO_OCCURRENCES,
                "speakers": AUTO_SPEAKERS,
                "confidence": AUTO_CONFIDENCE,
            },
        )
        approved = await cur.fetchall()
    for row in approved:
        same = {
            "term": row.term,
            "meaning": row.meaning,
            "meaning_without_context": row.meaning_plain,
            "note": row.note,
            "locked": False,
            "merged_into": None,
        }
        before = {**same, "status": "candidate", "decided_by": None, "version": row.version - 1}
        after = {**same, "status": "approved", "decided_by": "auto", "version": row.version}
        await write(conn, Act("auto", "slang.approve", conversation_id, before, after, Target("slang", row.id)))
    return len(approved)
