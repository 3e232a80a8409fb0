"""How common words are: counted now and then over a sample, so that rare words tell more than common ones."""

from __future__ import annotations

from db.pool import Connection

SAMPLE_ROWS = 20_000
"""Newest memories and newest messages that are counted, so many of each: a young bot has few memories to learn words from."""
COUNT_SECONDS = 120


async def count_terms(conn: Connection) -> None:
    """Count anew in how many texts each word stands, and each letter of scripts without spaces, inside words or alone.

    Replaces what was counted before, in one transaction. What only one text holds is left out: unknown is that rare.
    """
    async with conn.transaction():
        await conn.execute("SELECT set_config('statement_timeout', %(limit)s, true)", {"limit": f"{COUNT_SECONDS}s"})
        await conn.execute("LOCK TABLE search_terms IN SHARE ROW EXCLUSIVE MODE")
        await conn.execute(
            """
            WITH sample AS MATERIALIZED (
                (SELECT m.search FROM memories m WHERE m.status = 'active' ORDER BY m.id DESC LIMIT %(rows)s)
                UNION ALL
                (SELECT m.search FROM messages m WHERE m.search <> '' ORDER BY m.id DESC LIMIT %(rows)s)
            ), counted AS (
                SELECT w.term, count(*) AS df
                FROM sample s
                CROSS JOIN LATERAL (
                    SELECT unnest(string_to_array(trim(s.search), ' ')) AS term
                    UNION
                    SELECT l.letter FROM unnest(string_to_array(s.search, NULL)) AS l (letter) WHERE ascii(l.letter) >= 11904
                ) AS w
                WHERE w.term <> ''
                GROUP BY w.term
                HAVING count(*) > 1
            ), gone AS (
                DELETE FROM search_terms t WHERE NOT EXISTS (SELECT FROM counted c WHERE c.term = t.term)
            ), kept AS (
                INSERT INTO search_terms (term, df)
                SELECT c.term, c.df FROM counted c
                ON CONFLICT (term) DO UPDATE SET df = excluded.df WHERE search_terms.df <> excluded.df
            )
            INSERT INTO search_stats (documents)
            SELECT count(*) FROM sample
            ON CONFLICT (one) DO UPDATE SET documents = excluded.documents, counted_at = now()
            """,
            {"rows": SAMPLE_ROWS},
        )
