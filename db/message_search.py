"""Searching what was said: messages by their words and by their meaning, each with what stands around it.

The text leg finds candidates by the rarest words of the query through the index ``messages_text``, as recall does for
memories; of equals the newest is first. The vector leg compares every one of the newest vectors in scope.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from psycopg.rows import class_row, scalar_row

from db.fusion import Fused, Place, depth
from db.history import Line
from db.legs import both_legs
from db.memory_models import Vector
from db.models import ConversationId, MessageRow
from db.pool import Connection, Database
from db.recall_text import ALIKE, ENOUGH, FETCHED, LENGTH_CHARS, LENGTH_WEIGHT, RAREST, SCORED, SIMILAR_WEIGHT, TERMS
from db.text_query import TextQuery, arrays, read_query
from db.timewords import TimeRange
from db.vectors import vector_literal

HITS = 20
"""Hits of one page at most."""
AROUND = 2
"""Visible lines before and after a hit."""
NEWEST = 20_000
"""Vectors that are compared, and rows that are read for a query of one letter."""


@dataclass(frozen=True, slots=True)
class MessageQuery:
    """What to search for. Empty words with a sender or a range list the newest messages.

    ``before_pos``: only what stands before this position of the conversation, so that a turn sees nothing that came later.
    """

    conversation_ids: tuple[ConversationId, ...]
    text: str
    sender_ids: tuple[int, ...] = ()
    when: TimeRange | None = None
    limit: int = 10
    offset: int = 0
    before_pos: int | None = None


@dataclass(frozen=True, slots=True)
class MessageHit:
    """A message that was found, with up to AROUND visible lines on either side, in reading order.

    A line stands in one hit only: what is a hit itself, or stands around a better one, is left out here.
    Ranks count from 1; None: that leg did not find it. A message that was only listed has no rank and the score 0.
    """

    conversation_id: ConversationId
    message: MessageRow
    line: Line
    score: float
    text_rank: int | None
    vector_rank: int | None
    before: tuple[Line, ...] = ()
    after: tuple[Line, ...] = ()


async def search_messages(database: Database, query: MessageQuery, vector: Vector | None = None) -> list[MessageHit]:
    """Find messages, best first. Nothing withdrawn, forgotten or of a command is found or shown around a hit.

    Both legs run at once; one that fails is left out and logged. Raises DatabaseUnavailable when none reached the database.
    """
    query = replace(query, limit=max(0, min(query.limit, HITS)), offset=max(0, query.offset))
    if not query.conversation_ids or query.limit == 0:
        return []
    if query.text.strip():
        fused = (await _search(database, query, vector))[query.offset : query.offset + query.limit]
    elif query.sender_ids or query.when is not None:
        fused = [Fused(row, 0.0, None, None) for row in await _listed(database, query)]
    else:
        return []
    if not fused:
        return []
    async with database.connection() as conn:
        return _with_neighbours(fused, await _lines(conn, [hit.row for hit in fused], query.before_pos))


async def _search(database: Database, query: MessageQuery, vector: Vector | None) -> list[Fused]:
    limit = depth(query.offset + query.limit)
    words = read_query(0, query.text)

    async def by_words(words: TextQuery) -> list[Place]:
        async with database.connection() as conn:
            return await _text_places(conn, words, query, limit)

    async def by_meaning(vector: Vector) -> list[Place]:
        async with database.connection() as conn:
            return await _vector_places(conn, vector, query, limit)

    return await both_legs("查找消息", None if words is None else by_words(words), None if vector is None else by_meaning(vector))


# Every filter of a query, for a message m.
_IN_SCOPE = """
    m.kind = 'message' AND m.withdrawn_at IS NULL AND NOT m.is_command
    AND (%(anybody)s OR m.sender_id = ANY(%(senders)s::bigint[]))
    AND (%(start)s::timestamptz IS NULL OR m.sent_at >= %(start)s::timestamptz)
    AND (%(end)s::timestamptz IS NULL OR m.sent_at < %(end)s::timestamptz)
    AND (%(before)s::bigint IS NULL OR m.pos < %(before)s::bigint)
"""

_Value = bool | int | float | str | datetime | list[int] | list[str] | list[float] | list[bool] | None


def _scope_values(query: MessageQuery) -> dict[str, _Value]:
    return {
        "conversations": list(query.conversation_ids),
        "anybody": not query.sender_ids,
        "senders": list(query.sender_ids),
        "start": None if query.when is None else query.when.start,
        "end": None if query.when is None else query.when.end,
        "before": query.before_pos,
    }


_HERE = f"ARRAY[m.conversation_id] && %(conversations)s::bigint[] AND {_IN_SCOPE}"

# OFFSET 0: rows come from the index over words, whatever the planner thinks of reading the newest until enough of them fit.
_TEXT_LEG = f"""
    WITH terms AS MATERIALIZED (
        SELECT u.term, u.needle, u.is_word, u.weight * ln(1 + s.documents / (1 + coalesce(t.df, 0))) AS weight,
               row_number() OVER (PARTITION BY u.is_word ORDER BY coalesce(t.df, 0), u.place) AS rarity,
               least(count(*) FILTER (WHERE u.is_word) OVER (), %(rarest)s) AS fetching
        FROM unnest(%(terms)s::text[], %(needles)s::text[], %(weights)s::float8[], %(are_words)s::boolean[])
             WITH ORDINALITY AS u (term, needle, weight, is_word, place)
        CROSS JOIN (SELECT coalesce(max(documents), 1)::float8 AS documents FROM search_stats) AS s
        LEFT JOIN search_terms t ON t.term = u.term
    ), exact AS MATERIALIZED (
        SELECT t.weight, r.id
        FROM terms t
        CROSS JOIN LATERAL (
            SELECT f.id
            FROM (SELECT m.id FROM messages m WHERE {_HERE} AND m.search LIKE '%%' || t.needle || '%%' OFFSET 0) AS f
            ORDER BY f.id DESC LIMIT %(fetched)s / t.fetching
        ) AS r
        WHERE t.is_word AND t.rarity <= %(rarest)s
    ), alike AS MATERIALIZED (
        SELECT r.id, max(word_similarity(f.text, r.search)) AS similarity
        FROM unnest(%(fuzzy)s::text[]) AS f (text)
        CROSS JOIN LATERAL (
            SELECT l.id, l.search
            FROM (SELECT m.id, m.search FROM messages m WHERE {_HERE} AND f.text <%% m.search OFFSET 0) AS l
            ORDER BY l.id DESC LIMIT %(alike)s
        ) AS r
        WHERE (SELECT count(*) FROM exact) < %(enough)s
        GROUP BY r.id
    ), inside AS (
        SELECT r.id
        FROM unnest(%(letters)s::text[]) AS l (letter)
        CROSS JOIN LATERAL (
            (SELECT f.id
             FROM (SELECT m.id FROM messages m WHERE {_HERE} AND m.search LIKE '%% ' || l.letter || '%%' OFFSET 0) AS f
             ORDER BY f.id DESC LIMIT %(fetched)s)
            UNION
            SELECT n.id
            FROM unnest(%(conversations)s::bigint[]) AS c (id)
            CROSS JOIN LATERAL (
                SELECT m.id, m.search FROM messages m
                WHERE m.conversation_id = c.id AND {_IN_SCOPE}
                ORDER BY m.pos DESC LIMIT %(newest)s
            ) AS n
            WHERE n.search LIKE '%%' || l.letter || ' %%'
        ) AS r
    ), candidates AS (
        SELECT c.id, max(c.similarity) AS similarity
        FROM (SELECT id, weight, 0 AS similarity FROM exact
              UNION ALL SELECT id, 1, similarity FROM alike
              UNION ALL SELECT id, 1, 0 FROM inside) AS c
        GROUP BY c.id
        ORDER BY sum(c.weight) DESC, c.id DESC
        LIMIT %(scored)s
    ), scored AS (
        SELECT c.id,
               coalesce(h.held, 0) / (1 + %(length_weight)s * (char_length(m.search) / %(length_chars)s))
               + %(similar_weight)s * c.similarity AS score
        FROM candidates c
        JOIN messages m ON m.id = c.id
        CROSS JOIN LATERAL (
            SELECT sum(t.weight) FILTER (WHERE strpos(m.search, t.needle) > 0) / sum(t.weight) AS held
            FROM terms t
            WHERE t.rarity <= %(counted)s
        ) AS h
    )
    SELECT s.id AS row, (row_number() OVER (ORDER BY s.score DESC, s.id DESC))::integer AS rank
    FROM scored s
    ORDER BY rank
    LIMIT %(limit)s
"""


def _text_values(words: TextQuery, query: MessageQuery, limit: int) -> dict[str, _Value]:
    return {
        **_scope_values(query),
        **arrays([words]),
        "rarest": RAREST,
        "counted": TERMS,
        "fetched": FETCHED,
        "alike": ALIKE,
        "enough": ENOUGH,
        "scored": max(SCORED, 2 * limit),
        "newest": NEWEST,
        "similar_weight": SIMILAR_WEIGHT,
        "length_weight": LENGTH_WEIGHT,
        "length_chars": LENGTH_CHARS,
        "limit": limit,
    }


async def _text_places(conn: Connection, words: TextQuery, query: MessageQuery, limit: int) -> list[Place]:
    """Rank messages by their words. One round trip."""
    async with conn.cursor(row_factory=class_row(Place)) as cur:
        await cur.execute(_TEXT_LEG, _text_values(words, query, limit), prepare=False)
        return await cur.fetchall()


# Nearly every message fits: the lateral reads come in order of distance and end with the last row that is asked for.
_NEAREST = f"""
    SELECT n.id AS row, (row_number() OVER ())::integer AS rank
    FROM (SELECT r.id
          FROM (SELECT v.message, v.embedding <=> %(vector)s::halfvec AS distance
                FROM unnest(%(conversations)s::bigint[]) AS c (id)
                CROSS JOIN LATERAL (
                    SELECT o.message, o.embedding FROM message_vectors o
                    WHERE o.conversation_id = c.id AND o.space_id = %(space)s
                    ORDER BY o.message DESC LIMIT %(newest)s
                ) AS v
                ORDER BY distance, v.message DESC
                OFFSET 0) AS v
          CROSS JOIN LATERAL (SELECT m.id FROM messages m WHERE m.id = v.message AND {_IN_SCOPE} LIMIT 1) AS r
          LIMIT %(limit)s) AS n
"""

# Few messages fit: those are found first.
_NEAREST_OF_FEW = f"""
    SELECT n.id AS row, (row_number() OVER ())::integer AS rank
    FROM (SELECT f.id
          FROM (SELECT m.id, v.embedding <=> %(vector)s::halfvec AS distance
                FROM messages m
                JOIN message_vectors v ON v.message = m.id AND v.space_id = %(space)s
                WHERE m.conversation_id = ANY(%(conversations)s::bigint[]) AND {_IN_SCOPE}
                ORDER BY m.id DESC LIMIT %(newest)s) AS f
          ORDER BY f.distance, f.id DESC
          LIMIT %(limit)s) AS n
"""


async def _vector_places(conn: Connection, vector: Vector, query: MessageQuery, limit: int) -> list[Place]:
    """Rank messages by their vectors. One round trip."""
    values: dict[str, _Value] = {
        **_scope_values(query),
        "vector": vector_literal(vector.values),
        "space": vector.space_id,
        "newest": NEWEST,
        "limit": limit,
    }
    async with conn.cursor(row_factory=class_row(Place)) as cur:
        narrow = bool(query.sender_ids) or query.when is not None
        await cur.execute(_NEAREST_OF_FEW if narrow else _NEAREST, values, prepare=False)
        return await cur.fetchall()


async def _listed(database: Database, query: MessageQuery) -> list[int]:
    """The newest messages that fit the filters."""
    async with database.connection() as conn, conn.cursor(row_factory=scalar_row) as cur:
        await cur.execute(
            f"""
            SELECT m.id
            FROM messages m
            WHERE m.conversation_id = ANY(%(conversations)s::bigint[]) AND {_IN_SCOPE}
            ORDER BY m.sent_at DESC, m.id DESC
            LIMIT %(limit)s OFFSET %(offset)s
            """,
            {**_scope_values(query), "limit": query.limit, "offset": query.offset},
            prepare=False,
        )
        return await cur.fetchall()


@dataclass(frozen=True, slots=True)
class _Shown(Line):
    """A line, the hit it belongs to and on which side of it: -1 before, 0 the hit itself, 1 after."""

    id: MessageRow
    conversation_id: ConversationId
    hit: MessageRow
    side: int


async def _lines(conn: Connection, rows: Sequence[int], before_pos: int | None) -> list[_Shown]:
    """Read hits and what stands around them, hit by hit in reading order."""
    async with conn.cursor(row_factory=class_row(_Shown)) as cur:
        await cur.execute(
            """
            SELECT m.id, m.conversation_id, h.id AS hit, a.side, m.pos, m.real_seq, m.sender_id, m.sender_name,
                   p.no AS member_no, coalesce(p.role, 'unknown') AS role, coalesce(p.title, '') AS title, m.is_self,
                   m.is_robot OR coalesce(p.is_robot, false) AS is_robot, m.body, m.quote_name, m.quote_text,
                   q.pos AS quoted_pos, q.withdrawn_at IS NOT NULL AS quote_withdrawn, m.sent_at
            FROM unnest(%(rows)s::bigint[]) WITH ORDINALITY AS w (id, place)
            JOIN messages h ON h.id = w.id AND h.withdrawn_at IS NULL AND NOT h.is_command
            CROSS JOIN LATERAL (
                (SELECT b.id, -1 AS side FROM messages b
                 WHERE b.conversation_id = h.conversation_id AND b.pos < h.pos AND b.withdrawn_at IS NULL AND NOT b.is_command
                 ORDER BY b.pos DESC LIMIT %(around)s)
                UNION ALL
                SELECT h.id, 0
                UNION ALL
                (SELECT f.id, 1 FROM messages f
                 WHERE f.conversation_id = h.conversation_id AND f.pos > h.pos AND f.withdrawn_at IS NULL AND NOT f.is_command
                   AND (%(before)s::bigint IS NULL OR f.pos < %(before)s::bigint)
                 ORDER BY f.pos LIMIT %(around)s)
            ) AS a
            JOIN messages m ON m.id = a.id
            LEFT JOIN members p ON p.conversation_id = m.conversation_id AND p.user_id = m.sender_id
            LEFT JOIN messages q ON q.id = m.quoted_id
            ORDER BY w.place, m.pos
            """,
            {"rows": list(rows), "before": before_pos, "around": AROUND},
        )
        return await cur.fetchall()


def _with_neighbours(fused: Sequence[Fused], lines: Sequence[_Shown]) -> list[MessageHit]:
    """Put hits together; the best hit keeps a line that several could show."""
    found = {line.hit: line for line in lines if line.side == 0}
    shown: set[MessageRow] = set(found)
    hits: list[MessageHit] = []
    for place in fused:
        line = found.get(MessageRow(place.row))
        if line is None:
            continue
        around = [item for item in lines if item.hit == line.id and item.id not in shown]
        shown.update(item.id for item in around)
        before = tuple(item for item in around if item.side < 0)
        after = tuple(item for item in around if item.side > 0)
        hits.append(
            MessageHit(line.conversation_id, line.id, line, place.score, place.text_rank, place.vector_rank, before, after)
        )
    return hits
