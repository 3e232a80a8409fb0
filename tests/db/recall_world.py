"""Conversations with memories for recall's tests, written without the rest of the bot."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from psycopg.rows import scalar_row

from db.memory_models import GROUP, Ask, MemoryId, MemoryKind, MemoryStatus, Recalled, Scope, Subject, Vector, Wish
from db.models import ConversationId
from db.pool import Database
from db.recall import recall
from db.searchtext import content_key, search_text
from db.vectors import vector_literal

MING = Subject("member", 5000000011)
JIE = Subject("member", 5000000012)
HONG = Subject("member", 5000000013)
DIM = 4


def towards(degrees: float, space_id: int = 1) -> Vector:
    """A unit vector; the smaller the difference of the degrees, the nearer two of them are."""
    angle = math.radians(degrees)
    return Vector(space_id, (math.cos(angle), math.sin(angle), *(0.0,) * (DIM - 2)))


@dataclass(slots=True)
class Memories:
    """One database, and the ways to fill it and to ask it."""

    database: Database
    conversation: ConversationId

    async def another(self, target: int) -> ConversationId:
        """Make one more conversation."""
        return await _conversation(self.database, target)

    async def add(
        self,
        content: str,
        subject: Subject = GROUP,
        *,
        kind: MemoryKind = "fact",
        vector: Vector | None = None,
        conversation: ConversationId | None = None,
        status: MemoryStatus = "active",
        uses: int = 0,
        days: float = 0,
    ) -> MemoryId:
        """Write one memory, ``days`` old."""
        async with self.database.connection() as conn, conn.cursor(row_factory=scalar_row) as cur:
            await cur.execute(
                """
                INSERT INTO memories (conversation_id, subject_kind, subject_id, kind, content, content_key, search, space_id,
                                      embedding, status, archived_at, source, uses, created_at, updated_at)
                VALUES (%(conversation)s, %(subject_kind)s, %(subject_id)s, %(kind)s, %(content)s, %(key)s, %(search)s,
                        %(space)s, %(vector)s::halfvec, %(status)s, CASE WHEN %(status)s = 'archived' THEN now() END,
                        'import', %(uses)s, now() - make_interval(secs => %(seconds)s),
                        now() - make_interval(secs => %(seconds)s))
                RETURNING id
                """,
                {
                    "conversation": conversation or self.conversation,
                    "subject_kind": subject.kind,
                    "subject_id": subject.user_id,
                    "kind": kind,
                    "content": content,
                    "key": content_key(content),
                    "search": search_text(content),
                    "space": None if vector is None else vector.space_id,
                    "vector": None if vector is None else vector_literal(vector.values),
                    "status": status,
                    "uses": uses,
                    "seconds": days * 86400,
                },
            )
            return MemoryId(int(str(await cur.fetchone())))

    async def member(self, subject: Subject, card: str, *, nickname: str = "", former: Sequence[str] = ()) -> None:
        """Write a member with names."""
        async with self.database.connection() as conn:
            await conn.execute(
                """
                INSERT INTO members (conversation_id, user_id, no, nickname, card)
                VALUES (%(conversation)s, %(user)s, %(user)s - 5000000000, %(nickname)s, %(card)s)
                """,
                {"conversation": self.conversation, "user": subject.user_id, "nickname": nickname, "card": card},
            )
            await conn.execute(
                """
                INSERT INTO member_names (conversation_id, user_id, name, first_seen, last_seen)
                SELECT %(conversation)s, %(user)s, name, now(), now() FROM unnest(%(names)s::text[]) AS name
                """,
                {"conversation": self.conversation, "user": subject.user_id, "names": [card, *former]},
            )

    def scope(
        self,
        *subjects: Subject,
        kinds: tuple[MemoryKind, ...] | None = None,
        statuses: tuple[MemoryStatus, ...] = ("active",),
    ) -> Scope:
        """This conversation; without subjects, anybody's."""
        return Scope((self.conversation,), subjects or None, kinds, statuses)

    async def find(self, *asks: str | Ask, scope: Scope | None = None, wish: Wish | None = None) -> list[Recalled]:
        """Recall."""
        questions = [Ask(ask) if isinstance(ask, str) else ask for ask in asks]
        return await recall(self.database, questions, scope or self.scope(), wish or Wish(10))

    async def texts(self, *asks: str | Ask, scope: Scope | None = None, wish: Wish | None = None) -> list[str]:
        """Recall, and give the contents only."""
        return [found.memory.content for found in await self.find(*asks, scope=scope, wish=wish)]


async def memories_in(database: Database) -> Memories:
    """Begin with one group and two spaces of DIM dimensions, numbered 1 and 2."""
    async with database.connection() as conn:
        await conn.execute("INSERT INTO embedding_spaces (model, dim) VALUES ('one', %(dim)s), ('other', %(dim)s)", {"dim": DIM})
    return Memories(database, await _conversation(database, 5700000001))


async def _conversation(database: Database, target: int) -> ConversationId:
    async with database.connection() as conn, conn.cursor(row_factory=scalar_row) as cur:
        await cur.execute(
            "INSERT INTO conversations (kind, target_id) VALUES ('group', %(target)s) RETURNING id", {"target": target}
        )
        return ConversationId(int(str(await cur.fetchone())))
