"""One conversation of memories for measuring what recall finds, and the same texts as the plain recipe keeps them."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from psycopg.rows import scalar_row

from bench.process import scratch
from db.memory_import import ImportRow, import_many
from db.memory_models import GROUP, Ask, MemoryId, Scope, Subject, Vector, Wish
from db.migrate import migrate
from db.models import ConversationId
from db.pool import Database
from db.recall import recall
from db.search_terms import count_terms
from db.searchtext import content_key
from db.server import EmbeddedServer

PIECE = 1_000
FIRST_MEMBER = 5_000_000_001


@dataclass(frozen=True, slots=True)
class Rows:
    """Stored texts. ``ids`` are their memories, in the order of the texts; a ranking gives the places of texts there."""

    database: Database
    conversation: ConversationId
    ids: Sequence[MemoryId]
    places: dict[MemoryId, int]

    async def ours(self, text: str, vector: Vector | None, limit: int) -> list[int]:
        """Recall as the bot does, without the prior. An empty text leaves the words out."""
        found = await recall(self.database, [Ask(text, vector)], Scope((self.conversation,)), Wish(limit, prior=False))
        return [self.places[one.memory.id] for one in found]

    async def raw(self, text: str, threshold: float, limit: int) -> list[int]:
        """Ask pg_trgm over the texts as they are."""
        async with self.database.transaction() as conn, conn.cursor(row_factory=scalar_row) as cur:
            await cur.execute(
                "SELECT set_config('pg_trgm.word_similarity_threshold', %(threshold)s, true)", {"threshold": str(threshold)}
            )
            await cur.execute(
                """
                SELECT place
                FROM raw_texts
                WHERE %(text)s <%% content
                ORDER BY word_similarity(%(text)s, content) DESC, place
                LIMIT %(limit)s
                """,
                {"text": text, "limit": limit},
            )
            return [int(str(place)) for place in await cur.fetchall()]


@asynccontextmanager
async def stored(texts: Sequence[str]) -> AsyncGenerator[Rows]:
    """Store texts in a new database, as an import would, and count their words."""
    with scratch() as folder:
        server = await asyncio.to_thread(EmbeddedServer.start, Path(folder))
        try:
            await migrate(server.url)
            database = Database(server.url)
            await database.open()
            try:
                yield await _store(database, texts)
            finally:
                await database.close()
        finally:
            await asyncio.to_thread(server.stop)


async def _store(database: Database, texts: Sequence[str]) -> Rows:
    async with database.connection() as conn, conn.cursor(row_factory=scalar_row) as cur:
        await cur.execute("INSERT INTO conversations (kind, target_id) VALUES ('group', 5700000001) RETURNING id")
        conversation = ConversationId(int(str(await cur.fetchone())))
    ids: list[MemoryId] = []
    rows = _import_rows(conversation, texts)
    for start in range(0, len(rows), PIECE):
        async with database.transaction() as conn:
            imported = await import_many(conn, rows[start : start + PIECE])
        ids += sorted(imported.ids)
    if len(ids) != len(texts):
        raise ValueError(f"存了 {len(texts)} 句，却有 {len(ids)} 条记忆")
    async with database.connection() as conn:
        await count_terms(conn)
        await conn.execute("CREATE TABLE raw_texts (place integer PRIMARY KEY, content text NOT NULL)")
        async with conn.cursor() as cur, cur.copy("COPY raw_texts (place, content) FROM STDIN") as copy:
            for place, text in enumerate(texts):
                await copy.write_row((place, text))
        await conn.execute("CREATE INDEX raw_texts_content ON raw_texts USING gin (content gin_trgm_ops)")
        await conn.execute("VACUUM ANALYZE raw_texts, memories")
    return Rows(database, conversation, ids, {memory: place for place, memory in enumerate(ids)})


def _import_rows(conversation: ConversationId, texts: Sequence[str]) -> list[ImportRow]:
    """A sentence that stands twice is about somebody else the second time: a claim is stored once a subject."""
    seen: Counter[str] = Counter()
    rows: list[ImportRow] = []
    for text in texts:
        again = seen[key := content_key(text)]
        seen[key] += 1
        subject = Subject("member", FIRST_MEMBER + again) if again else GROUP
        rows.append(ImportRow(conversation, subject, "fact", text))
    return rows
