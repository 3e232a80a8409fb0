"""The reads of a turn, on a real database."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from db import history
from db.models import ConversationId
from db.pool import Database
from tests.agent.world import BOT, MING, START, WANG, WEI, World


@pytest.fixture
async def world(database: Database, tmp_path: Path) -> World:
    """A group with members."""
    return await World.create(database, tmp_path)


async def read(world: World, chunk: int = 10) -> history.SnapshotRows:
    """Read a snapshot."""
    async with world.database.connection() as conn:
        return await history.read_snapshot(conn, world.conversation, chunk=chunk, since=START)


async def test_a_snapshot_of_an_empty_conversation(world: World) -> None:
    assert await read(world) == history.SnapshotRows(0, 0, 0, (), (), (), ())


async def test_an_unknown_conversation_is_an_error_that_leaves_the_connection_usable(database: Database) -> None:
    async with database.connection() as conn:
        with pytest.raises(LookupError):
            await history.read_snapshot(conn, ConversationId(999), chunk=10, since=START)
        cur = await conn.execute("SHOW transaction_isolation")
        assert await cur.fetchone() == ("read committed",)


async def test_a_line_carries_its_member_and_what_it_quotes(world: World) -> None:
    first = await world.say("原话", WANG)
    await world.say("好", 5000000099, name="生人", quotes=first, real_seq=7)
    rows = (await read(world)).lines
    assert (rows[0].member_no, rows[0].role, rows[0].body) == (3, "owner", "原话")
    assert (rows[1].member_no, rows[1].role, rows[1].quoted_pos, rows[1].quote_text) == (None, "unknown", first, "原话")
    await world.withdraw(first)
    rows = (await read(world)).lines
    assert [(row.pos, row.quote_withdrawn) for row in rows] == [(2, True)]


async def test_the_window_has_whole_chunks_and_owed_messages_from_before_come_apart(world: World) -> None:
    for number in range(1, 36):
        await world.say(f"第{number}句", owed=number in (4, 8, 25, 35), is_command=number == 26)
    await world.withdraw(8)
    await world.withdraw(30)
    rows = await read(world)
    assert (rows.last_pos, rows.window_start) == (35, 20)
    assert [line.pos for line in rows.lines] == [pos for pos in range(20, 36) if pos not in (26, 30)]
    assert [line.pos for line in rows.earlier] == [4]
    assert [owed.pos for owed in rows.owed] == [4, 25, 35]


async def test_other_conversations_are_never_read(world: World, database: Database, tmp_path: Path) -> None:
    async with database.connection() as conn:
        await conn.execute("UPDATE conversations SET target_id = 5700000002")
    other = await World.create(database, tmp_path)
    await world.say("这里", owed=True)
    await other.say("那里", BOT, owed=True)
    rows = await read(world)
    assert ([line.body for line in rows.lines], len(rows.owed), rows.own) == (["这里"], 1, ())
    async with database.connection() as conn:
        assert len(await history.lines_before(conn, world.conversation, before=99, limit=99)) == 1
        assert len(await history.lines_after(conn, world.conversation, after=0, limit=99)) == 1
        assert len(await history.owed_between(conn, world.conversation, after=0, until=99)) == 1
        assert await history.own_message_at(conn, world.conversation, 1) is None
        assert len(await history.find_members(conn, world.conversation, numbers=[MING, WEI], names=[])) == 2


async def test_settled_calls_are_not_owed(world: World) -> None:
    await world.say("在吗", owed=True)
    await world.settle()
    assert (await read(world)).owed == ()


async def test_a_snapshot_ends_before_more_calls_than_it_can_show(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "OWED_AT_ONCE", 3)
    for number in range(1, 11):
        await world.say(f"第{number}问", owed=number % 2 == 0)
    rows = await read(world)
    assert rows.last_pos == 7
    assert [owed.pos for owed in rows.owed] == [2, 4, 6]
    assert rows.lines[-1].pos == 7


async def test_own_recent_messages(world: World) -> None:
    await world.say("早就说过", BOT, at=START - timedelta(minutes=5))
    await world.say("别人说的")
    kept = await world.say("刚说的", BOT)
    gone = await world.say("撤回的", BOT)
    await world.withdraw(gone)
    assert [own.text for own in (await read(world)).own] == ["刚说的"]
    async with world.database.connection() as conn:
        assert await history.own_message_at(conn, world.conversation, kept) == START + timedelta(seconds=kept)
        assert await history.own_message_at(conn, world.conversation, gone) is None
        assert await history.own_message_at(conn, world.conversation, 2) is None


async def test_reading_back_and_forth(world: World) -> None:
    for number in range(1, 11):
        await world.say(f"第{number}句", owed=number == 9)
    async with world.database.connection() as conn:
        before = await history.lines_before(conn, world.conversation, before=5, limit=2)
        after = await history.lines_after(conn, world.conversation, after=8, limit=5)
        owed = await history.owed_between(conn, world.conversation, after=8, until=9)
    assert ([line.pos for line in before], [line.pos for line in after], [call.pos for call in owed]) == ([3, 4], [9, 10], [9])


async def test_members_are_found_by_number_qq_card_and_nickname(world: World) -> None:
    async with world.database.connection() as conn:
        await conn.execute("UPDATE members SET card = '小明同学' WHERE user_id = %(user)s", {"user": MING})

        async def found(*, numbers: list[int] | None = None, names: list[str] | None = None) -> list[int]:
            members = await history.find_members(conn, world.conversation, numbers=numbers or [], names=names or [])
            return [member.user_id for member in members]

        assert await found(numbers=[1, WEI]) == [MING, WEI]
        assert await found(names=["小明同学", "老王"]) == [MING, WANG]
        assert await found(names=["小明"]) == []
        assert await found() == []
