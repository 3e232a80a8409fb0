"""What people do with traits: edit, take away, take back. Each act's audit row is in its transaction."""

from __future__ import annotations

from dataclasses import dataclass, replace

from psycopg.errors import UniqueViolation
from psycopg.rows import class_row
from pydantic import BaseModel

from db import traits
from db.audit import Act, write
from db.learned_models import Target, TraitId, TraitKind
from db.models import Json, JsonObject
from db.pool import Connection
from db.searchtext import content_key
from db.traits import TRAIT_ROWS, DroppedWhy, Trait


class Outdated(Exception):
    """Somebody changed the trait since it was read."""

    def __init__(self, current: Trait) -> None:
        super().__init__("这一点刚刚被改过，请看过现在的内容再改")
        self.current = current


class Taken(Exception):
    """The member has the same trait already."""

    def __init__(self, current: Trait) -> None:
        super().__init__(f"这个成员已经有同样的一点了（编号 {current.id}），请直接改那一条")
        self.current = current


@dataclass(frozen=True, slots=True)
class Edit:
    """What to change; None leaves a part as it is. ``version``: the version that the person saw."""

    version: int
    kind: TraitKind | None = None
    content: str | None = None


class _Fields(BaseModel):
    """What an act changes in a row, as the audit log keeps it."""

    kind: TraitKind
    content: str
    locked: bool
    dropped: DroppedWhy | None


def shown(row: Trait) -> dict[str, Json]:
    """The moderated fields of a row, as the audit log keeps them. ``dropped``: why; None: it is current."""
    return {
        "user_id": row.user_id,
        "kind": row.kind,
        "content": row.content,
        "locked": row.locked,
        "dropped": row.dropped_why,
        "version": row.version,
    }


async def edit(conn: Connection, trait_id: TraitId, wanted: Edit, *, actor: str) -> Trait | None:
    """Change a current trait, and lock it; its old words do not come back by themselves. None: there is none.

    What changes nothing leaves no trace. Must run inside a transaction. Raises Outdated, Taken.
    """
    before = await _current(conn, trait_id, wanted.version)
    if before is None:
        return None
    after = replace(before, kind=wanted.kind or before.kind, content=before.content if wanted.content is None else wanted.content)
    if after == before:
        return before
    await _put(conn, replace(after, locked=True))
    if content_key(after.content) != before.content_key:
        await _bury(conn, before)
    return await _written(conn, before, "trait.change", actor)


async def drop(conn: Connection, trait_id: TraitId, *, version: int | None, actor: str) -> Trait | None:
    """Take a current trait away, locked or not: it does not come back by itself. None: there is none.

    Must run inside a transaction. Raises Outdated.
    """
    before = await _current(conn, trait_id, version)
    if before is None:
        return None
    await _put(conn, replace(before, dropped_why="person"))
    return await _written(conn, before, "trait.drop", actor)


async def restore(conn: Connection, trait_id: int, fields: JsonObject | None, version: int) -> bool:
    """Put a trait back as it was; None: it was not there, so it goes. False: it changed since, or there is an equal one.

    Must run inside a transaction.
    """
    row = await traits.hold(conn, TraitId(trait_id))
    if row is None or row.version != version:
        return False
    if fields is None:
        await conn.execute("DELETE FROM traits WHERE id = %(id)s", {"id": trait_id})
        return True
    old = _Fields.model_validate(fields)
    try:
        await _put(conn, replace(row, kind=old.kind, content=old.content, locked=old.locked, dropped_why=old.dropped))
    except Taken:
        return False
    if old.dropped is None:
        await _unbury(conn, row, content_key(old.content))
        if old.locked and content_key(old.content) != row.content_key:
            await _bury(conn, row)
    return True


async def _bury(conn: Connection, old: Trait) -> None:
    """Keep the words that a person replaced as a tombstone."""
    await conn.execute(
        """
        INSERT INTO traits (conversation_id, user_id, kind, content, content_key, sensitive, source, dropped_at, dropped_why)
        VALUES (%(conversation)s, %(user)s, %(kind)s, %(content)s, %(key)s, %(sensitive)s, 'person', now(), 'person')
        """,
        {
            "conversation": old.conversation_id,
            "user": old.user_id,
            "kind": old.kind,
            "content": old.content,
            "key": old.content_key,
            "sensitive": old.sensitive,
        },
    )


async def _unbury(conn: Connection, row: Trait, key: str) -> None:
    """Take away the tombstones that edits left for words that are current again."""
    await conn.execute(
        """
        DELETE FROM traits
        WHERE conversation_id = %(conversation)s AND user_id = %(user)s AND content_key = %(key)s
          AND source = 'person' AND dropped_why = 'person' AND id <> %(id)s
        """,
        {"conversation": row.conversation_id, "user": row.user_id, "key": key, "id": row.id},
    )


async def _current(conn: Connection, trait_id: TraitId, version: int | None) -> Trait | None:
    """Hold a current trait. Raises Outdated where it is not the version that a person saw, also where it was dropped since."""
    row = await traits.hold(conn, trait_id)
    if row is None:
        return None
    if version is not None and version != row.version:
        raise Outdated(row)
    return row if row.dropped_at is None else None


async def _put(conn: Connection, row: Trait) -> None:
    """Write the moderated fields. Raises Taken."""
    try:
        async with conn.transaction():
            await conn.execute(
                """
                UPDATE traits
                SET kind = %(kind)s, content = %(content)s, content_key = %(key)s, locked = %(locked)s, dropped_why = %(why)s,
                    dropped_at = CASE WHEN %(why)s::text IS NOT NULL THEN coalesce(dropped_at, now()) END,
                    version = version + 1, updated_at = now()
                WHERE id = %(id)s
                """,
                {
                    "id": row.id,
                    "kind": row.kind,
                    "content": row.content,
                    "key": content_key(row.content),
                    "locked": row.locked,
                    "why": row.dropped_why,
                },
            )
    except UniqueViolation as error:
        raise Taken(await _equal(conn, row)) from error


async def _equal(conn: Connection, row: Trait) -> Trait:
    async with conn.cursor(row_factory=class_row(Trait)) as cur:
        await cur.execute(
            f"""
            {TRAIT_ROWS}
            WHERE t.conversation_id = %(conversation)s AND t.user_id = %(user)s AND t.kind = %(kind)s
              AND t.content_key = %(key)s AND t.dropped_at IS NULL
            """,
            {
                "conversation": row.conversation_id,
                "user": row.user_id,
                "kind": row.kind,
                "key": content_key(row.content),
            },
        )
        found = await cur.fetchone()
    if found is None:
        raise LookupError("同样的一点刚刚被删除，请再试一次")
    return found


async def _written(conn: Connection, before: Trait, action: str, actor: str) -> Trait:
    row = await traits.get(conn, before.id)
    if row is None:
        raise LookupError(f"没有编号为 {before.id} 的画像")
    await write(conn, Act(actor, action, row.conversation_id, shown(before), shown(row), Target("trait", row.id)))
    return row
