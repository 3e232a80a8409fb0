"""The daily cleaning deletes the profile of who left long ago, and candidates whose messages are gone."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from db.pool import Database
from plugins.schedule.chores import clean
from tests.db.expression_world import ExpressionWorld
from tests.db.memory_world import MING, WEI
from tests.db.trait_world import TraitWorld


async def test_who_left_long_ago_leaves_no_profile(database: Database) -> None:
    world = await TraitWorld.create(database)
    now = datetime.now(UTC)
    before = now - timedelta(days=90)
    mine, theirs = await world.says(MING, "爬山", "又爬山"), await world.says(WEI, "下棋", "又下棋")
    gone = await world.put("interest", "喜欢爬山", *mine)
    stays = await world.put("interest", "喜欢下棋", *theirs, user=WEI)
    await world.rows(
        "UPDATE members SET left_at = %(at)s WHERE user_id = %(user)s RETURNING 1", at=before - timedelta(1), user=MING
    )
    await world.rows("UPDATE messages SET sent_at = %(at)s, stored_at = %(at)s RETURNING 1", at=before - timedelta(1))
    assert await clean(database, before, now) == 2
    assert await world.trait(gone) is None
    assert (await world.there(stays)).evidence == 2


async def test_candidates_whose_messages_are_gone_go_too(database: Database) -> None:
    world = await ExpressionWorld.create(database)
    now = datetime.now(UTC)
    before = now - timedelta(days=90)
    [pos] = await world.talk("又修仙呢")
    gone = await world.put("有人熬夜", "又修仙呢", pos)
    decided = await world.put("有人通宵", "又修仙呢", pos, status="rejected", decided_by="api")
    await world.rows("UPDATE messages SET sent_at = %(at)s, stored_at = %(at)s RETURNING 1", at=before - timedelta(1))
    assert await clean(database, before, now) == 1
    assert await world.expression(gone) is None
    assert (await world.there(decided)).evidence == 0
