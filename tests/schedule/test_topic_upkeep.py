"""Topics go with their last message; what is left of the others stays as it is."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from db import topics, upkeep
from db.learned_models import TopicId
from db.pool import Database
from plugins.schedule import chores
from tests.db.memory_world import MemoryWorld


async def two(world: MemoryWorld) -> tuple[TopicId, TopicId]:
    """A topic of an old message, and one of an old and a new one."""
    old, both, new = [await world.row(await world.say(text)) for text in ("旧的", "也是旧的", "新的")]
    long_ago = datetime.now(UTC) - timedelta(days=100)
    await world.rows("UPDATE messages SET sent_at = %(at)s, stored_at = %(at)s WHERE pos < 3 RETURNING id", at=long_ago)
    await world.rows("UPDATE messages SET sent_at = now(), stored_at = now() WHERE pos = 3 RETURNING id")
    async with world.database.transaction() as conn:
        gone = await topics.create(conn, world.conversation, [old])
        kept = await topics.create(conn, world.conversation, [both, new])
        await topics.put(conn, [(old, gone), (both, kept), (new, kept)])
        for topic, rows in ((gone, (old,)), (kept, (both, new))):
            assert await topics.add_version(conn, topics.Version(topic, 1, None, rows, "题", "概", (), ()))
    return gone, kept


async def test_cleaning_takes_topics_whose_messages_are_gone(database: Database) -> None:
    world = await MemoryWorld.create(database)
    _, kept = await two(world)
    now = datetime.now(UTC)
    assert await chores.clean(database, now - timedelta(days=90), now) == 2
    assert await world.rows("SELECT id FROM topics") == [(kept,)]
    assert await world.rows("SELECT topic_id, gist FROM topic_summaries") == [(kept, "概")]


async def test_empty_topics_go_in_pieces(database: Database) -> None:
    world = await MemoryWorld.create(database)
    gone, kept = await two(world)
    await world.rows("DELETE FROM topic_messages RETURNING message")
    async with database.connection() as conn:
        assert [await upkeep.empty_topics(conn, limit=1) for _ in range(3)] == [1, 1, 0]
    assert await world.rows("SELECT id FROM topics WHERE id IN (%(gone)s, %(kept)s)", gone=gone, kept=kept) == []
