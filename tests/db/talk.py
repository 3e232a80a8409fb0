"""A group whose messages are stored as the bot stores them, with vectors that tests choose."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from db import conversations, embeddings, ingest, withdraw
from db.conversations import KnownConversation
from db.memory_models import Vector
from db.message_search import MessageHit, MessageQuery, search_messages
from db.models import ConversationId, ConversationKey, MessageRow
from db.pool import Database
from db.sightings import NewMessage
from db.vectors import vector_literal

BOT, MING, WEI, WANG, ROBOT = 5000000001, 5000000011, 5000000012, 5000000013, 5000000080
GROUP, GROUP2 = 5700000001, 5700000002
NAMES = {BOT: "小满", MING: "小明", WEI: "阿伟", WANG: "老王", ROBOT: "群管家"}
START = datetime(2026, 11, 25, 10, 0, tzinfo=UTC)


class Talk:
    """One group. Messages are a minute apart; the first has position 1."""

    def __init__(self, database: Database, group: int = GROUP) -> None:
        self.database = database
        self.key = ConversationKey("group", group)
        self.id = ConversationId(0)
        self.rows: list[MessageRow] = []

    async def say(self, words: str, user: int = MING, *, at: datetime | None = None, **more: object) -> MessageRow:
        """Store one message; ``more`` are fields of NewMessage."""
        [row] = await self.say_all([(words, user)], at=at, **more)
        return row

    async def say_all(self, said: Sequence[tuple[str, int]], *, at: datetime | None = None, **more: object) -> list[MessageRow]:
        """Store messages in one batch."""
        async with self.database.transaction() as conn:
            [where] = await conversations.ensure(conn, [KnownConversation(self.key, "测试群")])
            self.id, last = where.id, {where.id: where.last_pos}
            batch = [
                self._message(text, user, at or START + timedelta(minutes=len(self.rows) + no))
                for no, (text, user) in enumerate(said)
            ]
            batch = [replace(item, **more) for item in batch]
            rows = [place.id for place in await ingest.store(conn, batch, last)]
            await conversations.take_positions(conn, [where.id], [last[where.id]])
        self.rows += rows
        return rows

    def _message(self, text: str, user: int, at: datetime) -> NewMessage:
        return NewMessage(
            self.id, BOT, None, None, user, NAMES[user], at, text, text, is_self=user == BOT, is_robot=user == ROBOT
        )

    async def withdraw(self, row: MessageRow) -> None:
        """QQ tells that a message was withdrawn."""
        async with self.database.transaction() as conn:
            await conn.execute(
                "INSERT INTO message_keys (account_id, message_id, message) VALUES (%(bot)s, %(row)s, %(row)s)",
                {"bot": BOT, "row": row},
            )
            assert await withdraw.withdraw(conn, BOT, row, operator_id=None, at=START) == row

    async def embed(self, vectors: dict[MessageRow, tuple[float, ...]], model: str = "toy") -> int:
        """Give messages a vector; returns the space."""
        async with self.database.transaction() as conn:
            space = await embeddings.ensure_space(conn, model, len(next(iter(vectors.values()))))
            await conn.execute(
                """
                INSERT INTO message_vectors (message, conversation_id, space_id, embedding)
                SELECT m.id, m.conversation_id, %(space)s, v.literal::halfvec
                FROM unnest(%(rows)s::bigint[], %(literals)s::text[]) AS v (id, literal)
                JOIN messages m ON m.id = v.id
                ON CONFLICT (message) DO UPDATE SET space_id = excluded.space_id, embedding = excluded.embedding
                """,
                {"space": space, "rows": list(vectors), "literals": [vector_literal(values) for values in vectors.values()]},
            )
        return space

    async def find(self, text: str, vector: Vector | None = None, **more: object) -> list[MessageHit]:
        """Search the group; ``more`` are fields of MessageQuery."""
        return await search_messages(self.database, replace(MessageQuery((self.id,), text), **more), vector)

    async def bodies(self, text: str, vector: Vector | None = None, **more: object) -> list[str]:
        """What a search finds, as text."""
        return [hit.line.body for hit in await self.find(text, vector, **more)]


async def column(database: Database, statement: str, **values: object) -> list[object]:
    """Read the first column of a test's own statement."""
    async with database.connection() as conn:
        cur = await conn.execute(statement.encode(), values)
        return [row[0] for row in await cur.fetchall()]
