"""The text leg of recall: memories by their words.

Candidates are the rows that hold one of a question's rarest words, found by LIKE through the trigram index; with few of
them, also rows that are like the question (``<%``). They are ranked by how much of the question's rare words they hold
and by word similarity.
"""

from __future__ import annotations

from collections.abc import Sequence

from psycopg.rows import class_row

from db.fusion import Place
from db.memory_models import Scope
from db.pool import Connection
from db.recall_scope import IN_SCOPE, scope_values, set_leg
from db.text_query import FUZZY_THRESHOLD, TextQuery, arrays

RAREST = 10
"""Words of a question that fetch candidates."""
WEIGHED = 32
"""Rarest words of a question that count in the score."""
FETCHED = 4_000
"""Rows that the words of one question fetch together: what bounds the cost of common words."""
ENOUGH = 30
"""With so many rows that hold a word exactly, nothing similar is looked for."""
SCORED = 100
"""Candidates of one question that are scored in full."""
LETTER_ROWS = 20_000
"""Rows of which the ends of words are read for a question of one letter."""
NAMED_ROWS = 50
"""Newest memories of a member whose name the question holds."""
SIMILAR_WEIGHT = 0.5
"""Word similarity beside coverage, which weighs 1."""
NAMED_WEIGHT = 0.5
"""What being about a member counts whose name the question holds."""

_ROWS = f"""
    SELECT m.id
    FROM memories m
    WHERE ARRAY[m.conversation_id] && %(conversations)s::bigint[] AND {IN_SCOPE}
"""

_TEXT_LEG = f"""
    WITH asked AS MATERIALIZED (
        SELECT * FROM unnest(%(asks)s::integer[], %(texts)s::text[], %(plains)s::text[], %(raws)s::text[])
                      AS a (ask, text, plain, raw)
    ), words AS MATERIALIZED (
        SELECT u.ask, u.word, ln(1 + s.documents / (1.0 + coalesce(t.df, 0)))::float8 AS weight,
               row_number() OVER (PARTITION BY u.ask ORDER BY coalesce(t.df, 0), u.place) AS rarity,
               least(count(*) OVER (PARTITION BY u.ask), %(rarest)s) AS fetching
        FROM unnest(%(word_asks)s::integer[], %(words)s::text[]) WITH ORDINALITY AS u (ask, word, place)
        CROSS JOIN (SELECT coalesce(max(documents), 1)::float8 AS documents FROM search_stats) AS s
        LEFT JOIN search_terms t ON t.term = u.word
    ), exact AS MATERIALIZED (
        SELECT w.ask, w.word, w.weight, r.id
        FROM words w
        CROSS JOIN LATERAL ({_ROWS} AND m.search LIKE '%% ' || w.word || ' %%' LIMIT %(fetched)s / w.fetching) AS r
        WHERE w.rarity <= %(rarest)s
    ), alike AS MATERIALIZED (
        SELECT f.ask, r.id
        FROM unnest(%(fuzzy_asks)s::integer[], %(fuzzy)s::text[]) AS f (ask, text)
        CROSS JOIN LATERAL ({_ROWS} AND f.text <%% m.search LIMIT %(fetched)s / 10) AS r
        WHERE (SELECT count(*) FROM exact e WHERE e.ask = f.ask AND strpos(f.text, e.word) > 0) < %(enough)s
    ), inside AS (
        SELECT l.ask, r.id
        FROM unnest(%(letter_asks)s::integer[], %(letters)s::text[]) AS l (ask, letter)
        CROSS JOIN LATERAL (
            ({_ROWS} AND m.search LIKE '%% ' || l.letter || '%%' LIMIT %(fetched)s)
            UNION
            SELECT n.id FROM ({_ROWS.replace("m.id", "m.id, m.search")} LIMIT %(letter_rows)s) AS n
            WHERE n.search LIKE '%%' || l.letter || ' %%'
        ) AS r
    ), named AS (
        SELECT DISTINCT a.ask, n.user_id
        FROM asked a
        CROSS JOIN (
            SELECT p.user_id, unnest(ARRAY[p.card, p.nickname]) AS name
            FROM members p
            WHERE p.conversation_id = ANY(%(conversations)s::bigint[])
            UNION
            SELECT k.user_id, k.name FROM member_names k WHERE k.conversation_id = ANY(%(conversations)s::bigint[])
        ) AS n
        WHERE CASE WHEN char_length(n.name) >= 2 THEN strpos(a.raw, n.name) > 0 OR strpos(a.plain, lower(n.name)) > 0
                   ELSE n.name IN (a.raw, a.plain) END
    ), about AS (
        SELECT n.ask, r.id
        FROM named n
        CROSS JOIN LATERAL (
            {_ROWS} AND m.subject_kind = 'member' AND m.subject_id = n.user_id ORDER BY m.id DESC LIMIT %(named_rows)s
        ) AS r
    ), candidates AS (
        SELECT c.ask, c.id, row_number() OVER (PARTITION BY c.ask ORDER BY sum(c.weight) DESC, c.id DESC) AS no
        FROM (SELECT ask, id, weight FROM exact
              UNION ALL SELECT ask, id, 1.0 FROM alike
              UNION ALL SELECT ask, id, 1.0 FROM inside
              UNION ALL SELECT ask, id, 1.0 FROM about) AS c
        GROUP BY c.ask, c.id
    ), scored AS (
        SELECT c.ask, c.id,
               coalesce(h.weight, 0) / nullif(a.weight, 0)
               + %(similar_weight)s * word_similarity(q.text, m.search)
               + CASE WHEN n.ask IS NULL THEN 0 ELSE %(named_weight)s END AS score, char_length(m.search) AS size
        FROM candidates c
        JOIN memories m ON m.id = c.id
        JOIN asked q ON q.ask = c.ask
        JOIN (SELECT w.ask, sum(w.weight) AS weight FROM words w WHERE w.rarity <= %(weighed)s GROUP BY w.ask) AS a
          ON a.ask = c.ask
        CROSS JOIN LATERAL (
            SELECT sum(w.weight) AS weight FROM words w
            WHERE w.ask = c.ask AND w.rarity <= %(weighed)s AND m.search LIKE '%% ' || w.word || ' %%'
        ) AS h
        LEFT JOIN named n ON n.ask = c.ask AND m.subject_kind = 'member' AND n.user_id = m.subject_id
        WHERE c.no <= %(scored)s
    )
    SELECT r.id AS row, r.rank::integer
    FROM (SELECT s.id, s.ask, row_number() OVER (PARTITION BY s.ask ORDER BY s.score DESC, s.size, s.id DESC) AS rank
          FROM scored s) AS r
    WHERE r.rank <= %(limit)s
    ORDER BY r.ask, r.rank
"""


async def text_places(conn: Connection, queries: Sequence[TextQuery], scope: Scope, limit: int) -> list[Place]:
    """Rank memories by their words, ``limit`` for each question. One round trip, in a transaction of its own."""
    values = {
        **arrays(queries),
        **scope_values(scope),
        "rarest": RAREST,
        "weighed": WEIGHED,
        "fetched": FETCHED,
        "enough": ENOUGH,
        "scored": max(SCORED, 2 * limit),
        "letter_rows": LETTER_ROWS,
        "named_rows": NAMED_ROWS,
        "similar_weight": SIMILAR_WEIGHT,
        "named_weight": NAMED_WEIGHT,
        "limit": limit,
    }
    async with conn.cursor(row_factory=class_row(Place)) as cur:
        async with conn.pipeline(), conn.transaction():
            await set_leg(conn)
            await conn.execute(
                "SELECT set_config('pg_trgm.word_similarity_threshold', %(threshold)s, true)",
                {"threshold": str(FUZZY_THRESHOLD)},
                prepare=False,
            )
            await cur.execute(_TEXT_LEG, values, prepare=False)
        return await cur.fetchall()
