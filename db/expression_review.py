"""What people do with expressions: approve, reject, write, edit, merge, take back. Each act's audit row is in its transaction."""

from __future__ import annotations

from dataclasses import dataclass, replace

from psycopg.errors import UniqueViolation
from psycopg.rows import scalar_row
from pydantic import BaseModel

from db import expressions
from db.audit import Act, write
from db.expressions import Expression, read_pair
from db.learned_models import ExpressionId, ReviewStatus, Target
from db.models import ConversationId, Json, JsonObject
from db.pool import Connection

_ACTIONS: dict[ReviewStatus, str] = {
    "approved": "expression.approve",
    "rejected": "expression.reject",
    "candidate": "expression.restore",
}
_STATES: dict[ReviewStatus, str] = {"approved": "已通过", "rejected": "已拒绝", "candidate": "候选"}


class Outdated(Exception):
    """Somebody changed the row since it was read."""

    def __init__(self, current: Expression) -> None:
        super().__init__("这个表达刚刚被改过，请看过现在的内容再改")
        self.current = current


class Taken(Exception):
    """Another row says the same already."""

    def __init__(self, current: Expression) -> None:
        super().__init__(f"已经有这个表达了（{_STATES[current.status]}，编号 {current.id}），请直接改那一条")
        self.current = current


class Unmergeable(Exception):
    """The rows cannot become one; the text says why, in Chinese."""


@dataclass(frozen=True, slots=True)
class NewExpression:
    """An expression on a person's word."""

    conversation_id: ConversationId
    situation: str
    phrase: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class Edit:
    """What to change; None leaves a part as it is. ``version``: the version that the person saw."""

    version: int
    status: ReviewStatus | None = None
    situation: str | None = None
    phrase: str | None = None
    note: str | None = None


class _Fields(BaseModel):
    """What an act changes in a row, as the audit log keeps it; ``evidence``: messages that a merge moved,
    ``followers``: rows that had been merged into the one that was merged.
    """

    situation: str
    phrase: str
    note: str
    status: ReviewStatus
    locked: bool
    decided_by: str | None
    merged_into: int | None = None
    evidence: list[int] = []
    followers: list[int] = []


def shown(row: Expression) -> dict[str, Json]:
    """The moderated fields of a row, as the audit log keeps them."""
    return {
        "situation": row.situation,
        "phrase": row.phrase,
        "note": row.note,
        "status": row.status,
        "locked": row.locked,
        "decided_by": row.decided_by,
        "merged_into": row.merged_into,
        "version": row.version,
    }


async def create(conn: Connection, new: NewExpression, *, actor: str) -> Expression:
    """Write an expression on a person's word: approved, locked, without evidence.

    Must run inside a transaction. Raises Taken.
    """
    pair = read_pair(new.situation, new.phrase)
    async with conn.cursor(row_factory=scalar_row) as cur:
        await cur.execute(
            """
            INSERT INTO expressions (conversation_id, situation, phrase, pair_key, phrase_key, search, phrase_search, note,
                                     status, locked, decided_by, source)
            VALUES (%(conversation)s, %(situation)s, %(phrase)s, %(key)s, %(phrase_key)s, %(search)s, %(phrase_search)s,
                    %(note)s, 'approved', true, %(actor)s, 'person')
            ON CONFLICT (conversation_id, pair_key) DO NOTHING
            RETURNING id
            """,
            {
                "conversation": new.conversation_id,
                "situation": pair.situation,
                "phrase": pair.phrase,
                "key": pair.key,
                "phrase_key": pair.phrase_key,
                "search": pair.search,
                "phrase_search": pair.phrase_search,
                "note": new.note,
                "actor": actor,
            },
        )
        made = await cur.fetchone()
    if made is None:
        raise Taken(await _owner(conn, new.conversation_id, pair.key))
    row = await _read(conn, ExpressionId(made))
    await write(conn, Act(actor, "expression.create", row.conversation_id, None, shown(row), Target("expression", row.id)))
    return row


async def edit(conn: Connection, expression_id: ExpressionId, wanted: Edit, *, actor: str) -> Expression | None:
    """Change a row; other words lock it. None: there is none. What changes nothing leaves no trace.

    Must run inside a transaction. Raises Outdated, Taken.
    """
    before = await expressions.hold(conn, expression_id)
    if before is None:
        return None
    if wanted.version != before.version:
        raise Outdated(before)
    after = _edited(before, wanted, actor)
    if after == before:
        return before
    await _put(conn, before, after)
    row = await _read(conn, expression_id)
    action = _ACTIONS[row.status] if row.status != before.status else "expression.change"
    await write(conn, Act(actor, action, row.conversation_id, shown(before), shown(row), Target("expression", row.id)))
    return row


def _edited(before: Expression, wanted: Edit, actor: str) -> Expression:
    """The row as it is wanted."""
    situation = before.situation if wanted.situation is None else wanted.situation
    phrase = before.phrase if wanted.phrase is None else wanted.phrase
    return replace(
        before,
        situation=situation,
        phrase=phrase,
        note=before.note if wanted.note is None else wanted.note,
        status=wanted.status or before.status,
        locked=before.locked or (situation, phrase) != (before.situation, before.phrase),
        decided_by=before.decided_by if wanted.status in (None, before.status) else actor,
        merged_into=None if wanted.status in ("approved", "candidate") else before.merged_into,
    )


async def merge(
    conn: Connection, expression_id: ExpressionId, into: ExpressionId, *, version: int | None, actor: str
) -> Expression | None:
    """Make an expression one with another: its evidence moves, its row stays as a rejected one. Gives the other row.

    None: there is no such row. Must run inside a transaction. Raises Outdated, Unmergeable.
    """
    for held in sorted((expression_id, into)):
        await expressions.hold(conn, held)
    before, target = await expressions.get(conn, expression_id), await expressions.get(conn, into)
    if before is None or target is None:
        return None
    if version is not None and version != before.version:
        raise Outdated(before)
    _mergeable(before, target)
    followers = await _followers(conn, expression_id)
    moved = await _move(conn, expression_id, into)
    await _put(conn, before, replace(before, status="rejected", decided_by=actor, merged_into=into))
    row = await _read(conn, expression_id)
    changed: dict[str, Json] = {"evidence": moved, "followers": followers}
    act = Act(actor, "expression.merge", row.conversation_id, {**shown(before), **changed}, {**shown(row), **changed})
    await write(conn, replace(act, target=Target("expression", expression_id)))
    return await _read(conn, into)


def _mergeable(row: Expression, target: Expression) -> None:
    if row.id == target.id:
        raise Unmergeable("不能合并到自己")
    if row.conversation_id != target.conversation_id:
        raise Unmergeable("两个表达不在同一个会话里")
    if target.status == "rejected":
        raise Unmergeable("要并入的那一条是拒绝过的，请先恢复它")
    if row.merged_into is not None:
        raise Unmergeable("这一条已经并入别的了")


async def _move(conn: Connection, expression_id: ExpressionId, into: ExpressionId) -> list[int]:
    """Move the evidence of a row to another, and what was merged into it; gives the messages that the other did not have."""
    async with conn.cursor(row_factory=scalar_row) as cur:
        await cur.execute(
            """
            WITH gone AS (
                DELETE FROM expression_evidence WHERE expression_id = %(id)s RETURNING message
            ), earlier AS (
                UPDATE expressions SET merged_into = %(into)s WHERE merged_into = %(id)s
            )
            INSERT INTO expression_evidence (expression_id, message)
            SELECT %(into)s, message FROM gone
            ON CONFLICT DO NOTHING
            RETURNING message
            """,
            {"id": expression_id, "into": into},
        )
        return sorted(await cur.fetchall())


async def _move_back(conn: Connection, expression_id: ExpressionId, into: ExpressionId, moved: _Fields) -> None:
    """Give a row back what a merge moved; messages that are gone stay gone."""
    await conn.execute(
        """
        WITH back AS (
            DELETE FROM expression_evidence WHERE expression_id = %(into)s AND message = ANY(%(messages)s::bigint[])
            RETURNING message
        ), earlier AS (
            UPDATE expressions SET merged_into = %(id)s WHERE merged_into = %(into)s AND id = ANY(%(followers)s::bigint[])
        )
        INSERT INTO expression_evidence (expression_id, message)
        SELECT %(id)s, message FROM back
        ON CONFLICT DO NOTHING
        """,
        {"id": expression_id, "into": into, "messages": moved.evidence, "followers": moved.followers},
    )


async def _followers(conn: Connection, expression_id: ExpressionId) -> list[Json]:
    """List the rows that were merged into one."""
    async with conn.cursor(row_factory=scalar_row) as cur:
        await cur.execute("SELECT id FROM expressions WHERE merged_into = %(id)s ORDER BY id", {"id": expression_id})
        return await cur.fetchall()


async def _delete(conn: Connection, expression_id: ExpressionId) -> bool:
    """Delete a row; False: others were merged into it."""
    cur = await conn.execute(
        "DELETE FROM expressions WHERE id = %(id)s AND NOT EXISTS (SELECT FROM expressions WHERE merged_into = %(id)s)",
        {"id": expression_id},
    )
    return cur.rowcount > 0


async def restore(conn: Connection, expression_id: int, fields: JsonObject | None, version: int) -> bool:
    """Put a row back as it was; None: it was not there, so it goes.

    False: it changed since, its words are taken or forgotten, or another row was merged into what would go.

    Must run inside a transaction.
    """
    current = await expressions.hold(conn, ExpressionId(expression_id))
    if current is None or current.version != version:
        return False
    if fields is None:
        return await _delete(conn, current.id)
    if not {"situation", "phrase", "note"} <= fields.keys():
        return False
    old = _Fields.model_validate(fields)
    into = None if old.merged_into is None else ExpressionId(old.merged_into)
    if into is not None and await expressions.hold(conn, into) is None:
        return False
    wanted = replace(
        current,
        situation=old.situation,
        phrase=old.phrase,
        note=old.note,
        status=old.status,
        locked=old.locked,
        decided_by=old.decided_by,
        merged_into=into,
    )
    try:
        await _put(conn, current, wanted)
    except Taken:
        return False
    if current.merged_into != into:
        if current.merged_into is not None:
            await _move_back(conn, current.id, current.merged_into, old)
        if into is not None:
            await _move(conn, current.id, into)
    return True


async def _put(conn: Connection, before: Expression, after: Expression) -> None:
    """Write the moderated fields; another situation waits for a vector of its own. Raises Taken."""
    pair = read_pair(after.situation, after.phrase)
    values = {
        "id": after.id,
        "situation": pair.situation,
        "phrase": pair.phrase,
        "key": pair.key,
        "phrase_key": pair.phrase_key,
        "search": pair.search,
        "phrase_search": pair.phrase_search,
        "note": after.note,
        "status": after.status,
        "locked": after.locked,
        "decided_by": after.decided_by,
        "merged_into": after.merged_into,
    }
    try:
        async with conn.transaction():
            await conn.execute(
                """
                UPDATE expressions
                SET situation = %(situation)s, phrase = %(phrase)s, pair_key = %(key)s, phrase_key = %(phrase_key)s,
                    search = %(search)s, phrase_search = %(phrase_search)s,
                    space_id = CASE WHEN situation = %(situation)s THEN space_id END,
                    embedding = CASE WHEN situation = %(situation)s THEN embedding END,
                    note = %(note)s, status = %(status)s, locked = %(locked)s, decided_by = %(decided_by)s,
                    merged_into = %(merged_into)s, version = version + 1, updated_at = now()
                WHERE id = %(id)s
                """,
                values,
            )
    except UniqueViolation as error:
        raise Taken(await _owner(conn, before.conversation_id, pair.key)) from error


async def _owner(conn: Connection, conversation_id: ConversationId, key: str) -> Expression:
    row = await expressions.with_key(conn, conversation_id, key)
    if row is None:
        raise LookupError("同样的表达刚刚被删除，请再试一次")
    return row


async def _read(conn: Connection, expression_id: ExpressionId) -> Expression:
    row = await expressions.get(conn, expression_id)
    if row is None:
        raise LookupError(f"没有编号为 {expression_id} 的表达")
    return row
