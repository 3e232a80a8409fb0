"""Queries of own accounts in groups: which are there, and which are muted. Several may be in one group.

``conversations`` carries what follows for the bot as a whole: it has left where no connected account remains, and is
muted until its last account is free.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from psycopg.rows import class_row, scalar_row

from db.models import ConversationId
from db.pool import Connection


@dataclass(frozen=True, slots=True)
class Standing:
    """An own account in a group. ``muted_until`` may be in the past."""

    account_id: int
    muted_until: datetime | None
    left_at: datetime | None


async def arrive(conn: Connection, places: Sequence[tuple[ConversationId, int]], *, known_at: datetime | None = None) -> None:
    """Record that own accounts are in groups, by (conversation, account). A mute from before they left is over.

    ``known_at``: when this was so; whoever left after that is not back. None: now.
    """
    if not places:
        return
    await conn.execute(
        """
        WITH arrived AS (
            INSERT INTO own_memberships AS o (conversation_id, account_id)
            SELECT conversation_id, account_id
            FROM unnest(%(conversations)s::bigint[], %(accounts)s::bigint[]) AS p(conversation_id, account_id)
            ON CONFLICT (conversation_id, account_id) DO UPDATE
            SET left_at = NULL, muted_until = CASE WHEN o.left_at IS NULL THEN o.muted_until END
            WHERE o.left_at IS NULL OR %(known)s::timestamptz IS NULL OR o.left_at < %(known)s
            RETURNING conversation_id
        )
        UPDATE conversations c
        SET left_at = NULL, muted_until = NULL, whole_mute = false, updated_at = now()
        WHERE c.id IN (SELECT conversation_id FROM arrived) AND c.left_at IS NOT NULL
        """,
        {
            "conversations": [place[0] for place in places],
            "accounts": [place[1] for place in places],
            "known": known_at,
        },
    )


async def leave(conn: Connection, conversation_id: ConversationId, account_id: int, *, at: datetime) -> bool:
    """Record that an own account is no longer in a group; True when another connected one still is."""
    await conn.execute(
        """
        INSERT INTO own_memberships (conversation_id, account_id, left_at)
        VALUES (%(conversation)s, %(account)s, now())  -- when we learnt it, by the clock that lists are asked by
        ON CONFLICT (conversation_id, account_id) DO UPDATE
        SET left_at = coalesce(own_memberships.left_at, excluded.left_at), muted_until = NULL
        """,
        {"conversation": conversation_id, "account": account_id},
    )
    await _sum_up(conn, conversation_id)
    async with conn.cursor(row_factory=scalar_row) as cur:
        await cur.execute(
            """
            UPDATE conversations c
            SET left_at = coalesce(c.left_at, %(at)s), whole_mute = false, updated_at = now()
            WHERE c.id = %(conversation)s
              AND NOT EXISTS (SELECT FROM own_memberships o
                              JOIN accounts a ON a.account_id = o.account_id AND a.connected
                              WHERE o.conversation_id = c.id AND o.left_at IS NULL)
            RETURNING true
            """,
            {"conversation": conversation_id, "at": at},
        )
        return not await cur.fetchone()


async def mute(conn: Connection, conversation_id: ConversationId, account_id: int, *, until: datetime | None) -> None:
    """Record until when an own account is muted in a group; None ends the mute."""
    await conn.execute(
        """
        INSERT INTO own_memberships (conversation_id, account_id, muted_until)
        VALUES (%(conversation)s, %(account)s, %(until)s)
        ON CONFLICT (conversation_id, account_id) DO UPDATE SET muted_until = excluded.muted_until, told_at = now()
        """,
        {"conversation": conversation_id, "account": account_id, "until": until},
    )
    await _sum_up(conn, conversation_id)


async def free(conn: Connection, conversation_id: ConversationId, account_id: int, *, settled: float) -> None:
    """Record that a member list shows an own account free: its end was missed, unless the mute is younger than so many seconds.

    Lists come from a cache and may be older than the notice of a mute.
    """
    await conn.execute(
        """
        UPDATE own_memberships
        SET muted_until = NULL, told_at = now()
        WHERE conversation_id = %(conversation)s AND account_id = %(account)s AND muted_until IS NOT NULL
          AND told_at < now() - %(settled)s * interval '1 second'
        """,
        {"conversation": conversation_id, "account": account_id, "settled": settled},
    )
    await _sum_up(conn, conversation_id)


async def presume_muted(conn: Connection, conversation_id: ConversationId, account_id: int) -> None:
    """Record that QQ says an account is muted, without an end: try again in ten minutes unless it is lifted before."""
    await conn.execute(
        """
        INSERT INTO own_memberships AS o (conversation_id, account_id, muted_until)
        SELECT c.id, %(account)s, now() + interval '10 minutes'
        FROM conversations c
        WHERE c.id = %(conversation)s AND NOT c.whole_mute
        ON CONFLICT (conversation_id, account_id) DO UPDATE SET muted_until = excluded.muted_until
        WHERE o.muted_until IS NULL OR o.muted_until < now()
        """,
        {"conversation": conversation_id, "account": account_id},
    )
    await _sum_up(conn, conversation_id)


async def standings(conn: Connection, conversation_id: ConversationId, accounts: Sequence[int]) -> dict[int, Standing]:
    """Read how these accounts stand in a group; those of which nothing is known are left out."""
    async with conn.cursor(row_factory=class_row(Standing)) as cur:
        await cur.execute(
            """
            SELECT account_id, muted_until, left_at
            FROM own_memberships
            WHERE conversation_id = %(conversation)s AND account_id = ANY(%(accounts)s)
            """,
            {"conversation": conversation_id, "accounts": list(accounts)},
        )
        return {row.account_id: row for row in await cur.fetchall()}


async def _sum_up(conn: Connection, conversation_id: ConversationId) -> None:
    await conn.execute(
        """
        UPDATE conversations c
        SET muted_until = (SELECT max(o.muted_until) FROM own_memberships o
                           WHERE o.conversation_id = c.id AND o.left_at IS NULL),
            updated_at = now()
        WHERE c.id = %(conversation)s
        """,
        {"conversation": conversation_id},
    )
