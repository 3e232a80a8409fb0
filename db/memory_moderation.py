"""What a person does with memories: each act locks the row, and its audit row is in the same transaction."""

from __future__ import annotations

from dataclasses import dataclass

from psycopg.errors import UniqueViolation
from pydantic import BaseModel

from db import memories
from db.audit import Act, write
from db.learned_models import Target
from db.memory_models import Claim, Memory, MemoryId, MemoryKind, MemoryStatus, Subject
from db.models import ConversationId, Json, JsonObject
from db.pool import Connection
from db.searchtext import content_key, search_text

_GONE = "相同的记忆刚刚被归档了，请再试一次"


class Outdated(Exception):
    """Somebody changed the memory since it was read."""

    def __init__(self, current: Memory) -> None:
        super().__init__("这条记忆刚刚被改过，请看过现在的内容再改")
        self.current = current


class Duplicate(Exception):
    """An equal active memory is there already."""

    def __init__(self, existing: Memory) -> None:
        super().__init__(f"已经有一条相同的记忆（编号 {existing.id}）")
        self.existing = existing


@dataclass(frozen=True, slots=True)
class Edit:
    """What to change; None leaves a part as it is. ``version``: the version that the person saw."""

    content: str | None = None
    kind: MemoryKind | None = None
    status: MemoryStatus | None = None
    version: int | None = None


def _shown(memory: Memory) -> dict[str, Json]:
    return {
        "id": memory.id,
        "subject_kind": memory.subject_kind,
        "subject_id": memory.subject_id,
        "kind": memory.kind,
        "content": memory.content,
        "status": memory.status,
        "version": memory.version,
    }


async def create(conn: Connection, claim: Claim, *, actor: str) -> tuple[Memory, bool]:
    """Write a claim on a person's word: locked, without evidence. An equal active one is locked instead; True: it is new.

    Must run inside a transaction. Raises LookupError when an equal one came and went meanwhile.
    """
    fresh = await memories.insert(conn, claim)
    existing = await _equal(conn, claim.conversation_id, claim.subject, claim.kind, claim.content) if fresh is None else None
    row_id = existing.id if existing is not None else fresh
    if row_id is None:
        raise LookupError(_GONE)
    await conn.execute("UPDATE memories SET locked = true WHERE id = %(id)s AND status = 'active'", {"id": row_id})
    memory = await _read(conn, row_id)
    if memory.status != "active":
        raise LookupError(_GONE)
    target = None if fresh is None else Target("memory", memory.id)
    action = "memory.lock" if target is None else "memory.create"
    await write(conn, Act(actor, action, claim.conversation_id, None, _shown(memory), target))
    return memory, fresh is not None


async def edit(conn: Connection, memory_id: MemoryId, wanted: Edit, *, actor: str) -> Memory | None:
    """Change a memory and lock it; None: there is none. Raises Outdated, Duplicate. Must run inside a transaction."""
    await conn.execute("SELECT FROM memories WHERE id = %(id)s FOR NO KEY UPDATE", {"id": memory_id})
    before = await memories.get(conn, memory_id)
    if before is None:
        return None
    if wanted.version is not None and wanted.version != before.version:
        raise Outdated(before)
    content = before.content if wanted.content is None else wanted.content
    kind = before.kind if wanted.kind is None else wanted.kind
    status = before.status if wanted.status is None else wanted.status
    try:
        async with conn.transaction():
            await _write(conn, before, content=content, kind=kind, status=status)
    except UniqueViolation as error:
        twin = await _equal(conn, before.conversation_id, before.subject, kind, content)
        raise Duplicate(twin or before) from error
    after = await _read(conn, memory_id)
    target = Target("memory", memory_id)
    await write(conn, Act(actor, "memory.change", before.conversation_id, _shown(before), _shown(after), target))
    return after


class _Fields(BaseModel):
    """What an act of a person changes in a memory, as the audit log keeps it."""

    content: str
    kind: MemoryKind
    status: MemoryStatus


async def restore(conn: Connection, memory_id: int, fields: JsonObject | None, version: int) -> bool:
    """Put a memory back as it was (None: it was not there, so it is archived); False: it changed since, or an equal one is there.

    Must run inside a transaction.
    """
    await conn.execute("SELECT FROM memories WHERE id = %(id)s FOR NO KEY UPDATE", {"id": memory_id})
    current = await memories.get(conn, MemoryId(memory_id))
    if current is None or current.version != version:
        return False
    wanted = _Fields.model_validate(fields or {**_shown(current), "status": "archived"})
    try:
        async with conn.transaction():
            await _write(conn, current, content=wanted.content, kind=wanted.kind, status=wanted.status)
    except UniqueViolation:
        return False
    return True


async def _write(conn: Connection, before: Memory, *, content: str, kind: MemoryKind, status: MemoryStatus) -> None:
    await conn.execute(
        """
        UPDATE memories
        SET content = %(content)s, content_key = %(key)s, search = %(search)s, kind = %(kind)s, status = %(status)s,
            space_id = CASE WHEN content = %(content)s THEN space_id END,
            embedding = CASE WHEN content = %(content)s THEN embedding END,
            archived_at = CASE WHEN %(status)s = 'archived' THEN coalesce(archived_at, now()) END,
            archived_why = CASE WHEN %(status)s = 'archived' THEN coalesce(archived_why, 'person') END,
            locked = true, version = version + 1, updated_at = now()
        WHERE id = %(id)s
        """,
        {
            "id": before.id,
            "content": content,
            "key": content_key(content),
            "search": search_text(content),
            "kind": kind,
            "status": status,
        },
    )
    if status == "archived":
        await conn.execute("DELETE FROM memory_uses WHERE memory_id = %(id)s", {"id": before.id})


async def delete(conn: Connection, memory_id: MemoryId, *, actor: str) -> bool:
    """Delete a memory for good; False: there is none. Must run inside a transaction."""
    before = await memories.get(conn, memory_id)
    if before is None:
        return False
    cur = await conn.execute("DELETE FROM memories WHERE id = %(id)s", {"id": memory_id})
    if cur.rowcount == 0:
        return False
    await write(conn, Act(actor, "memory.delete", before.conversation_id, _shown(before)))
    return True


async def _equal(
    conn: Connection, conversation_id: ConversationId, subject: Subject, kind: MemoryKind, content: str
) -> Memory | None:
    """Find the active memory of a subject, kind and words."""
    cur = await conn.execute(
        """
        SELECT id FROM memories
        WHERE conversation_id = %(conversation)s AND subject_kind = %(subject_kind)s AND subject_id = %(subject_id)s
          AND kind = %(kind)s AND content_key = %(key)s AND status = 'active'
        """,
        {
            "conversation": conversation_id,
            "subject_kind": subject.kind,
            "subject_id": subject.user_id,
            "kind": kind,
            "key": content_key(content),
        },
    )
    row = await cur.fetchone()
    return None if row is None else await memories.get(conn, MemoryId(row[0]))


async def _read(conn: Connection, memory_id: MemoryId) -> Memory:
    memory = await memories.get(conn, memory_id)
    if memory is None:
        raise LookupError(f"没有编号为 {memory_id} 的记忆")
    return memory
