"""Whom a trait names: stable numbers for names, so that two members with one name never mix."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from psycopg.rows import class_row

from db.models import ConversationId
from db.pool import Connection


@dataclass(frozen=True, slots=True)
class Named:
    """A member under one of the names that they have or had."""

    user_id: int
    no: int
    name: str
    present: bool
    """Whether it is the name that they go by now."""


async def named(conn: Connection, conversation_id: ConversationId, texts: Sequence[str]) -> list[Named]:
    """Find the members whose name, now or earlier, of two characters or more, stands in one of some texts."""
    async with conn.cursor(row_factory=class_row(Named)) as cur:
        await cur.execute(
            """
            SELECT p.user_id, p.no, n.name, bool_or(n.name = coalesce(nullif(p.card, ''), p.nickname)) AS present
            FROM (SELECT user_id, name FROM member_names WHERE conversation_id = %(conversation)s
                  UNION
                  SELECT user_id, unnest(ARRAY[card, nickname]) FROM members WHERE conversation_id = %(conversation)s
                 ) AS n (user_id, name)
            JOIN members p ON p.conversation_id = %(conversation)s AND p.user_id = n.user_id
            WHERE char_length(n.name) >= 2
              AND EXISTS (SELECT FROM unnest(%(texts)s::text[]) AS t (text) WHERE strpos(lower(t.text), lower(n.name)) > 0)
            GROUP BY p.user_id, p.no, n.name
            ORDER BY p.no, n.name
            """,
            {"conversation": conversation_id, "texts": list(texts)},
        )
        return await cur.fetchall()


async def numbered(conn: Connection, conversation_id: ConversationId, numbers: Sequence[int]) -> list[Named]:
    """Find the members with some short numbers, under the name that they go by."""
    async with conn.cursor(row_factory=class_row(Named)) as cur:
        await cur.execute(
            """
            SELECT p.user_id, p.no, coalesce(nullif(p.card, ''), p.nickname) AS name, true AS present
            FROM members p
            WHERE p.conversation_id = %(conversation)s AND p.no = ANY(%(numbers)s::bigint[])
            ORDER BY p.no
            """,
            {"conversation": conversation_id, "numbers": list(numbers)},
        )
        return await cur.fetchall()


async def own(conn: Connection) -> list[str]:
    """List what the bot's accounts are called."""
    cur = await conn.execute("SELECT nickname FROM accounts WHERE nickname <> '' ORDER BY account_id")
    return [row[0] for row in await cur.fetchall()]
