"""Topics as people look at them: with what their summary says now, who took part, and what was said."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from psycopg.rows import class_row

from db.learned_models import TopicId
from db.models import ConversationId
from db.pool import Connection


@dataclass(frozen=True, slots=True)
class TopicRow:
    """A topic. ``version`` and what follows is the newest version in use; None: there is none.

    ``users`` are the QQ numbers of those who wrote in it, who wrote most first.
    """

    id: TopicId
    conversation_id: ConversationId
    first_at: datetime
    last_at: datetime
    stale: bool
    messages: int
    users: list[int]
    version: int | None
    title: str | None
    gist: str | None
    open_loops: list[str] | None
    keywords: list[str] | None
    made_at: datetime | None


@dataclass(frozen=True, slots=True)
class VersionRow:
    """One version of a summary. A dropped one has no words any more."""

    version: int
    title: str
    gist: str
    open_loops: list[str]
    keywords: list[str]
    sources: int
    made_at: datetime
    dropped_at: datetime | None


@dataclass(frozen=True, slots=True)
class TopicLine:
    """A message of a topic; ``pos`` is its label."""

    pos: int
    sender_id: int
    sender_name: str
    text: str
    sent_at: datetime


_TOPICS = """
    SELECT t.id, t.conversation_id, t.first_at, t.last_at, t.stale, p.messages::integer, p.users,
           s.version, s.title, s.gist, s.open_loops, s.keywords, s.created_at AS made_at
    FROM topics t
    CROSS JOIN LATERAL (
        SELECT coalesce(sum(u.many), 0) AS messages,
               coalesce(array_agg(u.sender_id ORDER BY u.many DESC, u.sender_id), '{}') AS users
        FROM (SELECT m.sender_id, count(*) AS many
              FROM topic_messages x
              JOIN messages m ON m.id = x.message
              WHERE x.topic_id = t.id
              GROUP BY m.sender_id) AS u
    ) AS p
    LEFT JOIN LATERAL (
        SELECT * FROM topic_summaries s
        WHERE s.topic_id = t.id AND s.dropped_at IS NULL ORDER BY s.version DESC LIMIT 1
    ) AS s ON true
"""


async def newest(
    conn: Connection, conversation_id: ConversationId | None, *, limit: int, before: TopicId | None = None
) -> list[TopicRow]:
    """List topics of one conversation or of all, the newest first; ``before``: those that began before that one."""
    async with conn.cursor(row_factory=class_row(TopicRow)) as cur:
        await cur.execute(
            _TOPICS
            + """
            WHERE (%(conversation)s::bigint IS NULL OR t.conversation_id = %(conversation)s)
              AND (%(before)s::bigint IS NULL OR t.id < %(before)s)
            ORDER BY t.id DESC
            LIMIT %(limit)s
            """,
            {"conversation": conversation_id, "before": before, "limit": limit},
        )
        return await cur.fetchall()


async def get(conn: Connection, topic_id: TopicId) -> TopicRow | None:
    """Read one topic."""
    async with conn.cursor(row_factory=class_row(TopicRow)) as cur:
        await cur.execute(_TOPICS + "WHERE t.id = %(id)s", {"id": topic_id})
        return await cur.fetchone()


async def versions(conn: Connection, topic_id: TopicId) -> list[VersionRow]:
    """Read all versions of a topic's summary, newest first."""
    async with conn.cursor(row_factory=class_row(VersionRow)) as cur:
        await cur.execute(
            """
            SELECT version, title, gist, open_loops, keywords, cardinality(sources) AS sources, created_at AS made_at, dropped_at
            FROM topic_summaries
            WHERE topic_id = %(id)s
            ORDER BY version DESC
            """,
            {"id": topic_id},
        )
        return await cur.fetchall()


async def said(conn: Connection, topic_id: TopicId, *, limit: int) -> list[TopicLine]:
    """Read the newest messages of a topic, lowest position first."""
    async with conn.cursor(row_factory=class_row(TopicLine)) as cur:
        await cur.execute(
            """
            SELECT n.pos, n.sender_id, n.sender_name, n.text, n.sent_at
            FROM (SELECT m.pos, m.sender_id, m.sender_name, m.body AS text, m.sent_at
                  FROM topic_messages x
                  JOIN messages m ON m.id = x.message
                  WHERE x.topic_id = %(id)s AND m.withdrawn_at IS NULL
                  ORDER BY m.pos DESC
                  LIMIT %(limit)s) AS n
            ORDER BY n.pos
            """,
            {"id": topic_id, "limit": limit},
        )
        return await cur.fetchall()
