"""The text leg of recall: memories by their words.

Candidates are the rows that hold one of a question's rarest words, found by LIKE through the trigram index; with few of
them, also rows that are like the question (``<%``). They are ranked by how many of the question's words and letters they
hold, each by its rarity. Seen at 100,000 rows in one conversation: by ``<%`` alone a question takes 60 to 450 ms, since
every row that the index gives is compared letter by letter; this way it takes a tenth of that, and finds more.
"""

from __future__ import annotations

from collections.abc import Sequence

from psycopg.rows import class_row

from db.fusion import Place
from db.memory_models import Scope
from db.pool import Connection
from db.recall_scope import IN_SCOPE, ScopeValue, scope_values
from db.text_query import ArrayValue, TextQuery, arrays

RAREST = 16
"""Words of a question that fetch candidates, rarest first."""
FETCHED = 800
"""Rows with which fetching ends: what bounds the cost of common words. Rare words are fetched in full."""
ENOUGH = 30
"""With so many rows that hold a word exactly, nothing similar is looked for."""
ALIKE = 200
"""Rows that are fetched for being similar."""
SCORED = 150
"""Candidates of one question that are scored."""
TERMS = 96
"""Rarest terms of a question that count in the score."""
LETTER_ROWS = 20_000
"""Rows of which the ends of words are read for a question of one letter."""
MOST_NAMED = 20
"""Members whose names one question may hold, longest names first."""
NAMED_ROWS = 50
"""Newest memories of a member whose name the question holds."""
SIMILAR_WEIGHT = 0.5
"""Word similarity of rows that do not hold the words exactly; holding every term is 1."""
NAMED_WEIGHT = 0.5
"""What being about a member counts whose name the question holds."""
LENGTH_WEIGHT = 0.05
LENGTH_CHARS = 100
"""A text is worth a little less for each LENGTH_CHARS of search text."""

_HERE = f"ARRAY[m.conversation_id] && %(conversations)s::bigint[] AND {IN_SCOPE}"

TEXT_LEG = f"""
    WITH RECURSIVE asked AS MATERIALIZED (
        SELECT * FROM unnest(%(asks)s::integer[], %(folded)s::text[], %(raw)s::text[]) AS a (ask, folded, raw)
    ), terms AS MATERIALIZED (
        SELECT u.ask, u.term, u.needle, u.is_word, u.weight * ln(1 + s.documents / (1 + coalesce(t.df, 0))) AS weight,
               row_number() OVER (PARTITION BY u.ask, u.is_word ORDER BY coalesce(t.df, 0), u.place) AS rarity
        FROM unnest(%(term_asks)s::integer[], %(terms)s::text[], %(needles)s::text[], %(weights)s::float8[],
                    %(are_words)s::boolean[]) WITH ORDINALITY AS u (ask, term, needle, weight, is_word, place)
        CROSS JOIN (SELECT coalesce(max(documents), 1)::float8 AS documents FROM search_stats) AS s
        LEFT JOIN search_terms t ON t.term = u.term
    ), fetched AS (
        SELECT a.ask, 0::bigint AS rarity, '' AS term, 0::float8 AS weight, ARRAY[]::bigint[] AS ids, 0 AS total FROM asked a
        UNION ALL
        SELECT f.ask, t.rarity, t.term, t.weight, r.ids, f.total + cardinality(r.ids)
        FROM fetched f
        JOIN terms t ON t.ask = f.ask AND t.is_word AND t.rarity = f.rarity + 1
        CROSS JOIN LATERAL (
            SELECT coalesce(array_agg(h.id), ARRAY[]::bigint[]) AS ids
            FROM (SELECT m.id FROM memories m WHERE {_HERE} AND m.search LIKE '%%' || t.needle || '%%'
                  LIMIT %(fetched)s - f.total) AS h
        ) AS r
        WHERE f.total < %(fetched)s AND f.rarity < %(rarest)s
    ), exact AS MATERIALIZED (
        SELECT f.ask, f.term, f.weight, unnest(f.ids) AS id FROM fetched f
    ), alike AS MATERIALIZED (
        SELECT f.ask, r.id, max(word_similarity(f.text, r.search)) AS similarity
        FROM unnest(%(fuzzy_asks)s::integer[], %(fuzzy)s::text[]) AS f (ask, text)
        CROSS JOIN LATERAL (
            SELECT m.id, m.search FROM memories m WHERE {_HERE} AND f.text <%% m.search LIMIT %(alike)s
        ) AS r
        WHERE (SELECT count(*) FROM exact e WHERE e.ask = f.ask AND strpos(f.text, e.term) > 0) < %(enough)s
        GROUP BY f.ask, r.id
    ), begun AS MATERIALIZED (
        SELECT l.ask, l.letter, r.id
        FROM unnest(%(letter_asks)s::integer[], %(letters)s::text[]) AS l (ask, letter)
        CROSS JOIN LATERAL (
            SELECT m.id FROM memories m WHERE {_HERE} AND m.search LIKE '%% ' || l.letter || '%%' LIMIT %(fetched)s
        ) AS r
    ), ended AS (
        SELECT l.ask, r.id
        FROM unnest(%(letter_asks)s::integer[], %(letters)s::text[]) AS l (ask, letter)
        CROSS JOIN LATERAL (SELECT m.id, m.search FROM memories m WHERE {_HERE} LIMIT %(letter_rows)s) AS r
        WHERE r.search LIKE '%%' || l.letter || ' %%'
          AND (SELECT count(*) FROM begun b WHERE b.ask = l.ask) < %(enough)s
    ), letters AS (
        SELECT DISTINCT a.ask, unnest(string_to_array(a.folded || lower(a.raw), NULL)) AS letter FROM asked a
    ), named AS MATERIALIZED (
        SELECT f.ask, f.user_id
        FROM (SELECT a.ask, n.user_id, row_number() OVER (PARTITION BY a.ask ORDER BY max(length(n.name)) DESC, n.user_id) AS no
              FROM (SELECT k.user_id, k.name FROM member_names k WHERE k.conversation_id = ANY(%(conversations)s::bigint[])
                    UNION ALL
                    SELECT p.user_id, p.nickname FROM members p WHERE p.conversation_id = ANY(%(conversations)s::bigint[])) AS n
              JOIN letters l ON l.letter = lower(left(n.name, 1))
              JOIN asked a ON a.ask = l.ask
              WHERE CASE WHEN length(n.name) >= 2
                         THEN strpos(lower(a.raw), lower(n.name)) > 0 OR strpos(a.folded, lower(n.name)) > 0
                         ELSE n.name IN (a.raw, a.folded) END
              GROUP BY a.ask, n.user_id) AS f
        WHERE f.no <= %(most_named)s
    ), about AS (
        SELECT n.ask, r.id
        FROM named n
        CROSS JOIN LATERAL (
            SELECT m.id
            FROM memories m
            WHERE m.conversation_id = ANY(%(conversations)s::bigint[]) AND m.subject_kind = 'member'
              AND m.subject_id = n.user_id AND {IN_SCOPE}
            ORDER BY m.id DESC
            LIMIT %(named_rows)s
        ) AS r
    ), candidates AS (
        SELECT c.ask, c.id, max(c.similarity) AS similarity,
               row_number() OVER (PARTITION BY c.ask ORDER BY sum(c.weight) DESC, c.id DESC) AS no
        FROM (SELECT e.ask, e.id, e.weight, 0 AS similarity FROM exact e
              UNION ALL SELECT a.ask, a.id, 1, a.similarity FROM alike a
              UNION ALL SELECT b.ask, b.id, 1, 0 FROM begun b
              UNION ALL SELECT e.ask, e.id, 1, 0 FROM ended e
              UNION ALL SELECT a.ask, a.id, 1, 0 FROM about a) AS c
        GROUP BY c.ask, c.id
    ), scored AS (
        SELECT c.ask, c.id,
               coalesce(h.held, 0) / (1 + %(length_weight)s * char_length(m.search) / %(length_chars)s)
               + %(similar_weight)s * c.similarity
               + CASE WHEN EXISTS (SELECT FROM named n WHERE n.ask = c.ask AND n.user_id = m.subject_id)
                      THEN %(named_weight)s ELSE 0 END AS score
        FROM candidates c
        JOIN memories m ON m.id = c.id
        CROSS JOIN LATERAL (
            SELECT sum(t.weight) FILTER (WHERE strpos(m.search, t.needle) > 0) / sum(t.weight) AS held
            FROM terms t
            WHERE t.ask = c.ask AND t.rarity <= %(counted)s
        ) AS h
        WHERE c.no <= %(scored)s
    )
    SELECT r.id AS row, r.rank::integer, r.ask, r.score AS strength
    FROM (SELECT s.id, s.ask, s.score, row_number() OVER (PARTITION BY s.ask ORDER BY s.score DESC, s.id DESC) AS rank
          FROM scored s) AS r
    WHERE r.rank <= %(limit)s
    ORDER BY r.ask, r.rank
"""

TextValue = ArrayValue | ScopeValue | int | float


async def text_places(conn: Connection, queries: Sequence[TextQuery], scope: Scope, limit: int) -> list[Place]:
    """Rank memories by their words, ``limit`` for each question. One round trip."""
    async with conn.cursor(row_factory=class_row(Place)) as cur:
        # Planning takes longer than most of these searches, and the plan does not depend on what is asked.
        await cur.execute(TEXT_LEG, text_values(queries, scope, limit), prepare=True)
        return await cur.fetchall()


def text_values(queries: Sequence[TextQuery], scope: Scope, limit: int) -> dict[str, TextValue]:
    """Give the parameters of TEXT_LEG."""
    return {
        **arrays(queries),
        **scope_values(scope),
        "rarest": RAREST,
        "fetched": FETCHED,
        "enough": ENOUGH,
        "alike": ALIKE,
        "scored": max(SCORED, 2 * limit),
        "counted": TERMS,
        "letter_rows": LETTER_ROWS,
        "most_named": MOST_NAMED,
        "named_rows": NAMED_ROWS,
        "similar_weight": SIMILAR_WEIGHT,
        "named_weight": NAMED_WEIGHT,
        "length_weight": LENGTH_WEIGHT,
        "length_chars": LENGTH_CHARS,
        "limit": limit,
    }
