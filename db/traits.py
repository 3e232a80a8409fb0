"""Traits: what is known of one member in one group, as rows with their evidence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from psycopg.rows import class_row, scalar_row

from db.learned_models import TraitId, TraitKind
from db.models import ConversationId, MessageRow
from db.pool import Connection
from db.searchtext import content_key

CONTENT_CHARS = 200
EVIDENCE = 20
"""Newest messages that are kept as evidence of one trait."""

TraitSource = Literal["model", "person"]
DroppedWhy = Literal["changed", "contradicted", "withdrawn", "person"]

TRAIT_ROWS = """
    SELECT t.id, t.conversation_id, t.user_id, t.kind, t.content, t.content_key, t.sensitive, t.locked, t.source, t.dropped_at,
           t.dropped_why, t.version, t.created_at, t.updated_at,
           (SELECT count(*) FROM trait_evidence e JOIN messages m ON m.id = e.message
            WHERE e.trait_id = t.id AND m.withdrawn_at IS NULL) AS evidence
    FROM traits t
"""
"""What a Trait is read from, up to its WHERE."""


@dataclass(frozen=True, slots=True)
class Trait:
    """A trait's row, and how many standing messages support it. ``dropped_at`` None: it is current."""

    id: TraitId
    conversation_id: ConversationId
    user_id: int
    kind: TraitKind
    content: str
    content_key: str
    sensitive: bool
    locked: bool
    source: TraitSource
    dropped_at: datetime | None
    dropped_why: str | None
    version: int
    created_at: datetime
    updated_at: datetime
    evidence: int


@dataclass(frozen=True, slots=True)
class NewTrait:
    """A trait on its way in, with evidence that stands."""

    user_id: int
    kind: TraitKind
    content: str
    sensitive: bool
    evidence: tuple[MessageRow, ...]


def enough_evidence(kind: TraitKind) -> int:
    """How many messages of the member a trait needs."""
    return 1 if kind == "alias" else 2


async def get(conn: Connection, trait_id: TraitId) -> Trait | None:
    """Read one row, also a dropped one; None: there is none."""
    async with conn.cursor(row_factory=class_row(Trait)) as cur:
        await cur.execute(f"{TRAIT_ROWS} WHERE t.id = %(id)s", {"id": trait_id})
        return await cur.fetchone()


async def hold(conn: Connection, trait_id: TraitId) -> Trait | None:
    """Read one row and keep others from changing it until the commit."""
    await conn.execute("SELECT FROM traits WHERE id = %(id)s FOR NO KEY UPDATE", {"id": trait_id})
    return await get(conn, trait_id)


async def current(conn: Connection, conversation_id: ConversationId, users: Sequence[int], *, each: int) -> list[Trait]:
    """Read the current traits of some members, oldest first; of each member the newest ``each``."""
    async with conn.cursor(row_factory=class_row(Trait)) as cur:
        await cur.execute(
            f"""
            {TRAIT_ROWS}
            JOIN (SELECT n.id, row_number() OVER (PARTITION BY n.user_id ORDER BY n.id DESC) AS place
                  FROM traits n
                  WHERE n.conversation_id = %(conversation)s AND n.user_id = ANY(%(users)s) AND n.dropped_at IS NULL) AS p
              ON p.id = t.id
            WHERE p.place <= %(each)s
            ORDER BY t.user_id, t.id
            """,
            {"conversation": conversation_id, "users": list(users), "each": each},
        )
        return await cur.fetchall()


async def learnable(conn: Connection, conversation_id: ConversationId, users: Sequence[int]) -> frozenset[int]:
    """Tell about whom something may be learned: people who are in the group and did not say 别记我."""
    async with conn.cursor(row_factory=scalar_row) as cur:
        await cur.execute(
            """
            SELECT p.user_id
            FROM members p
            WHERE p.conversation_id = %(conversation)s AND p.user_id = ANY(%(users)s) AND p.left_at IS NULL AND NOT p.is_robot
              AND NOT EXISTS (SELECT FROM accounts a WHERE a.account_id = p.user_id)
              AND NOT EXISTS (SELECT FROM unlearned u
                              WHERE u.conversation_id = p.conversation_id AND u.user_id = p.user_id)
            """,
            {"conversation": conversation_id, "users": list(users)},
        )
        return frozenset(await cur.fetchall())


async def hold_members(conn: Connection, conversation_id: ConversationId, users: Sequence[int]) -> None:
    """Keep others from changing the traits of some members, and sensitive ones, until the commit; in the order of everybody."""
    await conn.execute(
        """
        SELECT FROM traits
        WHERE conversation_id = %(conversation)s AND (user_id = ANY(%(users)s) OR (sensitive AND dropped_at IS NULL))
        ORDER BY id
        FOR NO KEY UPDATE
        """,
        {"conversation": conversation_id, "users": list(users)},
    )


async def refused(conn: Connection, conversation_id: ConversationId, user_id: int, content: str) -> bool:
    """Tell whether a person took these words from the member's profile, of whatever kind: only a person brings them back.

    Who saves on that must hold the member first.
    """
    async with conn.cursor(row_factory=scalar_row) as cur:
        await cur.execute(
            """
            SELECT bool_or(dropped_why = 'person') AND bool_and(dropped_at IS NOT NULL)
            FROM traits
            WHERE conversation_id = %(conversation)s AND user_id = %(user)s AND content_key = %(key)s
            """,
            {"conversation": conversation_id, "user": user_id, "key": content_key(content)},
        )
        return bool(await cur.fetchone())


async def save(conn: Connection, conversation_id: ConversationId, new: NewTrait) -> tuple[TraitId, bool]:
    """Write a trait with its evidence, or add the evidence to the current one of these words; True: it is new.

    Must run inside a transaction.
    """
    async with conn.cursor(row_factory=scalar_row) as cur:
        await cur.execute(
            """
            WITH known AS (
                SELECT id FROM traits
                WHERE conversation_id = %(conversation)s AND user_id = %(user)s AND content_key = %(key)s AND dropped_at IS NULL
                ORDER BY kind = %(kind)s DESC, id
                LIMIT 1
                FOR NO KEY UPDATE
            ), made AS (
                INSERT INTO traits (conversation_id, user_id, kind, content, content_key, sensitive, source)
                SELECT %(conversation)s, %(user)s, %(kind)s, %(content)s, %(key)s, %(sensitive)s, 'model'
                WHERE NOT EXISTS (SELECT FROM known)
                ON CONFLICT (conversation_id, user_id, kind, content_key) WHERE dropped_at IS NULL
                DO UPDATE SET updated_at = now()
                RETURNING id, xmax = 0 AS new
            ), grown AS (
                UPDATE traits t SET updated_at = now() FROM known k WHERE t.id = k.id
            )
            SELECT ARRAY[id, new::int] FROM made UNION ALL SELECT ARRAY[id, 0] FROM known
            """,
            {
                "conversation": conversation_id,
                "user": new.user_id,
                "kind": new.kind,
                "content": new.content,
                "key": content_key(new.content),
                "sensitive": new.sensitive,
            },
        )
        [[made, is_new]] = await cur.fetchall()
    await _support(conn, TraitId(made), new.evidence)
    return TraitId(made), bool(is_new)


async def _support(conn: Connection, trait_id: TraitId, messages: Sequence[MessageRow]) -> None:
    """Add messages to a trait's evidence, and keep the newest EVIDENCE of them."""
    await conn.execute(
        """
        INSERT INTO trait_evidence (trait_id, message)
        SELECT %(id)s, message FROM unnest(%(messages)s::bigint[]) AS message
        ON CONFLICT DO NOTHING
        """,
        {"id": trait_id, "messages": list(messages)},
    )
    await conn.execute(
        """
        DELETE FROM trait_evidence
        WHERE trait_id = %(id)s
          AND message NOT IN (SELECT message FROM trait_evidence WHERE trait_id = %(id)s ORDER BY message DESC LIMIT %(most)s)
        """,
        {"id": trait_id, "most": EVIDENCE},
    )


async def drop(conn: Connection, conversation_id: ConversationId, user_id: int, ids: Sequence[TraitId], why: DroppedWhy) -> int:
    """Drop current traits of one member that nobody locked; gives how many went."""
    cur = await conn.execute(
        """
        UPDATE traits
        SET dropped_at = now(), dropped_why = %(why)s, version = version + 1, updated_at = now()
        WHERE id = ANY(%(ids)s) AND conversation_id = %(conversation)s AND user_id = %(user)s
          AND dropped_at IS NULL AND NOT locked
        """,
        {"ids": list(ids), "conversation": conversation_id, "user": user_id, "why": why},
    )
    return cur.rowcount


async def drop_sensitive(conn: Connection, conversation_id: ConversationId) -> int:
    """Drop what may not be known any more since the owner switched it off; what a person locked stays."""
    cur = await conn.execute(
        """
        UPDATE traits
        SET dropped_at = now(), dropped_why = 'changed', version = version + 1, updated_at = now()
        WHERE conversation_id = %(conversation)s AND sensitive AND dropped_at IS NULL AND NOT locked
        """,
        {"conversation": conversation_id},
    )
    return cur.rowcount
