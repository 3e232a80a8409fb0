"""Memories as rows: found, written with their evidence, archived with a link. Every change names the state it expects."""

from __future__ import annotations

from collections.abc import Sequence

from psycopg.rows import class_row, scalar_row

from db.memory_models import ArchivedWhy, Claim, Memory, MemoryId, Relation, Subject, Vector
from db.models import ConversationId, MessageRow, TurnId
from db.pool import Connection
from db.searchtext import content_key, search_text
from db.vectors import vector_literal


async def get(conn: Connection, memory_id: MemoryId) -> Memory | None:
    """Read one memory."""
    async with conn.cursor(row_factory=class_row(Memory)) as cur:
        await cur.execute(
            """
            SELECT id, conversation_id, subject_kind, subject_id, kind, content, status, archived_why, archived_at, locked,
                   source, turn_id, version, uses, used_at, created_at, updated_at
            FROM memories
            WHERE id = %(id)s
            """,
            {"id": memory_id},
        )
        return await cur.fetchone()


async def find_exact(conn: Connection, conversation_id: ConversationId, subject: Subject, content: str) -> Memory | None:
    """Find the active memory that says the same about the subject, letter for letter, of whatever kind."""
    async with conn.cursor(row_factory=class_row(Memory)) as cur:
        await cur.execute(
            """
            SELECT id, conversation_id, subject_kind, subject_id, kind, content, status, archived_why, archived_at, locked,
                   source, turn_id, version, uses, used_at, created_at, updated_at
            FROM memories
            WHERE conversation_id = %(conversation)s AND subject_kind = %(subject_kind)s AND subject_id = %(subject_id)s
              AND content_key = %(key)s AND status = 'active'
            ORDER BY id
            LIMIT 1
            """,
            {
                "conversation": conversation_id,
                "subject_kind": subject.kind,
                "subject_id": subject.user_id,
                "key": content_key(content),
            },
        )
        return await cur.fetchone()


async def rejected(conn: Connection, conversation_id: ConversationId, subject: Subject, content: str) -> bool:
    """Tell whether a person archived a memory of these words about the subject: only a person brings it back."""
    async with conn.cursor(row_factory=scalar_row) as cur:
        await cur.execute(
            """
            SELECT EXISTS (SELECT FROM memories
                           WHERE conversation_id = %(conversation)s AND subject_kind = %(subject_kind)s
                             AND subject_id = %(subject_id)s AND content_key = %(key)s
                             AND status = 'archived' AND archived_why = 'person' AND locked)
            """,
            {
                "conversation": conversation_id,
                "subject_kind": subject.kind,
                "subject_id": subject.user_id,
                "key": content_key(content),
            },
        )
        return bool(await cur.fetchone())


async def insert(conn: Connection, claim: Claim, vector: Vector | None = None) -> MemoryId | None:
    """Write a claim with its evidence; None when an equal active one of its kind is there (it was written meanwhile).

    Must run inside a transaction. ``vector`` is the claim's as a passage; without one the row waits for it.
    """
    async with conn.cursor(row_factory=scalar_row) as cur:
        await cur.execute(
            """
            INSERT INTO memories (conversation_id, subject_kind, subject_id, kind, content, content_key, search, space_id,
                                  embedding, source, turn_id)
            VALUES (%(conversation)s, %(subject_kind)s, %(subject_id)s, %(kind)s, %(content)s, %(key)s, %(search)s,
                    %(space)s, %(embedding)s::halfvec, %(source)s, %(turn)s)
            ON CONFLICT DO NOTHING
            RETURNING id
            """,
            {
                "conversation": claim.conversation_id,
                "subject_kind": claim.subject.kind,
                "subject_id": claim.subject.user_id,
                "kind": claim.kind,
                "content": claim.content,
                "key": content_key(claim.content),
                "search": search_text(claim.content),
                "space": vector.space_id if vector else None,
                "embedding": vector_literal(vector.values) if vector else None,
                "source": claim.source,
                "turn": claim.turn_id,
            },
        )
        found = await cur.fetchone()
    if found is None:
        return None
    await add_evidence(conn, MemoryId(found), claim.evidence)
    return MemoryId(found)


async def add_evidence(conn: Connection, memory_id: MemoryId, messages: Sequence[MessageRow]) -> bool:
    """Add messages to an active memory's evidence; False when it is not active any more. Must run inside a transaction."""
    cur = await conn.execute("UPDATE memories SET updated_at = now() WHERE id = %(id)s AND status = 'active'", {"id": memory_id})
    if cur.rowcount == 0:
        return False
    await conn.execute(
        """
        INSERT INTO memory_evidence (memory_id, message)
        SELECT %(id)s, message FROM unnest(%(messages)s::bigint[]) AS message
        ON CONFLICT DO NOTHING
        """,
        {"id": memory_id, "messages": list(messages)},
    )
    return True


async def hold(conn: Connection, memory: Memory) -> bool:
    """Keep an active memory from changing until the commit; False: it changed since it was read."""
    cur = await conn.execute(
        """
        SELECT FROM memories
        WHERE id = %(id)s AND status = 'active' AND version = %(version)s AND locked = %(locked)s
        FOR NO KEY UPDATE
        """,
        {"id": memory.id, "version": memory.version, "locked": memory.locked},
    )
    return cur.rowcount > 0


async def archive(conn: Connection, memory_id: MemoryId, why: ArchivedWhy) -> bool:
    """Archive an active memory that no person locked; False: it is neither."""
    cur = await conn.execute(
        """
        UPDATE memories
        SET status = 'archived', archived_why = %(why)s, archived_at = now(), updated_at = now(), version = version + 1
        WHERE id = %(id)s AND status = 'active' AND NOT locked
        """,
        {"id": memory_id, "why": why},
    )
    if cur.rowcount:
        await conn.execute("DELETE FROM memory_uses WHERE memory_id = %(id)s", {"id": memory_id})
    return cur.rowcount > 0


async def link(conn: Connection, old: MemoryId, new: MemoryId, relation: Relation) -> None:
    """Write down how one claim followed another."""
    await conn.execute(
        """
        INSERT INTO memory_links (old_id, new_id, relation) VALUES (%(old)s, %(new)s, %(relation)s)
        ON CONFLICT DO NOTHING
        """,
        {"old": old, "new": new, "relation": relation},
    )


async def used(conn: Connection, turn_id: TurnId, ids: Sequence[MemoryId]) -> None:
    """Count that a turn's prompt held these memories: once a turn, active ones only."""
    await conn.execute(
        """
        WITH held AS (
            SELECT id FROM memories WHERE id = ANY(%(ids)s) AND status = 'active' ORDER BY id FOR NO KEY UPDATE
        ), fresh AS (
            INSERT INTO memory_uses (turn_id, memory_id)
            SELECT %(turn)s, id FROM held
            ON CONFLICT DO NOTHING
            RETURNING memory_id
        )
        UPDATE memories m
        SET uses = m.uses + 1, used_at = now()
        FROM fresh
        WHERE m.id = fresh.memory_id
        """,
        {"turn": turn_id, "ids": list(ids)},
    )
