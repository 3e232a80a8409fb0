"""Reading memories: lists, one memory's evidence and history, and all of them for an export."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from datetime import datetime

from psycopg.rows import class_row

from db.memory_models import Memory, MemoryId, MemoryKind, MemoryStatus, Relation, Scope, SubjectKind
from db.models import ConversationId, Kind
from db.pool import Connection, Database

_EXPORT_PIECE = 500


@dataclass(frozen=True, slots=True)
class EvidenceLine:
    """One message that supports a memory; ``pos`` is its label. A withdrawn one has no text."""

    pos: int
    sender_id: int
    sender_name: str
    text: str
    sent_at: datetime
    withdrawn: bool


@dataclass(frozen=True, slots=True)
class HistoryLine:
    """A memory that this one followed or that followed it: ``newer`` tells which."""

    id: MemoryId
    relation: Relation
    newer: bool
    content: str
    status: MemoryStatus
    archived_why: str | None
    created_at: datetime


@dataclass(frozen=True, slots=True)
class ExportLine:
    """A memory as an export writes it: by QQ's numbers, without rows."""

    conversation_kind: Kind
    target_id: int
    subject_kind: SubjectKind
    subject_id: int
    kind: MemoryKind
    content: str
    status: MemoryStatus
    locked: bool
    uses: int
    used_at: datetime | None
    created_at: datetime
    updated_at: datetime


async def newest(conn: Connection, scope: Scope, *, limit: int, before: MemoryId | None = None) -> list[Memory]:
    """Read memories, the newest first, older than the id ``before``. No conversations in the scope means: all."""
    subjects = scope.subjects
    async with conn.cursor(row_factory=class_row(Memory)) as cur:
        await cur.execute(
            """
            SELECT m.id, m.conversation_id, m.subject_kind, m.subject_id, m.kind, m.content, m.status, m.archived_why,
                   m.archived_at, m.locked, m.source, m.turn_id, m.version, m.uses, m.used_at, m.created_at, m.updated_at
            FROM memories m
            WHERE (cardinality(%(conversations)s::bigint[]) = 0 OR m.conversation_id = ANY(%(conversations)s))
              AND (%(subject_kinds)s::text[] IS NULL
                   OR (m.subject_kind, m.subject_id) IN (SELECT * FROM unnest(%(subject_kinds)s::text[],
                                                                             %(subject_ids)s::bigint[])))
              AND (%(kinds)s::text[] IS NULL OR m.kind = ANY(%(kinds)s))
              AND m.status = ANY(%(statuses)s)
              AND (%(withdrawn)s OR m.archived_why IS DISTINCT FROM 'withdrawn')
              AND (%(before)s::bigint IS NULL OR m.id < %(before)s)
            ORDER BY m.id DESC
            LIMIT %(limit)s
            """,
            {
                "conversations": list(scope.conversation_ids),
                "subject_kinds": None if subjects is None else [subject.kind for subject in subjects],
                "subject_ids": None if subjects is None else [subject.user_id for subject in subjects],
                "kinds": None if scope.kinds is None else list(scope.kinds),
                "statuses": list(scope.statuses),
                "withdrawn": scope.withdrawn,
                "before": before,
                "limit": limit,
            },
        )
        return await cur.fetchall()


async def evidence_of(conn: Connection, memory_id: MemoryId) -> list[EvidenceLine]:
    """Read the messages that support a memory, oldest first."""
    async with conn.cursor(row_factory=class_row(EvidenceLine)) as cur:
        await cur.execute(
            """
            SELECT s.pos, s.sender_id, s.sender_name, s.sent_at, s.withdrawn_at IS NOT NULL AS withdrawn,
                   CASE WHEN s.withdrawn_at IS NULL THEN s.body ELSE '' END AS text
            FROM memory_evidence e
            JOIN messages s ON s.id = e.message
            WHERE e.memory_id = %(id)s
            ORDER BY s.pos
            """,
            {"id": memory_id},
        )
        return await cur.fetchall()


async def evidence_labels(conn: Connection, ids: Sequence[MemoryId]) -> dict[MemoryId, list[int]]:
    """Read the labels of the standing evidence of some memories, oldest first, at most five each."""
    cur = await conn.execute(
        """
        SELECT e.memory_id, (array_agg(s.pos ORDER BY s.pos))[1:5]
        FROM memory_evidence e
        JOIN messages s ON s.id = e.message
        WHERE e.memory_id = ANY(%(ids)s) AND s.withdrawn_at IS NULL
        GROUP BY e.memory_id
        """,
        {"ids": list(ids)},
    )
    return {MemoryId(memory): labels for memory, labels in await cur.fetchall()}


async def history_of(conn: Connection, memory_id: MemoryId) -> list[HistoryLine]:
    """Read what a memory followed and what followed it, through the whole chain, oldest first."""
    async with conn.cursor(row_factory=class_row(HistoryLine)) as cur:
        await cur.execute(
            """
            WITH RECURSIVE older AS (
                SELECT l.old_id AS id, l.relation FROM memory_links l WHERE l.new_id = %(id)s
                UNION
                SELECT l.old_id, l.relation FROM older o JOIN memory_links l ON l.new_id = o.id
            ), newer AS (
                SELECT l.new_id AS id, l.relation FROM memory_links l WHERE l.old_id = %(id)s
                UNION
                SELECT l.new_id, l.relation FROM newer n JOIN memory_links l ON l.old_id = n.id
            ), chain AS (
                SELECT id, relation, false AS newer FROM older
                UNION
                SELECT id, relation, true FROM newer
            )
            SELECT m.id, c.relation, c.newer, m.content, m.status, m.archived_why, m.created_at
            FROM chain c
            JOIN memories m ON m.id = c.id
            WHERE m.id <> %(id)s
            ORDER BY m.id
            LIMIT 100
            """,
            {"id": memory_id},
        )
        return await cur.fetchall()


async def export(database: Database, conversation_ids: Sequence[ConversationId]) -> AsyncGenerator[ExportLine]:
    """Read all memories of these conversations (none given: of all), oldest first, a piece at a time."""
    async with database.transaction() as conn, conn.cursor("export", row_factory=class_row(ExportLine)) as cur:
        cur.itersize = _EXPORT_PIECE
        await cur.execute(
            """
            SELECT c.kind AS conversation_kind, c.target_id, m.subject_kind, m.subject_id, m.kind, m.content, m.status,
                   m.locked, m.uses, m.used_at, m.created_at, m.updated_at
            FROM memories m
            JOIN conversations c ON c.id = m.conversation_id
            WHERE cardinality(%(conversations)s::bigint[]) = 0 OR m.conversation_id = ANY(%(conversations)s)
            ORDER BY m.id
            """,
            {"conversations": list(conversation_ids)},
        )
        async for line in cur:
            yield line
