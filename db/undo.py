"""Taking back what was done: one act of the audit log, while nothing changed since but what was taken back too."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from db import audit, expression_review, memory_moderation, moderation, slang_review, trait_review
from db.audit import Act, AuditRow, Later
from db.learned_models import AuditId, Target, TargetKind
from db.models import JsonObject
from db.pool import Connection

Restore: TypeAlias = Callable[[Connection, AuditRow], Awaitable[bool]]
"""Puts a row back as it was before an act; False: it changed since."""
RestoreFields: TypeAlias = "Callable[[Connection, int, JsonObject | None, int], Awaitable[bool]]"
"""The same for rows with a version: the row, its fields before (None: it did not exist), its version after the act."""


_CHANGED = "后来又改过，不能直接撤销：请先撤销后面的改动，或者重新编辑"


class NotUndoable(Exception):
    """The act cannot be taken back; the text says why, in Chinese."""


def _versioned(restore: RestoreFields) -> Restore:
    async def put_back(conn: Connection, act: AuditRow) -> bool:
        version = None if act.after is None else act.after.get("version")
        if act.target_id is None or not isinstance(version, int):
            raise NotUndoable("已经彻底删除的东西不能恢复")
        return await restore(conn, act.target_id, act.before, version)

    return put_back


RESTORES: Mapping[TargetKind, Restore] = {
    "slang": _versioned(slang_review.restore),
    "expression": _versioned(expression_review.restore),
    "trait": _versioned(trait_review.restore),
    "memory": _versioned(memory_moderation.restore),
    "conversation": moderation.restore_settings,
}


@dataclass(frozen=True, slots=True)
class Undone:
    """An act that was taken back, and the act of taking it back."""

    of: AuditRow
    undo_id: AuditId


async def undo(conn: Connection, audit_id: AuditId, *, actor: str) -> Undone | None:
    """Take an act back and write that down as an act of its own; None: there is no such act.

    Must run inside a transaction. Raises NotUndoable.
    """
    act = await audit.hold(conn, audit_id)
    if act is None:
        return None
    restore = None if act.target_kind is None else RESTORES.get(act.target_kind)
    if restore is None:
        raise NotUndoable("这一步不能撤销")
    if act.undone_at is not None:
        raise NotUndoable("这一步已经撤销过了")
    act = _by_the_rule(await _settled(conn, act), actor)
    if not await restore(conn, act):
        raise NotUndoable(_CHANGED)
    await audit.mark_undone(conn, audit_id)
    return Undone(act, await audit.write(conn, _undoing(act, actor)))


async def _settled(conn: Connection, act: AuditRow) -> AuditRow:
    """Give an act the version that its row has now, where all that was done since was taken back. Raises NotUndoable."""
    version = None if act.after is None else act.after.get("version")
    if act.after is None or act.target_kind is None or act.target_id is None or not isinstance(version, int):
        return act
    later = await audit.later(conn, act.id, Target(act.target_kind, act.target_id))
    if _standing(later):
        raise NotUndoable(_CHANGED)
    return replace(act, after={**act.after, "version": version + len(later)})


def _standing(acts: Sequence[Later]) -> set[AuditId]:
    """The acts that still count: an act and the act that took it back cancel each other out."""
    standing: set[AuditId] = set()
    for act in acts:
        if act.undoes is not None and act.undoes in standing:
            standing.remove(act.undoes)
        else:
            standing.add(act.id)
    return standing


def _by_the_rule(act: AuditRow, actor: str) -> AuditRow:
    """Let who takes back an approval by the rule have decided on the candidate: else the rule approves it again."""
    if act.actor != "auto" or act.before is None or act.before.get("status") != "candidate":
        return act
    return replace(act, before={**act.before, "decided_by": actor})


def _undoing(act: AuditRow, actor: str) -> Act:
    """Write an undo so that it can be undone too: its ``after`` has the version that putting back made."""
    before, after = act.after, act.before
    target = None if act.target_kind is None or act.target_id is None or after is None else Target(act.target_kind, act.target_id)
    version = None if before is None else before.get("version")
    if after is not None and isinstance(version, int):
        after = {**after, "version": version + 1}
    return Act(actor, f"{act.action}.undo", act.conversation_id, before, after, target, act.id)
