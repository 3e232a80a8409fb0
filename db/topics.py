"""Topics as rows: read for a run of the learner, written with what it found. Every write names what it counts on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from psycopg.rows import class_row, scalar_row, tuple_row

from db.learned_models import TopicId
from db.models import ConversationId, MessageRow
from db.pool import Connection
from db.searchtext import search_text

FULL = 300
"""A topic with so many messages takes no more: its versions stay small, and talk that goes on begins a new one."""


@dataclass(frozen=True, slots=True)
class OpenTopic:
    """A topic that messages may be put into. ``title`` and ``gist`` are empty while no version is in use."""

    id: TopicId
    title: str
    gist: str
    last_words: str
    last_at: datetime


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a topic's summary stands: its highest version (0: none), and the newest version in use (None: none)."""

    id: TopicId
    version: int
    base: int | None
    title: str
    gist: str
    open_loops: list[str]


@dataclass(frozen=True, slots=True)
class TopicMessage:
    """A message of a topic."""

    topic: TopicId
    row: MessageRow
    pos: int


@dataclass(frozen=True, slots=True)
class TitledMessages:
    """Messages of one topic (positions), and what it is called."""

    title: str
    positions: list[int]


@dataclass(frozen=True, slots=True)
class Version:
    """A summary on its way in. ``base`` is the version's row that it was built on, ``rows`` the messages it adds to that."""

    topic: TopicId
    version: int
    base: int | None
    rows: tuple[MessageRow, ...]
    title: str
    gist: str
    open_loops: tuple[str, ...]
    keywords: tuple[str, ...]


async def open_topics(conn: Connection, conversation_id: ConversationId, quoted: Sequence[int], *, limit: int) -> list[OpenTopic]:
    """Read the latest topics, and those of the messages that are replied to (positions); latest first, full ones left out."""
    async with conn.cursor(row_factory=class_row(OpenTopic)) as cur:
        await cur.execute(
            """
            WITH chosen AS (
                (SELECT t.id FROM topics t
                 WHERE t.conversation_id = %(conversation)s ORDER BY t.last_pos DESC LIMIT %(limit)s)
                UNION
                (SELECT x.topic_id
                 FROM messages m
                 JOIN topic_messages x ON x.message = m.id
                 WHERE m.conversation_id = %(conversation)s AND m.pos = ANY(%(quoted)s::bigint[])
                 ORDER BY m.pos DESC LIMIT %(limit)s)
            )
            SELECT t.id, coalesce(s.title, '') AS title, coalesce(s.gist, '') AS gist, coalesce(m.body, '') AS last_words,
                   t.last_at
            FROM chosen c
            JOIN topics t ON t.id = c.id
            LEFT JOIN messages m ON m.conversation_id = t.conversation_id AND m.pos = t.last_pos AND m.withdrawn_at IS NULL
            LEFT JOIN LATERAL (
                SELECT s.title, s.gist FROM topic_summaries s
                WHERE s.topic_id = t.id AND s.dropped_at IS NULL ORDER BY s.version DESC LIMIT 1
            ) AS s ON true
            WHERE (SELECT count(*) FROM topic_messages x WHERE x.topic_id = t.id) < %(full)s
            ORDER BY t.last_pos DESC, t.id DESC
            """,
            {"conversation": conversation_id, "quoted": list(quoted), "limit": limit, "full": FULL},
        )
        return await cur.fetchall()


async def topics_at(conn: Connection, conversation_id: ConversationId, positions: Sequence[int]) -> dict[int, TopicId]:
    """Tell which topics messages belong to, by position; those of no topic are missing."""
    async with conn.cursor(row_factory=tuple_row) as cur:
        await cur.execute(
            """
            SELECT m.pos, x.topic_id
            FROM messages m
            JOIN topic_messages x ON x.message = m.id
            WHERE m.conversation_id = %(conversation)s AND m.pos = ANY(%(positions)s::bigint[])
            """,
            {"conversation": conversation_id, "positions": list(positions)},
        )
        return {int(pos): TopicId(topic) for pos, topic in await cur.fetchall()}


async def titled(
    conn: Connection, conversation_id: ConversationId, positions: Sequence[int], *, limit: int
) -> list[TitledMessages]:
    """Sort messages (positions) by the topics that they belong to, earliest first; topics without a summary are left out."""
    async with conn.cursor(row_factory=class_row(TitledMessages)) as cur:
        await cur.execute(
            """
            SELECT s.title, g.positions
            FROM (SELECT x.topic_id, array_agg(m.pos ORDER BY m.pos) AS positions
                  FROM messages m
                  JOIN topic_messages x ON x.message = m.id
                  WHERE m.conversation_id = %(conversation)s AND m.pos = ANY(%(positions)s::bigint[])
                  GROUP BY x.topic_id) AS g
            CROSS JOIN LATERAL (
                SELECT s.title FROM topic_summaries s
                WHERE s.topic_id = g.topic_id AND s.dropped_at IS NULL ORDER BY s.version DESC LIMIT 1
            ) AS s
            ORDER BY g.positions[1]
            LIMIT %(limit)s
            """,
            {"conversation": conversation_id, "positions": list(positions), "limit": limit},
        )
        return await cur.fetchall()


async def stale(conn: Connection, conversation_id: ConversationId, *, limit: int) -> list[TopicId]:
    """Find topics that want a new summary, latest first."""
    async with conn.cursor(row_factory=scalar_row) as cur:
        await cur.execute(
            "SELECT id FROM topics WHERE conversation_id = %(conversation)s AND stale ORDER BY last_pos DESC LIMIT %(limit)s",
            {"conversation": conversation_id, "limit": limit},
        )
        return [TopicId(row) for row in await cur.fetchall()]


async def standings(conn: Connection, ids: Sequence[TopicId]) -> list[Standing]:
    """Read where summaries stand, latest topic first."""
    async with conn.cursor(row_factory=class_row(Standing)) as cur:
        await cur.execute(
            """
            SELECT t.id, coalesce((SELECT max(v.version) FROM topic_summaries v WHERE v.topic_id = t.id), 0) AS version,
                   s.id AS base, coalesce(s.title, '') AS title, coalesce(s.gist, '') AS gist,
                   coalesce(s.open_loops, '{}') AS open_loops
            FROM topics t
            LEFT JOIN LATERAL (
                SELECT s.id, s.title, s.gist, s.open_loops FROM topic_summaries s
                WHERE s.topic_id = t.id AND s.dropped_at IS NULL ORDER BY s.version DESC LIMIT 1
            ) AS s ON true
            WHERE t.id = ANY(%(ids)s::bigint[])
            ORDER BY t.last_pos DESC, t.id DESC
            """,
            {"ids": list(ids)},
        )
        return await cur.fetchall()


async def unsummarised(conn: Connection, ids: Sequence[TopicId], *, limit: int) -> list[TopicMessage]:
    """Find the messages of topics that their newest version in use does not stand on: the newest ``limit`` of each.

    Lowest position first. Those who are not learned about are left out.
    """
    async with conn.cursor(row_factory=class_row(TopicMessage)) as cur:
        await cur.execute(
            """
            SELECT u.topic, u.row, u.pos
            FROM topics t
            LEFT JOIN LATERAL (
                SELECT s.sources FROM topic_summaries s
                WHERE s.topic_id = t.id AND s.dropped_at IS NULL ORDER BY s.version DESC LIMIT 1
            ) AS s ON true
            CROSS JOIN LATERAL (
                SELECT x.topic_id AS topic, m.id AS row, m.pos
                FROM topic_messages x
                JOIN messages m ON m.id = x.message
                WHERE x.topic_id = t.id AND m.withdrawn_at IS NULL AND m.id <> ALL (coalesce(s.sources, '{}'))
                  AND NOT EXISTS (SELECT FROM unlearned u
                                  WHERE u.conversation_id = m.conversation_id AND u.user_id = m.sender_id)
                ORDER BY m.pos DESC
                LIMIT %(limit)s
            ) AS u
            WHERE t.id = ANY(%(ids)s::bigint[])
            ORDER BY u.pos
            """,
            {"ids": list(ids), "limit": limit},
        )
        return await cur.fetchall()


async def hold_messages(conn: Connection, rows: Sequence[MessageRow]) -> set[MessageRow]:
    """Hold messages against a withdrawal until the commit; returns those that still stand and may be learned from."""
    async with conn.cursor(row_factory=scalar_row) as cur:
        await cur.execute(
            """
            SELECT m.id
            FROM messages m
            WHERE m.id = ANY(%(rows)s::bigint[]) AND m.withdrawn_at IS NULL
              AND NOT EXISTS (SELECT FROM unlearned u WHERE u.conversation_id = m.conversation_id AND u.user_id = m.sender_id)
            ORDER BY m.id
            FOR SHARE OF m
            """,
            {"rows": list(rows)},
        )
        return {MessageRow(row) for row in await cur.fetchall()}


async def hold(conn: Connection, ids: Sequence[TopicId]) -> set[TopicId]:
    """Keep topics from changing until the commit; returns those that are still there. Hold their new messages first."""
    async with conn.cursor(row_factory=scalar_row) as cur:
        await cur.execute(
            "SELECT id FROM topics WHERE id = ANY(%(ids)s::bigint[]) ORDER BY id FOR NO KEY UPDATE", {"ids": list(ids)}
        )
        return {TopicId(row) for row in await cur.fetchall()}


async def bases_in_use(conn: Connection, bases: Sequence[int]) -> set[int]:
    """Tell which versions (rows) are still in use. Their topics must be held."""
    async with conn.cursor(row_factory=scalar_row) as cur:
        await cur.execute(
            "SELECT id FROM topic_summaries WHERE id = ANY(%(bases)s::bigint[]) AND dropped_at IS NULL", {"bases": list(bases)}
        )
        return set(await cur.fetchall())


async def create(conn: Connection, conversation_id: ConversationId, rows: Sequence[MessageRow]) -> TopicId:
    """Make a topic for messages, which have yet to be put into it."""
    async with conn.cursor(row_factory=scalar_row) as cur:
        await cur.execute(
            """
            INSERT INTO topics (conversation_id, first_at, last_at, last_pos)
            SELECT %(conversation)s, min(m.sent_at), max(m.sent_at), max(m.pos)
            FROM messages m
            WHERE m.id = ANY(%(rows)s::bigint[])
            RETURNING id
            """,
            {"conversation": conversation_id, "rows": list(rows)},
        )
        [made] = await cur.fetchall()
        return TopicId(made)


async def put(conn: Connection, placed: Sequence[tuple[MessageRow, TopicId]]) -> int:
    """Put messages into topics; returns how many, fewer where one has a topic already."""
    cur = await conn.execute(
        """
        INSERT INTO topic_messages (message, topic_id)
        SELECT p.message, p.topic_id FROM unnest(%(rows)s::bigint[], %(topics)s::bigint[]) AS p (message, topic_id)
        ON CONFLICT DO NOTHING
        """,
        {"rows": [row for row, _ in placed], "topics": [topic for _, topic in placed]},
    )
    return cur.rowcount


async def refresh(conn: Connection, ids: Sequence[TopicId]) -> None:
    """After messages came or went: count topics' times anew and let them want a summary; those without messages go."""
    await conn.execute(
        """
        UPDATE topics t
        SET first_at = c.first_at, last_at = c.last_at, last_pos = c.last_pos, stale = true
        FROM (SELECT x.topic_id, min(m.sent_at) AS first_at, max(m.sent_at) AS last_at, max(m.pos) AS last_pos
              FROM topic_messages x
              JOIN messages m ON m.id = x.message
              WHERE x.topic_id = ANY(%(ids)s::bigint[])
              GROUP BY x.topic_id) AS c
        WHERE t.id = c.topic_id
        """,
        {"ids": list(ids)},
    )
    await conn.execute(
        """
        DELETE FROM topics t
        WHERE t.id = ANY(%(ids)s::bigint[]) AND NOT EXISTS (SELECT FROM topic_messages x WHERE x.topic_id = t.id)
        """,
        {"ids": list(ids)},
    )


async def add_version(conn: Connection, made: Version) -> bool:
    """Write a summary's new version; False: a version as high is there already. The topic must be held.

    It stands on its messages and on all that its base stands on.
    """
    cur = await conn.execute(
        """
        INSERT INTO topic_summaries (topic_id, version, title, gist, participants, open_loops, keywords, search, sources,
                                     upto_pos)
        SELECT %(topic)s, %(version)s, %(title)s, %(gist)s,
               ARRAY(SELECT DISTINCT u FROM unnest(coalesce(b.participants, '{}') || coalesce(n.users, '{}')) AS u ORDER BY u),
               %(open_loops)s::text[], %(keywords)s::text[], %(search)s,
               coalesce(b.sources, '{}') || %(rows)s::bigint[], greatest(b.upto_pos, n.pos, 0)
        FROM (SELECT max(m.pos) AS pos, array_agg(m.sender_id) AS users
              FROM messages m WHERE m.id = ANY(%(rows)s::bigint[])) AS n
        LEFT JOIN topic_summaries b ON b.id = %(base)s
        WHERE NOT EXISTS (SELECT FROM topic_summaries s WHERE s.topic_id = %(topic)s AND s.version >= %(version)s)
        ON CONFLICT DO NOTHING
        """,
        {
            "topic": made.topic,
            "version": made.version,
            "base": made.base,
            "rows": list(made.rows),
            "title": made.title,
            "gist": made.gist,
            "open_loops": list(made.open_loops),
            "keywords": list(made.keywords),
            "search": search_text("\n".join((made.title, made.gist, *made.open_loops, *made.keywords))),
        },
    )
    return cur.rowcount > 0


async def settle(conn: Connection, ids: Sequence[TopicId]) -> None:
    """Say that topics want no new summary now."""
    await conn.execute("UPDATE topics SET stale = false WHERE id = ANY(%(ids)s::bigint[]) AND stale", {"ids": list(ids)})
