"""Moving what belongs to one slang row to another, and back: evidence and spellings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from psycopg.rows import scalar_row

from db.learned_models import SlangId
from db.pool import Connection
from db.slang import Slang


@dataclass(frozen=True, slots=True)
class Moved:
    """What went from one row to another when they were merged: messages, spellings, and rows merged into it before."""

    evidence: list[int]
    spellings: list[str]
    merged: list[int]


async def move(conn: Connection, row: Slang, target: Slang) -> Moved:
    """Move the evidence and the spellings of a row to another."""
    ids = {"id": row.id, "into": target.id}
    async with conn.cursor(row_factory=scalar_row) as cur:
        await cur.execute(
            """
            WITH moved AS (
                INSERT INTO slang_evidence (slang_id, message)
                SELECT %(into)s, e.message FROM slang_evidence e WHERE e.slang_id = %(id)s
                ON CONFLICT DO NOTHING
                RETURNING message
            )
            DELETE FROM slang_evidence e USING moved m WHERE e.slang_id = %(id)s AND e.message = m.message
            RETURNING e.message
            """,
            ids,
        )
        evidence = await cur.fetchall()
        await cur.execute(
            """
            UPDATE slang_variants SET slang_id = %(into)s
            WHERE slang_id = %(id)s AND variant_key <> %(key)s
            RETURNING variant_key
            """,
            {**ids, "key": target.term_key},
        )
        spellings = await cur.fetchall()
    await conn.execute(
        """
        INSERT INTO slang_variants (conversation_id, variant_key, variant, slang_id)
        VALUES (%(conversation)s, %(key)s, %(term)s, %(into)s)
        ON CONFLICT DO NOTHING
        """,
        {"conversation": row.conversation_id, "key": row.term_key, "term": row.term, "into": target.id},
    )
    async with conn.cursor(row_factory=scalar_row) as cur:
        await cur.execute("UPDATE slang SET merged_into = %(into)s WHERE merged_into = %(id)s RETURNING id", ids)
        merged = await cur.fetchall()
    return Moved(sorted(evidence), sorted(spellings), sorted(merged))


async def move_back(conn: Connection, row: Slang, moved: Moved) -> None:
    """Give a row back what a merge moved; messages that are gone stay gone."""
    values = {
        "id": row.id,
        "into": row.merged_into,
        "evidence": moved.evidence,
        "spellings": moved.spellings,
        "merged": moved.merged,
    }
    await conn.execute(
        """
        WITH back AS (
            DELETE FROM slang_evidence WHERE slang_id = %(into)s AND message = ANY(%(evidence)s::bigint[]) RETURNING message
        )
        INSERT INTO slang_evidence (slang_id, message) SELECT %(id)s, message FROM back ON CONFLICT DO NOTHING
        """,
        values,
    )
    await conn.execute(
        "UPDATE slang_variants SET slang_id = %(id)s WHERE slang_id = %(into)s AND variant_key = ANY(%(spellings)s::text[])",
        values,
    )
    await conn.execute(
        "UPDATE slang SET merged_into = %(id)s WHERE merged_into = %(into)s AND id = ANY(%(merged)s::bigint[])", values
    )


async def is_target(conn: Connection, slang_id: SlangId) -> bool:
    """Tell whether a row was merged into this one."""
    cur = await conn.execute("SELECT FROM slang WHERE merged_into = %(id)s LIMIT 1", {"id": slang_id})
    return await cur.fetchone() is not None


async def unspell(conn: Connection, slang_id: SlangId, keys: Sequence[str]) -> None:
    """Take spellings (keys) from a row."""
    await conn.execute(
        "DELETE FROM slang_variants WHERE slang_id = %(id)s AND variant_key = ANY(%(keys)s)", {"id": slang_id, "keys": list(keys)}
    )
