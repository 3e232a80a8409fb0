"""What people do with slang: approve, reject, write, edit, merge, take back. Each act's audit row is in its transaction."""

from __future__ import annotations

from dataclasses import dataclass, replace

from psycopg.errors import UniqueViolation
from psycopg.rows import scalar_row
from pydantic import BaseModel

from db import slang, slang_counts, slang_merge
from db.audit import Act, write
from db.learned_models import ReviewStatus, SlangId, Target
from db.models import ConversationId, Json, JsonObject
from db.pool import Connection
from db.slang import Slang
from db.slang_merge import Moved
from db.slang_terms import term_key

_ACTIONS: dict[ReviewStatus, str] = {"approved": "slang.approve", "rejected": "slang.reject", "candidate": "slang.restore"}
_STATES: dict[ReviewStatus, str] = {"approved": "已通过", "rejected": "已拒绝", "candidate": "候选"}


class Outdated(Exception):
    """Somebody changed the row since it was read."""

    def __init__(self, current: Slang) -> None:
        super().__init__("这个黑话刚刚被改过，请看过现在的内容再改")
        self.current = current


class Taken(Exception):
    """Another row has this spelling already."""

    def __init__(self, current: Slang) -> None:
        super().__init__(f"已经有“{current.term}”了（{_STATES[current.status]}，编号 {current.id}），请直接改那一条")
        self.current = current


class Unmergeable(Exception):
    """The rows cannot become one; the text says why, in Chinese."""


@dataclass(frozen=True, slots=True)
class NewSlang:
    """A term on a person's word."""

    conversation_id: ConversationId
    term: str
    meaning: str
    meaning_plain: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class Edit:
    """What to change; None leaves a part as it is. ``version``: the version that the person saw."""

    version: int
    status: ReviewStatus | None = None
    term: str | None = None
    meaning: str | None = None
    meaning_plain: str | None = None
    note: str | None = None


class _Fields(BaseModel):
    """What an act changes in a row, as the audit log keeps it."""

    term: str
    meaning: str
    meaning_without_context: str
    note: str
    status: ReviewStatus
    locked: bool
    decided_by: str | None
    merged_into: int | None = None
    evidence: list[int] = []
    spellings: list[str] = []
    merged: list[int] = []

    @classmethod
    def required(cls) -> frozenset[str]:
        """What is there unless its words were forgotten."""
        return frozenset(name for name, field in cls.model_fields.items() if field.is_required())


def shown(row: Slang) -> dict[str, Json]:
    """The moderated fields of a row, as the audit log keeps them."""
    return {
        "term": row.term,
        "meaning": row.meaning,
        "meaning_without_context": row.meaning_plain,
        "note": row.note,
        "status": row.status,
        "locked": row.locked,
        "decided_by": row.decided_by,
        "merged_into": row.merged_into,
        "version": row.version,
    }


async def create(conn: Connection, new: NewSlang, *, actor: str) -> Slang:
    """Write a term on a person's word: approved, locked, without evidence. Raises Taken. Must run inside a transaction."""
    key = term_key(new.term)
    await _free(conn, new.conversation_id, key)
    try:
        async with conn.transaction(), conn.cursor(row_factory=scalar_row) as cur:
            await cur.execute(
                """
                INSERT INTO slang (conversation_id, term, term_key, meaning, meaning_plain, note, status, locked, decided_by,
                                   source)
                VALUES (%(conversation)s, %(term)s, %(key)s, %(meaning)s, %(plain)s, %(note)s, 'approved', true, %(actor)s,
                        'person')
                RETURNING id
                """,
                {
                    "conversation": new.conversation_id,
                    "term": new.term,
                    "key": key,
                    "meaning": new.meaning,
                    "plain": new.meaning_plain,
                    "note": new.note,
                    "actor": actor,
                },
            )
            [made] = await cur.fetchall()
    except UniqueViolation:
        await _free(conn, new.conversation_id, key)
        raise
    await slang_counts.recount(conn, [made])
    row = await _read(conn, SlangId(made))
    await _remember_meaning(conn, row)
    await write(conn, Act(actor, "slang.create", row.conversation_id, None, shown(row), Target("slang", row.id)))
    return row


async def edit(conn: Connection, slang_id: SlangId, wanted: Edit, *, actor: str) -> Slang | None:
    """Change a row; other words lock it. None: there is none. What changes nothing leaves no trace.

    Must run inside a transaction. Raises Outdated, Taken.
    """
    before = await slang.hold(conn, slang_id)
    if before is None:
        return None
    if wanted.version != before.version:
        raise Outdated(before)
    after = _edited(before, wanted, actor)
    if after == before:
        return before
    await _put(conn, before, after)
    if after.term_key != before.term_key:
        await _keep_spelling(conn, before)
    if before.merged_into is not None and after.merged_into is None:
        await slang_merge.unspell(conn, before.merged_into, [before.term_key])
    if after.term_key != before.term_key or before.merged_into != after.merged_into:
        await slang_counts.recount(conn, [slang_id])
    row = await _read(conn, slang_id)
    if (row.meaning, row.meaning_plain) != (before.meaning, before.meaning_plain):
        await _remember_meaning(conn, row)
    action = _ACTIONS[row.status] if row.status != before.status else "slang.change"
    await write(conn, Act(actor, action, row.conversation_id, shown(before), shown(row), Target("slang", slang_id)))
    return row


def _edited(before: Slang, wanted: Edit, actor: str) -> Slang:
    """The row as it is wanted."""
    term = before.term if wanted.term is None else wanted.term
    meaning = before.meaning if wanted.meaning is None else wanted.meaning
    plain = before.meaning_plain if wanted.meaning_plain is None else wanted.meaning_plain
    reworded = (term, meaning, plain) != (before.term, before.meaning, before.meaning_plain)
    return replace(
        before,
        term=term,
        term_key=before.term_key if term == before.term else term_key(term),
        meaning=meaning,
        meaning_plain=plain,
        note=before.note if wanted.note is None else wanted.note,
        status=wanted.status or before.status,
        locked=before.locked or reworded,
        decided_by=before.decided_by if wanted.status is None else actor,
        merged_into=None if wanted.status in ("approved", "candidate") else before.merged_into,
    )


async def merge(conn: Connection, slang_id: SlangId, into: SlangId, *, version: int | None, actor: str) -> Slang | None:
    """Make a term a spelling of another: its evidence and spellings move, its row stays as a tombstone. Gives the other row.

    None: there is no such row. Must run inside a transaction. Raises Outdated, Unmergeable.
    """
    for held in sorted((slang_id, into)):
        await conn.execute("SELECT FROM slang WHERE id = %(id)s FOR NO KEY UPDATE", {"id": held})
    before, target = await slang.get(conn, slang_id), await slang.get(conn, into)
    if before is None or target is None:
        return None
    if version is not None and version != before.version:
        raise Outdated(before)
    _mergeable(before, target)
    moved = await slang_merge.move(conn, before, target)
    await _put(conn, before, replace(before, status="rejected", decided_by=actor, merged_into=into))
    await slang_counts.recount(conn, [slang_id, into])
    row = await _read(conn, slang_id)
    changed = {"evidence": moved.evidence, "spellings": moved.spellings, "merged": moved.merged}
    act = Act(actor, "slang.merge", row.conversation_id, {**shown(before), **changed}, {**shown(row), **changed})
    await write(conn, replace(act, target=Target("slang", slang_id)))
    return await _read(conn, into)


def _mergeable(row: Slang, target: Slang) -> None:
    if row.id == target.id:
        raise Unmergeable("不能合并到自己")
    if row.conversation_id != target.conversation_id:
        raise Unmergeable("两个黑话不在同一个会话里")
    if target.status == "rejected":
        raise Unmergeable("要并入的那一条是拒绝过的，请先恢复它")
    if row.merged_into is not None:
        raise Unmergeable("这一条已经并入别的了")


async def restore(conn: Connection, slang_id: int, fields: JsonObject | None, version: int) -> bool:
    """Put a row back as it was; None: it was not there, so it goes.

    False: it changed since, its spelling is taken, another was merged into it, or the words that it had are forgotten. Where
    a model's words come back that nobody remembers the sources of, the meaning is left empty. Must run inside a transaction.
    """
    current = await slang.hold(conn, SlangId(slang_id))
    if current is None or current.version != version:
        return False
    if fields is None:
        if await slang_merge.is_target(conn, current.id):
            return False
        await conn.execute("DELETE FROM slang WHERE id = %(id)s", {"id": slang_id})
        return True
    if not fields.keys() >= _Fields.required():
        return False
    old = _Fields.model_validate(fields)
    into = None if old.merged_into is None else SlangId(old.merged_into)
    wanted = replace(
        current,
        term=old.term,
        term_key=term_key(old.term),
        meaning=old.meaning,
        meaning_plain=old.meaning_without_context,
        note=old.note,
        status=old.status,
        locked=old.locked,
        decided_by=old.decided_by,
        merged_into=into,
    )
    reworded = (wanted.meaning, wanted.meaning_plain) != (current.meaning, current.meaning_plain)
    if reworded and not wanted.locked and not await _inferred(conn, wanted):
        wanted = replace(wanted, meaning="", meaning_plain="")
    try:
        async with conn.transaction():
            await _put(conn, current, wanted)
            await _undo_merge(conn, current, wanted, Moved(old.evidence, old.spellings, old.merged))
    except (Taken, Unmergeable):
        return False
    if wanted.term_key != current.term_key:
        await _keep_spelling(conn, current)
    await slang_counts.recount(conn, [current.id, *(row for row in (current.merged_into, into) if row is not None)])
    if reworded and wanted.locked:
        await _remember_meaning(conn, wanted)
    elif reworded:
        await _remember_inferred(conn, wanted)
    return True


async def _undo_merge(conn: Connection, current: Slang, wanted: Slang, moved: Moved) -> None:
    """Bring spellings and evidence where they belong when a merge is taken back, or taken back to."""
    if wanted.merged_into == current.merged_into:
        return
    if current.merged_into is not None:
        await slang_merge.unspell(conn, current.merged_into, [current.term_key])
        await slang_merge.move_back(conn, current, moved)
    if wanted.merged_into is not None:
        target = await slang.get(conn, wanted.merged_into)
        if target is None:
            raise Unmergeable("要并入的那一条不在了")
        await slang_merge.move(conn, current, target)


async def _put(conn: Connection, before: Slang, after: Slang) -> None:
    """Write the moderated fields. Raises Taken where another row has the spelling."""
    if after.term_key != before.term_key:
        await _free(conn, before.conversation_id, after.term_key, besides=before.id)
    try:
        async with conn.transaction():
            await conn.execute(
                """
                UPDATE slang
                SET term = %(term)s, term_key = %(key)s, meaning = %(meaning)s, meaning_plain = %(plain)s, note = %(note)s,
                    status = %(status)s, locked = %(locked)s, decided_by = %(decided_by)s, merged_into = %(merged_into)s,
                    version = version + 1, updated_at = now()
                WHERE id = %(id)s
                """,
                {
                    "id": after.id,
                    "term": after.term,
                    "key": after.term_key,
                    "meaning": after.meaning,
                    "plain": after.meaning_plain,
                    "note": after.note,
                    "status": after.status,
                    "locked": after.locked,
                    "decided_by": after.decided_by,
                    "merged_into": after.merged_into,
                },
            )
    except UniqueViolation:
        await _free(conn, before.conversation_id, after.term_key, besides=before.id)
        raise


async def _free(conn: Connection, conversation_id: ConversationId, key: str, besides: SlangId | None = None) -> None:
    """Raise Taken where a spelling belongs to another row."""
    owner = (await slang.spelled(conn, conversation_id, [key])).get(key)
    if owner is not None and owner != besides:
        raise Taken(await _read(conn, owner))


async def _keep_spelling(conn: Connection, before: Slang) -> None:
    """What a term was called before stays one of its spellings, so that nobody finds it anew."""
    await conn.execute(
        """
        WITH own AS (
            DELETE FROM slang_variants v USING slang s
            WHERE s.id = %(id)s AND v.slang_id = s.id AND v.variant_key = s.term_key
        )
        INSERT INTO slang_variants (conversation_id, variant_key, variant, slang_id)
        VALUES (%(conversation)s, %(key)s, %(term)s, %(id)s)
        ON CONFLICT DO NOTHING
        """,
        {"id": before.id, "conversation": before.conversation_id, "key": before.term_key, "term": before.term},
    )


async def _remember_meaning(conn: Connection, row: Slang) -> None:
    """Keep what a person wrote in the history of meanings."""
    await conn.execute(
        """
        INSERT INTO slang_meanings (slang_id, occurrences, meaning, meaning_plain, source)
        VALUES (%(id)s, %(occurrences)s, %(meaning)s, %(plain)s, 'person')
        """,
        {"id": row.id, "occurrences": row.occurrences, "meaning": row.meaning, "plain": row.meaning_plain},
    )


async def _inferred(conn: Connection, row: Slang) -> bool:
    """Tell whether the history knows where a row's meaning came from."""
    cur = await conn.execute(
        "SELECT FROM slang_meanings WHERE slang_id = %(id)s AND meaning = %(meaning)s LIMIT 1",
        {"id": row.id, "meaning": row.meaning},
    )
    return await cur.fetchone() is not None


async def _remember_inferred(conn: Connection, row: Slang) -> None:
    """Keep in the history that a meaning is back, with the sources that it had."""
    await conn.execute(
        """
        INSERT INTO slang_meanings (slang_id, occurrences, meaning, meaning_plain, confidence, source, sources)
        SELECT n.slang_id, %(occurrences)s, n.meaning, %(plain)s, n.confidence, n.source, n.sources
        FROM slang_meanings n
        WHERE n.slang_id = %(id)s AND n.meaning = %(meaning)s
        ORDER BY n.source = 'model' DESC, n.id DESC
        LIMIT 1
        """,
        {"id": row.id, "occurrences": row.occurrences, "meaning": row.meaning, "plain": row.meaning_plain},
    )


async def _read(conn: Connection, slang_id: SlangId) -> Slang:
    row = await slang.get(conn, slang_id)
    if row is None:
        raise LookupError(f"没有编号为 {slang_id} 的黑话")
    return row
