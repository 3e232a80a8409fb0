"""Made-up histories in a real database, and the learner that mines them: only the task that needs no model."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from psycopg.rows import scalar_row

from bench.data.groups import FIRST_GROUP, Person
from bench.data.history import Sent
from bench.process import scratch
from db.migrate import migrate
from db.models import ConversationId
from db.pool import Connection, Database
from db.searchtext import search_text
from db.server import EmbeddedServer
from db.slang_terms import term_key
from learner.service import Crew, Learner
from learner.terms import TermsTask
from settings import Settings


class NoModels:
    """Stands where the models would: the demo, which never answers the learner."""

    is_demo = True

    async def learner_left(self, conversation_id: ConversationId) -> int:
        """Tokens are not what is missing."""
        return 1

    async def usage_written(self) -> bool:
        """There is none."""
        return True


@asynccontextmanager
async def fresh_server() -> AsyncGenerator[str]:
    """Start a server of its own, migrated; gives its URL."""
    with scratch() as folder:
        server = await asyncio.to_thread(EmbeddedServer.start, Path(folder))
        try:
            await migrate(server.url)
            yield server.url
        finally:
            await asyncio.to_thread(server.stop)


@asynccontextmanager
async def opened(url: str) -> AsyncGenerator[Database]:
    """Open a database."""
    database = Database(url)
    await database.open()
    try:
        yield database
    finally:
        await database.close()


def miner(database: Database) -> Learner:
    """Make a learner that only mines."""
    settings = Settings.model_validate({})
    return Learner(database, NoModels(), Crew([TermsTask(database, settings)]), settings)


async def store(conn: Connection, number: int, people: Sequence[Person], messages: Sequence[Sent]) -> ConversationId:
    """Write a group with its members and messages."""
    async with conn.cursor(row_factory=scalar_row) as cur:
        await cur.execute(
            """
            INSERT INTO conversations (kind, target_id, name, last_pos, watermark, last_no)
            VALUES ('group', %(target)s, %(name)s, %(last)s, %(last)s, %(people)s)
            RETURNING id
            """,
            {"target": FIRST_GROUP + number, "name": f"测试群{number}", "last": len(messages), "people": len(people)},
        )
        conversation = ConversationId(int(str(await cur.fetchone())))
        async with cur.copy("COPY members (conversation_id, user_id, no, nickname, card, role) FROM STDIN") as copy:
            for no, person in enumerate(people, 1):
                await copy.write_row((conversation, person.user_id, no, person.nickname, person.card, person.role))
        statement = """
            COPY messages (conversation_id, pos, real_seq, sender_id, sender_name, text, body, search, sent_at, stored_at)
            FROM STDIN
        """
        async with cur.copy(statement) as copy:
            for pos, sent in enumerate(messages, 1):
                name = sent.person.card or sent.person.nickname
                row = (conversation, pos, pos, sent.person.user_id, name, sent.text, sent.text, search_text(sent.text))
                await copy.write_row((*row, sent.at, sent.at))
    return conversation


async def reject(conn: Connection, conversation: ConversationId, term: str) -> None:
    """Let a person have rejected a term."""
    await conn.execute(
        """
        INSERT INTO slang (conversation_id, term, term_key, status, decided_by, source)
        VALUES (%(conversation)s, %(term)s, %(key)s, 'rejected', 'api', 'person')
        """,
        {"conversation": conversation, "term": term, "key": term_key(term)},
    )


async def candidates(conn: Connection, conversation: ConversationId) -> list[list[str]]:
    """List the candidates as a moderator sees them, best first: the keys of each one's spellings."""
    async with conn.cursor(row_factory=scalar_row) as cur:
        await cur.execute(
            """
            SELECT s.term_key || ARRAY(SELECT v.variant_key FROM slang_variants v WHERE v.slang_id = s.id)
            FROM slang s
            WHERE s.conversation_id = %(conversation)s AND s.status = 'candidate'
            ORDER BY s.score DESC, s.occurrences DESC, s.id
            """,
            {"conversation": conversation},
        )
        return await cur.fetchall()
