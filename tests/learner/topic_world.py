"""A group whose topics are learned by a scripted model."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from db import conversations
from db.learned_models import KnownTopic
from db.models import Json, JsonObject
from db.pool import Database
from db.topic_prompt import touched
from learner.task import Findings
from learner.topics import TopicsTask
from llm.types import CallContext
from settings import load_settings
from tests.db.memory_world import MING, WANG, WEI, MemoryWorld
from tests.learner.batch_world import Asking, answers, asking, batch_of, infer, store
from tests.llm.conftest import Opener


def placing(**topic_of: str) -> JsonObject:
    """An assignment: ``m1="N1"``."""
    return answers(assignments=[{"message": int(name[1:]), "topic": topic} for name, topic in topic_of.items()])


def summing(*gists: str, start: int = 1, loops: list[str] | None = None) -> JsonObject:
    """Summaries of T1, T2, …; the title is the gist's beginning."""
    items: list[Json] = [
        {"topic": f"T{number}", "title": gist[:10], "gist": gist, "open_loops": loops or [], "keywords": ["词"]}
        for number, gist in enumerate(gists, start)
    ]
    return answers(topics=items)


@dataclass(slots=True)
class Topics:
    """A group, a model, and the task."""

    world: MemoryWorld
    asked: Asking
    task: TopicsTask

    async def infer(self, first: int, last: int, *, context: int = 0) -> Findings:
        """Find the topics of some messages."""
        return await infer(self.task, self.world, await batch_of(self.world, "topics", first, last, context=context))

    async def learn(self, first: int, last: int, *, context: int = 0) -> dict[str, int]:
        """Find and write them."""
        return await store(self.world, await self.infer(first, last, context=context))

    async def mend(self) -> dict[str, int] | None:
        """Summarise what waits, as the engine does; None: nothing waits."""
        async with self.world.database.connection() as conn:
            [place] = await conversations.some(conn, [self.world.conversation])
        findings = await self.task.mend(place, CallContext(self.task.name, place.id))
        return None if findings is None else await store(self.world, findings)

    async def talk(self, *texts: str, user: int = MING) -> int:
        """Say some things; returns the last position."""
        last = 0
        for text in texts:
            last = await self.world.say(text, user)
        return last

    async def members(self) -> dict[int, list[int]]:
        """Positions by topic."""
        rows = await self.world.rows(
            """
            SELECT x.topic_id, array_agg(m.pos ORDER BY m.pos)
            FROM topic_messages x JOIN messages m ON m.id = x.message GROUP BY x.topic_id ORDER BY x.topic_id
            """
        )
        return {row[0]: row[1] for row in rows}

    async def versions(self) -> list[tuple[int, str, list[int], bool]]:
        """Version, gist, positions of the sources, whether in use."""
        rows = await self.world.rows(
            """
            SELECT s.version, s.gist, s.dropped_at IS NULL,
                   (SELECT array_agg(m.pos ORDER BY m.pos) FROM messages m WHERE m.id = ANY(s.sources))
            FROM topic_summaries s ORDER BY s.topic_id, s.version
            """
        )
        return [(row[0], row[1], row[3], row[2]) for row in rows]

    async def stale(self) -> list[bool]:
        """Which topics wait for a summary."""
        return [row[0] for row in await self.world.rows("SELECT stale FROM topics ORDER BY id")]

    async def prompt(self, text: str = "", *quoted: int) -> list[KnownTopic]:
        """The topics that a turn would see."""
        async with self.world.database.connection() as conn:
            return await touched(conn, self.world.conversation, quoted, text)


@asynccontextmanager
async def topic_world(database: Database, open_models: Opener) -> AsyncGenerator[Topics]:
    """Open a group whose model puts nothing anywhere until a test says otherwise."""
    world = await MemoryWorld.create(database)
    async with asking(open_models) as asked:
        asked.script("topic_assignment", placing(m1="0"))
        yield Topics(world, asked, TopicsTask(database, asked, load_settings({})))


async def two_topics(learning: Topics) -> None:
    """小明 and 阿伟 about games (1, 3), 老王 about a cat (2)."""
    await learning.talk("周六桌游谁来")
    await learning.talk("我家猫不吃饭了", user=WANG)
    await learning.talk("我来，带上狼人杀", user=WEI)
    learning.asked.script("topic_assignment", placing(m1="N1", m2="N2", m3="N1"))
    learning.asked.script("topic_summary", summing("小明约周六桌游，阿伟来", "老王的猫不吃饭"))
    assert await learning.learn(1, 3) == {"topics": 2, "topic_messages": 3, "summaries": 2}
