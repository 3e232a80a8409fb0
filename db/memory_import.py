"""Bringing memories in by the hundred: one statement a batch, and the same batch again changes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from db.memory_models import MemoryId, MemoryKind, MemoryStatus, Subject
from db.models import ConversationId
from db.pool import Connection
from db.searchtext import content_key, search_text


@dataclass(frozen=True, slots=True)
class ImportRow:
    """A memory as an import brings it. None: now; ``used_at`` None: never."""

    conversation_id: ConversationId
    subject: Subject
    kind: MemoryKind
    content: str
    status: MemoryStatus = "active"
    locked: bool = True
    uses: int = 0
    used_at: datetime | None = None
    created_at: datetime | None = None
    updated_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Imported:
    """The rows of a batch, new and known, and how many are new."""

    ids: tuple[MemoryId, ...]
    new: int


async def import_many(conn: Connection, rows: Sequence[ImportRow]) -> Imported:
    """Write a batch; a memory of the same words, subject, kind and status is known already. Must run inside a transaction."""
    wanted = len({(row.conversation_id, row.subject, row.kind, content_key(row.content), row.status) for row in rows})
    found = await _write(conn, rows)
    if len(found) < wanted:
        # Another import wrote some of them at the same moment: now they are known.
        found = await _write(conn, rows) | found
    return Imported(tuple(found), sum(found.values()))


async def _write(conn: Connection, rows: Sequence[ImportRow]) -> dict[MemoryId, bool]:
    """Write what is not there, and tell of each row whether it is new."""
    cur = await conn.execute(
        """
        WITH given AS (
            SELECT DISTINCT ON (conversation_id, subject_kind, subject_id, kind, content_key, status) *
            FROM unnest(%(conversations)s::bigint[], %(subject_kinds)s::text[], %(subject_ids)s::bigint[], %(kinds)s::text[],
                        %(contents)s::text[], %(keys)s::text[], %(searches)s::text[], %(statuses)s::text[],
                        %(locked)s::boolean[], %(uses)s::integer[], %(used)s::timestamptz[], %(created)s::timestamptz[],
                        %(updated)s::timestamptz[])
                 WITH ORDINALITY
                 AS g(conversation_id, subject_kind, subject_id, kind, content, content_key, search, status, locked, uses,
                      used_at, created_at, updated_at, no)
            ORDER BY conversation_id, subject_kind, subject_id, kind, content_key, status, no
        ), known AS (
            SELECT DISTINCT ON (g.no) g.no, m.id
            FROM given g
            JOIN memories m USING (conversation_id, subject_kind, subject_id, kind, content_key, status)
            ORDER BY g.no, m.id
        ), fresh AS (
            INSERT INTO memories (conversation_id, subject_kind, subject_id, kind, content, content_key, search, status,
                                  archived_why, archived_at, locked, source, uses, used_at, created_at, updated_at)
            SELECT g.conversation_id, g.subject_kind, g.subject_id, g.kind, g.content, g.content_key, g.search, g.status,
                   CASE WHEN g.status = 'archived' THEN 'person' END,
                   CASE WHEN g.status = 'archived' THEN coalesce(g.updated_at, now()) END,
                   g.locked, 'import', g.uses, g.used_at, coalesce(g.created_at, now()),
                   coalesce(g.updated_at, g.created_at, now())
            FROM given g
            WHERE g.no NOT IN (SELECT no FROM known)
            ORDER BY g.no
            ON CONFLICT DO NOTHING
            RETURNING id
        )
        SELECT id, false AS new FROM known
        UNION ALL
        SELECT id, true FROM fresh
        """,
        {
            "conversations": [row.conversation_id for row in rows],
            "subject_kinds": [row.subject.kind for row in rows],
            "subject_ids": [row.subject.user_id for row in rows],
            "kinds": [row.kind for row in rows],
            "contents": [row.content for row in rows],
            "keys": [content_key(row.content) for row in rows],
            "searches": [search_text(row.content) for row in rows],
            "statuses": [row.status for row in rows],
            "locked": [row.locked for row in rows],
            "uses": [row.uses for row in rows],
            "used": [row.used_at for row in rows],
            "created": [row.created_at for row in rows],
            "updated": [row.updated_at for row in rows],
        },
    )
    return {MemoryId(row): new for row, new in await cur.fetchall()}
