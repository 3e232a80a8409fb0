"""The plain recipe beside ours: what one writes from the manuals of pg_trgm and pgvector, with every default.

Text as it is under ``gin_trgm_ops`` and found by ``%``; one HNSW index over all vectors; filters where they are written, so
applied to what the index gives; both rankings fused by reciprocal rank.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from psycopg.rows import scalar_row

from db.fusion import Place, fuse
from db.memory_models import Ask, Scope
from db.pool import Connection, Database
from db.vectors import vector_literal

PER_LEG = 30
_WHERE = """
    conversation_id = ANY(%(conversations)s::bigint[])
    AND (%(anyone)s OR subject_id = ANY(%(members)s::bigint[]))
    AND (%(any_kind)s OR kind = ANY(%(kinds)s::text[]))
    AND status = ANY(%(statuses)s::text[])
"""


async def build_plain(conn: Connection) -> None:
    """Copy the memories into a table as the plain recipe has it, with its two indexes."""
    await conn.execute(
        """
        CREATE TABLE plain AS
        SELECT id, conversation_id, subject_id, kind, status, content, embedding::vector(384) AS embedding FROM memories
        """
    )
    await conn.execute("ALTER TABLE plain ADD PRIMARY KEY (id)")
    await conn.execute("CREATE INDEX plain_conversation ON plain (conversation_id)")
    await conn.execute("SET maintenance_work_mem = '512MB'")
    await conn.execute("CREATE INDEX plain_text ON plain USING gin (content gin_trgm_ops)")
    await conn.execute("CREATE INDEX plain_vector ON plain USING hnsw (embedding vector_cosine_ops)")
    await conn.execute("RESET maintenance_work_mem")
    await conn.execute("VACUUM ANALYZE plain")


@dataclass(frozen=True, slots=True)
class Plain:
    """Asks the plain tables."""

    database: Database

    async def recall(self, ask: Ask, scope: Scope, limit: int) -> Sequence[int]:
        """Give the ids of what both rankings found, best first."""
        values = {
            "conversations": list(scope.conversation_ids),
            "anyone": scope.subjects is None,
            "members": [subject.user_id for subject in scope.subjects or ()],
            "any_kind": scope.kinds is None,
            "kinds": list(scope.kinds or ()),
            "statuses": list(scope.statuses),
            "text": ask.text,
            "vector": vector_literal(ask.vector.values) if ask.vector is not None else None,
            "limit": PER_LEG,
        }
        async with self.database.connection() as conn, conn.cursor(row_factory=scalar_row) as cur:
            await cur.execute(
                f"""
                SELECT id FROM plain
                WHERE {_WHERE} AND content %% %(text)s
                ORDER BY similarity(content, %(text)s) DESC
                LIMIT %(limit)s
                """,
                values,
            )
            text = [int(str(row)) for row in await cur.fetchall()]
            await cur.execute(
                f"""
                SELECT id FROM plain
                WHERE {_WHERE}
                ORDER BY embedding <=> %(vector)s::vector
                LIMIT %(limit)s
                """,
                values,
            )
            near = [int(str(row)) for row in await cur.fetchall()]
        return [one.row for one in fuse(_places(text), _places(near))][:limit]


def _places(rows: Sequence[int]) -> list[Place]:
    return [Place(row, rank) for rank, row in enumerate(rows, 1)]
