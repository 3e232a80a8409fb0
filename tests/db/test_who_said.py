"""Who said what, and whose name occurs, on a real database."""

from __future__ import annotations

from pathlib import Path

import pytest

from db.history import Said, said_at, spoke_among
from db.members import named_in
from db.pool import Database
from tests.agent.world import BOT, MING, STRANGER, WANG, WEI, World


@pytest.fixture
async def world(database: Database, tmp_path: Path) -> World:
    """A group with members."""
    return await World.create(database, tmp_path)


async def test_what_a_person_said_is_read_by_its_label(world: World) -> None:
    said = await world.say("忘记我")
    own = await world.say("好", BOT)
    poke = await world.say("小明 戳了戳 小满", kind="poke")
    command = await world.say("/群友 状态", is_command=True)
    gone = await world.say("说错了", WEI)
    await world.withdraw(gone)
    await world.execute("UPDATE members SET is_robot = true WHERE conversation_id = %(c)s AND no = %(pos)s", 3)
    robot = await world.say("今天多云", WANG)
    async with world.database.connection() as conn:
        assert await said_at(conn, world.conversation, said) == Said(MING, "忘记我", True)
        assert await said_at(conn, world.conversation, 999) is None
        for pos in (own, poke, command, gone, robot):
            found = await said_at(conn, world.conversation, pos)
            assert found is not None
            assert not found.human


async def test_only_standing_messages_count_as_having_spoken(world: World) -> None:
    first = await world.say("在吗")
    gone = await world.say("说错了", WEI)
    await world.withdraw(gone)
    async with world.database.connection() as conn:
        assert await spoke_among(conn, world.conversation, MING, [first, gone])
        assert not await spoke_among(conn, world.conversation, WEI, [first, gone])
        assert not await spoke_among(conn, world.conversation, MING, [])


async def test_names_of_now_and_earlier_are_found_in_a_text(world: World) -> None:
    async with world.database.connection() as conn:
        await conn.execute(
            """
            INSERT INTO member_names (conversation_id, user_id, name, first_seen, last_seen)
            VALUES (%(c)s, %(stranger)s, 'Neko酱', now(), now()), (%(c)s, %(wei)s, '猫', now(), now()),
                   (%(c)s, %(ming)s, '100%%的小明', now(), now())
            """,
            {"c": world.conversation, "stranger": STRANGER, "wei": WEI, "ming": MING},
        )
        assert await named_in(conn, world.conversation, "NEKO酱和老王呢") == [STRANGER, WANG]
        assert await named_in(conn, world.conversation, "小明家的猫") == [MING]
        assert await named_in(conn, world.conversation, "%' OR '1'='1") == []
        assert await named_in(conn, world.conversation, "") == []
