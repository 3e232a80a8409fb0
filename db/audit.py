"""The audit log: who did what, when, and what it was before. Acts on one row can be undone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from psycopg.rows import class_row, scalar_row
from psycopg.types.json import Jsonb

from db.learned_models import AuditId, Target, TargetKind
from db.models import ConversationId, Json, JsonObject
from db.pool import Connection


@dataclass(frozen=True, slots=True)
class Act:
    """One act of a person. ``actor`` is a QQ number or ``api``.

    With a ``target`` it can be undone: ``before`` (None: it did not exist) and ``after`` (None: it was deleted) then hold
    the row's moderated fields and its ``version``.
    """

    actor: str
    action: str
    conversation_id: ConversationId | None = None
    before: JsonObject | None = None
    after: JsonObject | None = None
    target: Target | None = None
    undoes: AuditId | None = None


@dataclass(frozen=True, slots=True)
class AuditRow:
    """An act as it was written down."""

    id: AuditId
    at: datetime
    actor: str
    action: str
    conversation_id: ConversationId | None
    before: Mapping[str, Json] | None
    after: Mapping[str, Json] | None
    target_kind: TargetKind | None
    target_id: int | None
    undone_at: datetime | None
    undoes: AuditId | None


async def write(conn: Connection, act: Act) -> AuditId:
    """Write one act down. Must run inside the transaction of the act itself."""
    async with conn.cursor(row_factory=scalar_row) as cur:
        await cur.execute(
            """
            INSERT INTO audit (actor, action, conversation_id, before, after, target_kind, target_id, undoes)
            VALUES (%(actor)s, %(action)s, %(conversation)s, %(before)s, %(after)s, %(target_kind)s, %(target_id)s, %(undoes)s)
            RETURNING id
            """,
            {
                "actor": act.actor,
                "action": act.action,
                "conversation": act.conversation_id,
                "before": None if act.before is None else Jsonb(act.before),
                "after": None if act.after is None else Jsonb(act.after),
                "target_kind": None if act.target is None else act.target.kind,
                "target_id": None if act.target is None else act.target.id,
                "undoes": act.undoes,
            },
        )
        [made] = await cur.fetchall()
        return AuditId(made)


async def hold(conn: Connection, audit_id: AuditId) -> AuditRow | None:
    """Read one act and keep others from undoing it until the commit."""
    async with conn.cursor(row_factory=class_row(AuditRow)) as cur:
        await cur.execute(
            """
            SELECT id, at, actor, action, conversation_id, before, after, target_kind, target_id, undone_at, undoes
            FROM audit
            WHERE id = %(id)s
            FOR UPDATE
            """,
            {"id": audit_id},
        )
        return await cur.fetchone()


@dataclass(frozen=True, slots=True)
class Later:
    """An act on the same row, and which act it took back."""

    id: AuditId
    undoes: AuditId | None


async def later(conn: Connection, audit_id: AuditId, target: Target) -> list[Later]:
    """List what was done to a row after an act, in order."""
    async with conn.cursor(row_factory=class_row(Later)) as cur:
        await cur.execute(
            """
            SELECT id, undoes FROM audit
            WHERE target_kind = %(kind)s AND target_id = %(target)s AND id > %(id)s
            ORDER BY id
            """,
            {"kind": target.kind, "target": target.id, "id": audit_id},
        )
        return await cur.fetchall()


async def mark_undone(conn: Connection, audit_id: AuditId) -> None:
    """Say that an act was taken back."""
    await conn.execute("UPDATE audit SET undone_at = now() WHERE id = %(id)s", {"id": audit_id})
