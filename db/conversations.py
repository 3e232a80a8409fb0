"""Queries of conversations: their rows, their state on QQ, their watermark."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

from psycopg.rows import class_row, scalar_row

from db.models import Conversation, ConversationId, ConversationKey
from db.pool import Connection


@dataclass(frozen=True, slots=True)
class KnownConversation:
    """A conversation that an event names, with the name the event gives it (empty: none)."""

    key: ConversationKey
    name: str = ""


async def ensure(conn: Connection, found: Collection[KnownConversation]) -> list[Conversation]:
    """Make sure that the conversations have rows and lock those rows in one fixed order.

    Must run inside a transaction: the locks give positions out in commit order. A new name replaces the old one.
    """
    latest = {item.key: item.name for item in found}
    kinds = [key.kind for key in latest]
    targets = [key.target_id for key in latest]
    names = list(latest.values())
    async with conn.cursor(row_factory=class_row(Conversation)) as cur:
        await cur.execute(
            """
            SELECT c.id, c.kind, c.target_id, c.name, c.enabled, c.talk_frequency, c.quiet_hours, c.daily_calls,
                   c.persona, c.extra_prompt, c.learning, c.quiet_until, c.muted_until, c.whole_mute, c.left_at,
                   c.last_pos, c.watermark, c.diced_pos
            FROM conversations c
            JOIN unnest(%(kinds)s::text[], %(targets)s::bigint[]) AS f(kind, target_id)
              ON c.kind = f.kind AND c.target_id = f.target_id
            ORDER BY c.id
            FOR NO KEY UPDATE OF c
            """,
            {"kinds": kinds, "targets": targets},
        )
        rows = await cur.fetchall()
        # All that exist are locked, by id: what follows waits for new ones only.
        if len(rows) == len(latest) and all(latest[row.key] in {"", row.name} for row in rows):
            return rows
        await cur.execute(
            """
            INSERT INTO conversations (kind, target_id, name)
            SELECT kind, target_id, name
            FROM unnest(%(kinds)s::text[], %(targets)s::bigint[], %(names)s::text[]) AS f(kind, target_id, name)
            ORDER BY kind, target_id
            ON CONFLICT (kind, target_id) DO UPDATE
            SET name = CASE WHEN excluded.name = '' THEN conversations.name ELSE excluded.name END
            RETURNING id, kind, target_id, name, enabled, talk_frequency, quiet_hours, daily_calls, persona, extra_prompt,
                      learning, quiet_until, muted_until, whole_mute, left_at, last_pos, watermark, diced_pos
            """,
            {"kinds": kinds, "targets": targets, "names": names},
        )
        return await cur.fetchall()


async def get(conn: Connection, conversation_id: ConversationId) -> Conversation | None:
    """Read one conversation."""
    return next(iter(await some(conn, [conversation_id])), None)


async def some(conn: Connection, ids: Collection[ConversationId]) -> list[Conversation]:
    """Read conversations by their rows; those that are gone are missing."""
    async with conn.cursor(row_factory=class_row(Conversation)) as cur:
        await cur.execute(
            """
            SELECT id, kind, target_id, name, enabled, talk_frequency, quiet_hours, daily_calls, persona, extra_prompt,
                   learning, quiet_until, muted_until, whole_mute, left_at, last_pos, watermark, diced_pos
            FROM conversations
            WHERE id = ANY(%(ids)s)
            """,
            {"ids": list(ids)},
        )
        return await cur.fetchall()


async def find(conn: Connection, key: ConversationKey) -> Conversation | None:
    """Read one conversation by its number on QQ."""
    async with conn.cursor(row_factory=class_row(Conversation)) as cur:
        await cur.execute(
            """
            SELECT id, kind, target_id, name, enabled, talk_frequency, quiet_hours, daily_calls, persona, extra_prompt,
                   learning, quiet_until, muted_until, whole_mute, left_at, last_pos, watermark, diced_pos
            FROM conversations
            WHERE kind = %(kind)s AND target_id = %(target)s
            """,
            {"kind": key.kind, "target": key.target_id},
        )
        return await cur.fetchone()


async def take_positions(conn: Connection, ids: Sequence[ConversationId], last: Sequence[int]) -> None:
    """Write back the highest positions given out; the rows are locked by ``ensure``."""
    await conn.execute(
        """
        UPDATE conversations c
        SET last_pos = t.last_pos
        FROM unnest(%(ids)s::bigint[], %(last)s::bigint[]) AS t(id, last_pos)
        WHERE c.id = t.id
        """,
        {"ids": list(ids), "last": list(last)},
    )


async def set_whole_mute(conn: Connection, conversation_id: ConversationId, *, on: bool) -> None:
    """Record that the whole group is muted, or no longer."""
    await conn.execute(
        "UPDATE conversations SET whole_mute = %(on)s, updated_at = now() WHERE id = %(id)s",
        {"id": conversation_id, "on": on},
    )


async def set_quiet(conn: Connection, conversation_id: ConversationId, *, until: datetime | None) -> None:
    """Keep the bot from ambient talk until then; None ends it."""
    await conn.execute(
        "UPDATE conversations SET quiet_until = %(until)s, updated_at = now() WHERE id = %(id)s",
        {"id": conversation_id, "until": until},
    )


async def rename(conn: Connection, conversation_id: ConversationId, name: str) -> None:
    """Give the conversation its new name."""
    await conn.execute(
        "UPDATE conversations SET name = %(name)s, updated_at = now() WHERE id = %(id)s",
        {"id": conversation_id, "name": name},
    )


async def claim_dice(conn: Connection, conversation_id: ConversationId, pos: int) -> bool:
    """Claim the roll for the unread messages up to this position; False when it was claimed before."""
    cur = await conn.execute(
        "UPDATE conversations SET diced_pos = %(pos)s WHERE id = %(id)s AND diced_pos < %(pos)s",
        {"pos": pos, "id": conversation_id},
    )
    return cur.rowcount > 0


async def waiting(conn: Connection, now: datetime) -> list[ConversationId]:
    """List conversations that may want a turn: a call is due, or unread lines were not rolled for yet."""
    async with conn.cursor(row_factory=scalar_row) as cur:
        await cur.execute(
            """
            SELECT c.id
            FROM conversations c
            WHERE c.left_at IS NULL
              AND (c.last_pos > greatest(c.watermark, c.diced_pos)
                   OR EXISTS (SELECT FROM owed o
                              WHERE o.conversation_id = c.id AND o.settled_at IS NULL AND o.retry_at <= %(now)s))
            ORDER BY c.id
            """,
            {"now": now},
        )
        return [ConversationId(value) for value in await cur.fetchall()]


@dataclass(frozen=True, slots=True)
class Unread:
    """What lies beyond the watermark: people's lines not rolled for, and the share of own lines among the latest."""

    people: int
    recent: int
    own_recent: int


async def unread(conn: Connection, conversation: Conversation, *, recent: int = 20) -> Unread:
    """Count people's unread lines that were not rolled for yet, and own lines among the ``recent`` latest."""
    async with conn.cursor(row_factory=class_row(Unread)) as cur:
        await cur.execute(
            """
            SELECT (SELECT count(*)
                    FROM messages m
                    WHERE m.conversation_id = %(id)s AND m.pos > %(after)s AND m.kind = 'message'
                      AND NOT m.is_self AND NOT m.is_robot AND NOT m.is_command AND m.withdrawn_at IS NULL
                      AND NOT m.backfilled) AS people,
                   count(*) AS recent,
                   count(*) FILTER (WHERE latest.is_self) AS own_recent
            FROM (SELECT is_self
                  FROM messages
                  WHERE conversation_id = %(id)s AND kind = 'message' AND NOT is_command
                  ORDER BY pos DESC
                  LIMIT %(recent)s) AS latest
            """,
            {"id": conversation.id, "after": max(conversation.watermark, conversation.diced_pos), "recent": recent},
        )
        row = await cur.fetchone()
        return row if row is not None else Unread(0, 0, 0)
