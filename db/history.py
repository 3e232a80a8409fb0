"""Snapshot reads: what one turn of the agent sees of a conversation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from psycopg import AsyncCursor
from psycopg.rows import class_row, scalar_row

from db.models import CallKind, ConversationId, Role
from db.pool import Connection

OWED_AT_ONCE = 200
"""A snapshot ends before the next owed call beyond this many: the rest is the next turn's."""
OWN_WITHIN = 1000
"""Own messages are looked for among this many newest positions."""


@dataclass(frozen=True, slots=True)
class Line:
    """One visible message as a line of the prompt needs it. ``member_no`` is None for a sender without a row."""

    pos: int
    real_seq: int | None
    sender_id: int
    sender_name: str
    member_no: int | None
    role: Role
    title: str
    is_self: bool
    is_robot: bool
    body: str
    quote_name: str | None
    quote_text: str | None
    quoted_pos: int | None
    quote_withdrawn: bool
    sent_at: datetime


@dataclass(frozen=True, slots=True)
class Owed:
    """An open call: the label of its message and how it calls."""

    pos: int
    kind: CallKind


@dataclass(frozen=True, slots=True)
class OwnMessage:
    """What the bot itself said lately."""

    text: str
    sent_at: datetime


@dataclass(frozen=True, slots=True)
class KnownMember:
    """A member as a tool names one."""

    user_id: int
    no: int
    name: str
    role: Role
    title: str
    is_robot: bool
    joined_at: datetime | None
    left_at: datetime | None
    spoke_at: datetime | None


@dataclass(frozen=True, slots=True)
class SnapshotRows:
    """One consistent read: the window, and the owed messages from before it.

    ``last_pos`` is the highest position the snapshot covers; ``window_start`` the lowest position of the window.
    """

    last_pos: int
    watermark: int
    window_start: int
    lines: tuple[Line, ...]
    earlier: tuple[Line, ...]
    owed: tuple[Owed, ...]
    own: tuple[OwnMessage, ...]


@dataclass(frozen=True, slots=True)
class _Bounds:
    last_pos: int
    watermark: int


_LINES = """
    SELECT m.pos, m.real_seq, m.sender_id, m.sender_name, p.no AS member_no, coalesce(p.role, 'unknown') AS role,
           coalesce(p.title, '') AS title, m.is_self, m.is_robot OR coalesce(p.is_robot, false) AS is_robot, m.body,
           m.quote_name, m.quote_text, q.pos AS quoted_pos, q.withdrawn_at IS NOT NULL AS quote_withdrawn, m.sent_at
    FROM messages m
    LEFT JOIN members p ON p.conversation_id = m.conversation_id AND p.user_id = m.sender_id
    LEFT JOIN messages q ON q.id = m.quoted_id
"""


async def read_snapshot(conn: Connection, conversation_id: ConversationId, *, chunk: int, since: datetime) -> SnapshotRows:
    """Read the window, the open owed calls and the bot's own messages since a moment, all of one instant.

    The window is the open chunk and the full one before it; chunk k holds the positions from k·chunk on.
    Raises LookupError for an unknown conversation.
    """
    async with conn.transaction():
        async with conn.pipeline(), conn.cursor(row_factory=class_row(_Bounds)) as cur:
            await conn.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            await _ask_bounds(cur, conversation_id)
            bounds = await cur.fetchone()
        if bounds is None:
            raise LookupError(f"没有编号为 {conversation_id} 的会话")
        start = max(0, (bounds.last_pos // chunk - 1) * chunk)
        async with (
            conn.pipeline(),
            conn.cursor(row_factory=class_row(Line)) as lines,
            conn.cursor(row_factory=class_row(Line)) as earlier,
            conn.cursor(row_factory=class_row(Owed)) as owed,
            conn.cursor(row_factory=class_row(OwnMessage)) as own,
        ):
            await _ask_window(lines, conversation_id, start, bounds.last_pos)
            await _ask_earlier(earlier, conversation_id, start)
            await _ask_owed(owed, conversation_id, bounds.last_pos)
            await _ask_own(own, conversation_id, since, bounds.last_pos)
            rows = SnapshotRows(
                last_pos=bounds.last_pos,
                watermark=bounds.watermark,
                window_start=start,
                lines=tuple(await lines.fetchall()),
                earlier=tuple(await earlier.fetchall()),
                owed=tuple(await owed.fetchall()),
                own=tuple(await own.fetchall()),
            )
    return rows


async def _ask_bounds(cur: AsyncCursor[_Bounds], conversation_id: ConversationId) -> None:
    await cur.execute(
        """
        SELECT c.watermark, least(c.last_pos, (
                   SELECT o.pos - 1 FROM owed o
                   WHERE o.conversation_id = c.id AND o.settled_at IS NULL
                   ORDER BY o.pos
                   OFFSET %(owed_at_once)s LIMIT 1
               )) AS last_pos
        FROM conversations c
        WHERE c.id = %(conversation_id)s
        """,
        {"conversation_id": conversation_id, "owed_at_once": OWED_AT_ONCE},
    )


async def _ask_window(cur: AsyncCursor[Line], conversation_id: ConversationId, start: int, last_pos: int) -> None:
    await cur.execute(
        _LINES
        + """
        WHERE m.conversation_id = %(conversation_id)s
          AND m.pos BETWEEN %(start)s AND %(last_pos)s
          AND m.withdrawn_at IS NULL
          AND NOT m.is_command
        ORDER BY m.pos
        """,
        {"conversation_id": conversation_id, "start": start, "last_pos": last_pos},
    )


async def _ask_earlier(cur: AsyncCursor[Line], conversation_id: ConversationId, start: int) -> None:
    await cur.execute(
        _LINES
        + """
        JOIN owed o ON o.message = m.id
        WHERE m.conversation_id = %(conversation_id)s
          AND o.settled_at IS NULL
          AND o.pos < %(start)s
          AND m.withdrawn_at IS NULL
          AND NOT m.is_command
        ORDER BY m.pos
        """,
        {"conversation_id": conversation_id, "start": start},
    )


async def _ask_owed(cur: AsyncCursor[Owed], conversation_id: ConversationId, last_pos: int) -> None:
    await cur.execute(
        """
        SELECT o.pos, o.kind
        FROM owed o
        JOIN messages m ON m.id = o.message
        WHERE o.conversation_id = %(conversation_id)s
          AND o.settled_at IS NULL
          AND o.pos <= %(last_pos)s
          AND m.withdrawn_at IS NULL
          AND NOT m.is_command
        ORDER BY o.pos
        """,
        {"conversation_id": conversation_id, "last_pos": last_pos},
    )


async def _ask_own(cur: AsyncCursor[OwnMessage], conversation_id: ConversationId, since: datetime, last_pos: int) -> None:
    await cur.execute(
        """
        SELECT m.text, m.sent_at
        FROM messages m
        WHERE m.conversation_id = %(conversation_id)s
          AND m.pos > %(last_pos)s - %(within)s
          AND m.is_self
          AND m.kind = 'message'
          AND m.withdrawn_at IS NULL
          AND m.sent_at >= %(since)s
        ORDER BY m.pos DESC
        LIMIT 10
        """,
        {"conversation_id": conversation_id, "last_pos": last_pos, "within": OWN_WITHIN, "since": since},
    )


async def lines_before(conn: Connection, conversation_id: ConversationId, *, before: int, limit: int) -> list[Line]:
    """Read the visible messages just before a position, lowest position first."""
    async with conn.cursor(row_factory=class_row(Line)) as cur:
        await cur.execute(
            _LINES
            + """
            WHERE m.conversation_id = %(conversation_id)s
              AND m.pos < %(before)s
              AND m.withdrawn_at IS NULL
              AND NOT m.is_command
            ORDER BY m.pos DESC
            LIMIT %(limit)s
            """,
            {"conversation_id": conversation_id, "before": before, "limit": limit},
        )
        return list(reversed(await cur.fetchall()))


async def lines_after(conn: Connection, conversation_id: ConversationId, *, after: int, limit: int) -> list[Line]:
    """Read the visible messages that came after a position, lowest position first."""
    async with conn.cursor(row_factory=class_row(Line)) as cur:
        await cur.execute(
            _LINES
            + """
            WHERE m.conversation_id = %(conversation_id)s
              AND m.pos > %(after)s
              AND m.withdrawn_at IS NULL
              AND NOT m.is_command
            ORDER BY m.pos
            LIMIT %(limit)s
            """,
            {"conversation_id": conversation_id, "after": after, "limit": limit},
        )
        return await cur.fetchall()


async def lines_at(conn: Connection, conversation_id: ConversationId, positions: Sequence[int]) -> list[Line]:
    """Read the visible messages with these positions, lowest position first."""
    async with conn.cursor(row_factory=class_row(Line)) as cur:
        await cur.execute(
            _LINES
            + """
            WHERE m.conversation_id = %(conversation_id)s
              AND m.pos = ANY(%(positions)s::bigint[])
              AND m.withdrawn_at IS NULL
              AND NOT m.is_command
            ORDER BY m.pos
            """,
            {"conversation_id": conversation_id, "positions": list(positions)},
        )
        return await cur.fetchall()


async def owed_between(conn: Connection, conversation_id: ConversationId, *, after: int, until: int) -> list[Owed]:
    """Read the open calls with ``after < pos <= until``, lowest position first."""
    async with conn.cursor(row_factory=class_row(Owed)) as cur:
        await cur.execute(
            """
            SELECT o.pos, o.kind
            FROM owed o
            JOIN messages m ON m.id = o.message
            WHERE o.conversation_id = %(conversation_id)s
              AND o.settled_at IS NULL
              AND o.pos > %(after)s
              AND o.pos <= %(until)s
              AND m.withdrawn_at IS NULL
            ORDER BY o.pos
            """,
            {"conversation_id": conversation_id, "after": after, "until": until},
        )
        return await cur.fetchall()


async def own_message_at(conn: Connection, conversation_id: ConversationId, pos: int) -> datetime | None:
    """Tell when the bot sent its message with this label; None when it is not the bot's or is gone."""
    async with conn.cursor(row_factory=scalar_row) as cur:
        await cur.execute(
            """
            SELECT m.sent_at
            FROM messages m
            WHERE m.conversation_id = %(conversation_id)s
              AND m.pos = %(pos)s
              AND m.is_self
              AND m.withdrawn_at IS NULL
            """,
            {"conversation_id": conversation_id, "pos": pos},
        )
        return await cur.fetchone()


@dataclass(frozen=True, slots=True)
class Said:
    """Who said what under a label. ``human``: a person said it, in words, and it still stands."""

    sender_id: int
    text: str
    human: bool


async def said_at(conn: Connection, conversation_id: ConversationId, pos: int) -> Said | None:
    """Read who said the message with this label, as it stands now; None: there is none."""
    async with conn.cursor(row_factory=class_row(Said)) as cur:
        await cur.execute(
            """
            SELECT m.sender_id, m.text,
                   NOT (m.is_self OR m.is_robot OR coalesce(p.is_robot, false) OR m.is_command)
                   AND m.kind = 'message' AND m.withdrawn_at IS NULL AS human
            FROM messages m
            LEFT JOIN members p ON p.conversation_id = m.conversation_id AND p.user_id = m.sender_id
            WHERE m.conversation_id = %(conversation_id)s AND m.pos = %(pos)s
            """,
            {"conversation_id": conversation_id, "pos": pos},
        )
        return await cur.fetchone()


async def spoke_among(conn: Connection, conversation_id: ConversationId, user_id: int, labels: Sequence[int]) -> bool:
    """Tell whether one of the messages with these labels was said by a member and still stands."""
    async with conn.cursor(row_factory=scalar_row) as cur:
        await cur.execute(
            """
            SELECT EXISTS (SELECT FROM messages m
                           WHERE m.conversation_id = %(conversation_id)s AND m.pos = ANY(%(labels)s::bigint[])
                             AND m.sender_id = %(user_id)s AND NOT m.is_self AND m.withdrawn_at IS NULL)
            """,
            {"conversation_id": conversation_id, "user_id": user_id, "labels": list(labels)},
        )
        return bool(await cur.fetchone())


async def find_members(
    conn: Connection, conversation_id: ConversationId, *, numbers: Sequence[int], names: Sequence[str]
) -> list[KnownMember]:
    """Find members by short number, QQ number, card or (without a card) nickname."""
    async with conn.cursor(row_factory=class_row(KnownMember)) as cur:
        await cur.execute(
            """
            SELECT p.user_id, p.no, coalesce(nullif(p.card, ''), p.nickname) AS name, p.role, p.title, p.is_robot,
                   p.joined_at, p.left_at, p.spoke_at
            FROM members p
            WHERE p.conversation_id = %(conversation_id)s
              AND (p.no = ANY(%(numbers)s::bigint[])
                   OR p.user_id = ANY(%(numbers)s::bigint[])
                   OR coalesce(nullif(p.card, ''), p.nickname) = ANY(%(names)s::text[]))
            ORDER BY p.no
            LIMIT 50
            """,
            {"conversation_id": conversation_id, "numbers": list(numbers), "names": list(names)},
        )
        return await cur.fetchall()
