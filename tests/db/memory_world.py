"""A group with members, messages known by their position, and memories with evidence."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Self

from psycopg.rows import TupleRow

from db import conversations, evidence, ingest, members, memories
from db.conversations import KnownConversation
from db.evidence import Cited, Evidence
from db.members import SeenMember
from db.memory_models import GROUP, Claim, Memory, MemoryId, MemoryKind, Subject, Vector
from db.models import ConversationId, ConversationKey, MessageRow, TurnId
from db.pool import Connection, Database
from db.sightings import NewMessage
from db.withdraw import withdraw

BOT, BOT2, MING, WEI, WANG, ROBOT = 5000000001, 5000000002, 5000000011, 5000000012, 5000000013, 5000000080
NAMES = {BOT: "小满", MING: "小明", WEI: "阿伟", WANG: "老王", ROBOT: "群管家"}
ABOUT_MING, ABOUT_WEI = Subject("member", MING), Subject("member", WEI)
_BLOCKED = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
START = datetime(2026, 11, 25, 10, tzinfo=UTC)


class MemoryWorld:
    """One group. The first message has position 1."""

    def __init__(self, database: Database, key: ConversationKey, conversation: ConversationId) -> None:
        self.database = database
        self.key = key
        self.conversation = conversation

    @classmethod
    async def create(cls, database: Database, group: int = 5700000001) -> Self:
        """Make the group with 小明, 阿伟, 老王 and the robot."""
        key = ConversationKey("group", group)
        async with database.transaction() as conn:
            [row] = await conversations.ensure(conn, [KnownConversation(key, "测试群")])
            await members.save(
                conn,
                [
                    SeenMember(row.id, user, name, name, "", "member", "", is_robot=user == ROBOT, seen_at=START)
                    for user, name in NAMES.items()
                    if user != BOT
                ],
            )
        return cls(database, key, row.id)

    async def say(self, text: str, user: int = MING, **more: object) -> int:
        """Store one message and return its position; ``more`` are fields of NewMessage."""
        async with self.database.transaction() as conn:
            [where] = await conversations.ensure(conn, [KnownConversation(self.key)])
            pos = where.last_pos + 1
            plain = NewMessage(
                conversation_id=where.id,
                account_id=BOT,
                message_id=self.key_of(pos),
                real_seq=pos,
                sender_id=user,
                sender_name=NAMES[user],
                sent_at=START + timedelta(minutes=pos),
                text=text,
                body=text,
                is_self=user == BOT,
                is_robot=user == ROBOT,
            )
            last = {where.id: where.last_pos}
            [stored] = await ingest.store(conn, [replace(plain, **more)], last)  # pyright: ignore[reportArgumentType]
            await conversations.take_positions(conn, list(last), list(last.values()))
        return stored.pos

    async def row(self, pos: int) -> MessageRow:
        """The row of a message."""
        [(row,)] = await self.rows("SELECT id FROM messages WHERE conversation_id = %(c)s AND pos = %(pos)s", pos=pos)
        return MessageRow(int(str(row)))

    async def withdraw(self, *positions: int) -> None:
        """QQ tells that messages were withdrawn, one after the other in one transaction."""
        async with self.database.transaction() as conn:
            for pos in positions:
                assert await self.withdraw_in(conn, pos)

    async def withdraw_in(self, conn: Connection, pos: int) -> MessageRow | None:
        """The same, in a transaction that the test holds."""
        return await withdraw(conn, BOT, self.key_of(pos), operator_id=None, at=START + timedelta(hours=1))

    async def check(self, subject: Subject, labels: Sequence[int], shown: Sequence[int] | None = None) -> Evidence:
        """Which of these messages count; without ``shown``, all were shown."""
        cited = Cited(self.conversation, subject, tuple(labels), frozenset(labels if shown is None else shown))
        async with self.database.transaction() as conn:
            return await evidence.check(conn, cited)

    async def claim(self, content: str, labels: Sequence[int], subject: Subject, kind: MemoryKind) -> Claim:
        """A claim on its way in."""
        return Claim(self.conversation, subject, kind, content, "agent", tuple([await self.row(pos) for pos in labels]))

    async def remember(
        self,
        content: str,
        *labels: int,
        about: Subject = GROUP,
        kind: MemoryKind = "fact",
        refines: MemoryId | None = None,
        supersedes: MemoryId | None = None,
        locked: bool = False,
        vector: Vector | None = None,
    ) -> MemoryId:
        """Write a memory with messages as evidence, perhaps in the place of an older one."""
        claim = await self.claim(content, labels, about, kind)
        async with self.database.transaction() as conn:
            if refines is not None:
                assert await memories.archive(conn, refines, "refined")
            if supersedes is not None:
                assert await memories.archive(conn, supersedes, "superseded")
            new = await memories.insert(conn, claim, vector)
            assert new is not None
            if refines is not None:
                await memories.link(conn, refines, new, "refines")
            if supersedes is not None:
                await memories.link(conn, supersedes, new, "supersedes")
        if locked:
            await self.lock(new)
        return new

    async def lock(self, memory: MemoryId) -> None:
        """A person vouches for it."""
        await self.rows("UPDATE memories SET locked = true WHERE id = %(id)s RETURNING id", id=memory)

    async def memory(self, memory: MemoryId) -> Memory | None:
        """Read one memory."""
        async with self.database.connection() as conn:
            return await memories.get(conn, memory)

    async def states(self, *ids: MemoryId) -> list[str]:
        """For each memory: active, or why it was archived, or gone."""
        rows = await self.rows("SELECT id, coalesce(archived_why, status) FROM memories WHERE id = ANY(%(ids)s)", ids=list(ids))
        found = {row[0]: str(row[1]) for row in rows}
        return [found.get(memory, "gone") for memory in ids]

    async def supported_by(self, memory: MemoryId) -> list[int]:
        """The positions of a memory's evidence."""
        rows = await self.rows(
            """
            SELECT m.pos FROM memory_evidence e JOIN messages m ON m.id = e.message WHERE e.memory_id = %(id)s ORDER BY m.pos
            """,
            id=memory,
        )
        return [int(str(row[0])) for row in rows]

    async def turn(self) -> TurnId:
        """A turn that ended."""
        [(turn,)] = await self.rows(
            """
            INSERT INTO turns (conversation_id, account_id, trigger, status, ended_at)
            VALUES (%(c)s, %(bot)s, 'mention', 'done', now())
            RETURNING id
            """,
            bot=BOT,
        )
        return TurnId(int(str(turn)))

    def key_of(self, pos: int) -> int:
        """The id under which the first account knows a message."""
        return 100_000 * self.conversation + pos

    async def blocked(self, backends: int = 1) -> int:
        """Wait until so many backends of this database wait for a lock; returns the process id of one."""
        async with asyncio.timeout(20):
            while len(found := await self.rows(_BLOCKED)) < backends:  # noqa: ASYNC110 - what is waited for has no event
                await asyncio.sleep(0.01)
        return int(str(found[0][0]))

    async def rows(self, statement: str, **values: object) -> list[TupleRow]:
        """Run a test's own statement; ``c`` is the conversation."""
        async with self.database.connection() as conn:
            cur = await conn.execute(statement.encode(), {"c": self.conversation, **values})
            return await cur.fetchall()
