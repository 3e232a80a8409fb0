"""Traits of the members that a snapshot is about, for the prompt of a turn."""

from __future__ import annotations

from collections.abc import Sequence

from psycopg.rows import class_row

from db.learned_models import KnownTrait
from db.models import ConversationId
from db.pool import Connection

EACH = 4
"""Traits of one member."""


async def of_members(
    conn: Connection, conversation_id: ConversationId, users: Sequence[int], *, sensitive: bool, each: int = EACH
) -> list[KnownTrait]:
    """Read the traits of some members, in the order in which they are named; of members who left, none.

    Only those whose evidence stands, or that a person vouches for: these first, then aliases, then what is best supported.
    ``sensitive``: whether the owner lets sensitive traits be known; without that only those that a person vouches for.
    """
    async with conn.cursor(row_factory=class_row(KnownTrait)) as cur:
        await cur.execute(
            """
            WITH standing AS (
                SELECT t.id, t.user_id, t.kind, t.content, p.no, coalesce(nullif(p.card, ''), p.nickname) AS name, w.rank,
                       row_number() OVER (PARTITION BY t.user_id
                                          ORDER BY t.locked DESC, t.kind = 'alias' DESC, e.messages DESC, t.updated_at DESC, t.id)
                           AS place
                FROM unnest(%(users)s::bigint[]) WITH ORDINALITY AS w (user_id, rank)
                JOIN members p ON p.conversation_id = %(conversation)s AND p.user_id = w.user_id AND p.left_at IS NULL
                JOIN traits t ON t.conversation_id = p.conversation_id AND t.user_id = p.user_id AND t.dropped_at IS NULL
                CROSS JOIN LATERAL (
                    SELECT count(*) AS messages FROM trait_evidence e JOIN messages m ON m.id = e.message
                    WHERE e.trait_id = t.id AND m.withdrawn_at IS NULL
                ) AS e
                WHERE t.locked
                   OR (e.messages >= CASE t.kind WHEN 'alias' THEN 1 ELSE 2 END AND (%(sensitive)s OR NOT t.sensitive))
            )
            SELECT s.id, s.user_id, s.kind, s.content, s.no, s.name
            FROM standing s
            WHERE s.place <= %(each)s
            ORDER BY s.rank, s.place
            """,
            {"conversation": conversation_id, "users": list(users), "each": each, "sensitive": sensitive},
        )
        return await cur.fetchall()
