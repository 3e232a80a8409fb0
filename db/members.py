"""Queries of members: cards, roles, short numbers, the names they had."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from psycopg.rows import class_row, scalar_row

from db.models import ConversationId, Member, Role
from db.pool import Connection


@dataclass(frozen=True, slots=True)
class SeenMember:
    """A member as an event or QQ's member list shows them. ``name`` is fit to show; None keeps what is stored."""

    conversation_id: ConversationId
    user_id: int
    name: str
    nickname: str
    card: str
    role: Role
    title: str
    is_robot: bool
    seen_at: datetime
    spoke: bool = True
    joined_at: datetime | None = None


async def save(conn: Connection, seen: Sequence[SeenMember]) -> None:
    """Store members as seen now, newest wins, and the names they carry. New members get the next short number.

    Runs in the transaction that locked their conversations. An unknown role keeps the known one.
    """
    latest = {(item.conversation_id, item.user_id): item for item in seen if item.user_id > 0}
    if not latest:
        return
    await conn.execute(
        """
        WITH seen AS (
            SELECT * FROM unnest(
                %(conversations)s::bigint[], %(users)s::bigint[], %(names)s::text[], %(nicknames)s::text[], %(cards)s::text[],
                %(roles)s::text[], %(titles)s::text[], %(robots)s::boolean[], %(times)s::timestamptz[], %(spoke)s::boolean[],
                %(joined)s::timestamptz[]
            ) AS s(conversation_id, user_id, name, nickname, card, role, title, is_robot, seen_at, spoke, joined_at)
        ), fresh AS (
            SELECT s.conversation_id, s.user_id,
                   row_number() OVER (PARTITION BY s.conversation_id ORDER BY s.seen_at, s.user_id) AS rank
            FROM seen s
            WHERE NOT EXISTS (SELECT FROM members m WHERE m.conversation_id = s.conversation_id AND m.user_id = s.user_id)
        ), counted AS (
            UPDATE conversations c
            SET last_no = c.last_no + f.many
            FROM (SELECT conversation_id, count(*)::integer AS many FROM fresh GROUP BY conversation_id) AS f
            WHERE c.id = f.conversation_id
            RETURNING c.id, c.last_no - f.many AS before
        ), named AS (
            INSERT INTO member_names (conversation_id, user_id, name, first_seen, last_seen)
            SELECT conversation_id, user_id, name, seen_at, seen_at FROM seen WHERE name <> ''
            ON CONFLICT (conversation_id, user_id, name) DO UPDATE
            SET last_seen = excluded.last_seen
            WHERE member_names.last_seen < excluded.last_seen - interval '1 hour'
        )
        INSERT INTO members (conversation_id, user_id, no, nickname, card, role, title, is_robot, joined_at, spoke_at)
        SELECT s.conversation_id, s.user_id, coalesce(c.before + f.rank, 0), s.nickname, s.card, s.role, s.title, s.is_robot,
               s.joined_at, CASE WHEN s.spoke THEN s.seen_at END
        FROM seen s
        LEFT JOIN fresh f ON f.conversation_id = s.conversation_id AND f.user_id = s.user_id
        LEFT JOIN counted c ON c.id = s.conversation_id
        ON CONFLICT (conversation_id, user_id) DO UPDATE
        SET nickname = CASE WHEN excluded.nickname = '' THEN members.nickname ELSE excluded.nickname END,
            card = excluded.card,
            role = CASE WHEN excluded.role = 'unknown' THEN members.role ELSE excluded.role END,
            title = CASE WHEN excluded.title = '' THEN members.title ELSE excluded.title END,
            is_robot = members.is_robot OR excluded.is_robot,
            joined_at = coalesce(excluded.joined_at, members.joined_at),
            left_at = NULL,
            spoke_at = greatest(members.spoke_at, excluded.spoke_at),
            updated_at = now()
        WHERE (members.card, members.left_at IS NULL) IS DISTINCT FROM (excluded.card, true)
           OR excluded.nickname NOT IN ('', members.nickname) OR excluded.title NOT IN ('', members.title)
           OR excluded.role NOT IN ('unknown', members.role)
           OR (excluded.is_robot AND NOT members.is_robot)
           OR (excluded.joined_at IS NOT NULL AND members.joined_at IS NULL)
           OR excluded.spoke_at > coalesce(members.spoke_at, '-infinity') + interval '1 minute'
        """,
        _columns(list(latest.values())),
    )


def _columns(rows: Sequence[SeenMember]) -> dict[str, list[object]]:
    return {
        "conversations": [row.conversation_id for row in rows],
        "users": [row.user_id for row in rows],
        "names": [row.name for row in rows],
        "nicknames": [row.nickname for row in rows],
        "cards": [row.card for row in rows],
        "roles": [row.role for row in rows],
        "titles": [row.title for row in rows],
        "robots": [row.is_robot for row in rows],
        "times": [row.seen_at for row in rows],
        "spoke": [row.spoke for row in rows],
        "joined": [row.joined_at for row in rows],
    }


async def some(conn: Connection, wanted: Sequence[tuple[ConversationId, int]]) -> list[Member]:
    """Read the members named by (conversation, QQ number), those that are known."""
    if not wanted:
        return []
    async with conn.cursor(row_factory=class_row(Member)) as cur:
        await cur.execute(
            """
            SELECT m.conversation_id, m.user_id, m.no, m.nickname, m.card, m.role, m.title, m.is_robot, m.joined_at,
                   m.left_at, m.spoke_at
            FROM unnest(%(conversations)s::bigint[], %(users)s::bigint[]) AS w(conversation_id, user_id)
            JOIN members m USING (conversation_id, user_id)
            """,
            {"conversations": [item[0] for item in wanted], "users": [item[1] for item in wanted]},
        )
        return await cur.fetchall()


async def role_of(conn: Connection, conversation_id: ConversationId, user_id: int) -> Role:
    """Read a member's role; unknown when the member is not known."""
    async with conn.cursor(row_factory=scalar_row) as cur:
        await cur.execute(
            "SELECT role FROM members WHERE conversation_id = %(conversation)s AND user_id = %(user)s",
            {"conversation": conversation_id, "user": user_id},
        )
        value = await cur.fetchone()
        return value if value is not None else "unknown"


async def mark_left(conn: Connection, conversation_id: ConversationId, user_id: int, at: datetime) -> bool:
    """Record that a member left; False when that was already known or the member is not."""
    cur = await conn.execute(
        """
        UPDATE members SET left_at = %(at)s, updated_at = now()
        WHERE conversation_id = %(conversation)s AND user_id = %(user)s AND left_at IS NULL
        """,
        {"conversation": conversation_id, "user": user_id, "at": at},
    )
    return cur.rowcount > 0


async def mark_absent(conn: Connection, conversation_id: ConversationId, present: Sequence[int], at: datetime) -> int:
    """Record as left everyone whom a full member list no longer holds; returns how many."""
    cur = await conn.execute(
        """
        UPDATE members SET left_at = %(at)s, updated_at = now()
        WHERE conversation_id = %(conversation)s AND left_at IS NULL AND user_id <> ALL(%(present)s::bigint[])
        """,
        {"conversation": conversation_id, "present": list(present), "at": at},
    )
    return cur.rowcount


async def change(
    conn: Connection, conversation_id: ConversationId, user_id: int, *, card: str | None, role: Role | None, title: str | None
) -> bool:
    """Set what a notice says about a member; None leaves a field alone. False: the member is not known."""
    cur = await conn.execute(
        """
        UPDATE members
        SET card = coalesce(%(card)s, card), role = coalesce(%(role)s, role), title = coalesce(%(title)s, title),
            updated_at = now()
        WHERE conversation_id = %(conversation)s AND user_id = %(user)s
        """,
        {"conversation": conversation_id, "user": user_id, "card": card, "role": role, "title": title},
    )
    return cur.rowcount > 0


async def ignored(conn: Connection, conversations: Sequence[ConversationId]) -> set[tuple[ConversationId, int]]:
    """List whom the conversations' owners told the bot to ignore."""
    cur = await conn.execute(
        "SELECT conversation_id, user_id FROM ignored WHERE conversation_id = ANY(%(ids)s)", {"ids": list(conversations)}
    )
    return {(ConversationId(conversation), user) for conversation, user in await cur.fetchall()}


async def robots(conn: Connection, conversations: Sequence[ConversationId]) -> set[tuple[ConversationId, int]]:
    """List the members that QQ's member list or an earlier message showed to be robots."""
    cur = await conn.execute(
        "SELECT conversation_id, user_id FROM members WHERE conversation_id = ANY(%(ids)s) AND is_robot",
        {"ids": list(conversations)},
    )
    return {(ConversationId(conversation), user) for conversation, user in await cur.fetchall()}


async def named_in(conn: Connection, conversation_id: ConversationId, text: str) -> list[int]:
    """List whose names, now or earlier, of two characters or more, occur in a text; longest name first, at most 20."""
    async with conn.cursor(row_factory=scalar_row) as cur:
        await cur.execute(
            """
            SELECT n.user_id
            FROM (SELECT user_id, name FROM member_names WHERE conversation_id = %(conversation)s
                  UNION
                  SELECT user_id, unnest(ARRAY[card, nickname]) FROM members WHERE conversation_id = %(conversation)s
                 ) AS n(user_id, name)
            WHERE char_length(n.name) >= 2 AND strpos(lower(%(text)s), lower(n.name)) > 0
            GROUP BY n.user_id
            ORDER BY max(char_length(n.name)) DESC, n.user_id
            LIMIT 20
            """,
            {"conversation": conversation_id, "text": text},
        )
        return await cur.fetchall()
