"""Reading profiles for people: members with their current traits, and the messages that support one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from psycopg.rows import class_row, scalar_row

from db.learned_models import TraitId
from db.models import ConversationId
from db.pool import Connection
from db.slang_lists import UseLine, uses
from db.traits import TRAIT_ROWS, Trait

EACH = 200
"""Traits of one member that a list shows."""


@dataclass(frozen=True, slots=True)
class ProfileFilter:
    """Whose profiles are wanted. None: any."""

    conversation_id: ConversationId | None
    user_id: int | None
    limit: int = 50
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Owner:
    """A member who has traits. ``no`` is None where no member of that number is known any more."""

    conversation_id: ConversationId
    user_id: int
    no: int | None
    name: str
    left_at: datetime | None
    updated_at: datetime


async def owners(conn: Connection, wanted: ProfileFilter) -> list[Owner]:
    """List the members who have current traits, those whose changed last first."""
    async with conn.cursor(row_factory=class_row(Owner)) as cur:
        await cur.execute(
            """
            SELECT t.conversation_id, t.user_id, p.no, coalesce(nullif(p.card, ''), p.nickname, '') AS name, p.left_at,
                   t.updated_at
            FROM (SELECT conversation_id, user_id, max(updated_at) AS updated_at
                  FROM traits
                  WHERE dropped_at IS NULL
                    AND (%(conversation)s::bigint IS NULL OR conversation_id = %(conversation)s)
                    AND (%(user)s::bigint IS NULL OR user_id = %(user)s)
                  GROUP BY conversation_id, user_id) AS t
            LEFT JOIN members p ON p.conversation_id = t.conversation_id AND p.user_id = t.user_id
            ORDER BY t.updated_at DESC, t.conversation_id, t.user_id
            LIMIT %(limit)s OFFSET %(offset)s
            """,
            {
                "conversation": wanted.conversation_id,
                "user": wanted.user_id,
                "limit": wanted.limit,
                "offset": wanted.offset,
            },
        )
        return await cur.fetchall()


async def of_owners(conn: Connection, found: Sequence[Owner]) -> list[Trait]:
    """Read the current traits of some members, newest first, at most EACH of each."""
    async with conn.cursor(row_factory=class_row(Trait)) as cur:
        await cur.execute(
            f"""
            {TRAIT_ROWS}
            JOIN (SELECT n.id, row_number() OVER (PARTITION BY n.conversation_id, n.user_id ORDER BY n.id DESC) AS place
                  FROM unnest(%(conversations)s::bigint[], %(users)s::bigint[]) AS w (conversation_id, user_id)
                  JOIN traits n ON n.conversation_id = w.conversation_id AND n.user_id = w.user_id AND n.dropped_at IS NULL) AS p
              ON p.id = t.id
            WHERE p.place <= %(each)s
            ORDER BY t.id DESC
            """,
            {
                "conversations": [owner.conversation_id for owner in found],
                "users": [owner.user_id for owner in found],
                "each": EACH,
            },
        )
        return await cur.fetchall()


async def evidence_of(conn: Connection, trait_id: TraitId) -> list[UseLine]:
    """Read the messages that support a trait, each with what stands around it; withdrawn ones are left out."""
    async with conn.cursor(row_factory=scalar_row) as cur:
        await cur.execute(
            """
            SELECT m.id
            FROM trait_evidence e
            JOIN messages m ON m.id = e.message
            WHERE e.trait_id = %(id)s AND m.withdrawn_at IS NULL
            ORDER BY m.pos
            """,
            {"id": trait_id},
        )
        messages: list[int] = await cur.fetchall()
    return await uses(conn, messages)
