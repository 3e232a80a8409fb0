"""What is findable of a message, and when: as it is stored, when it changes, and for rows from before."""

from __future__ import annotations

import asyncio

import pytest

from db import message_index, unlearned
from db.message_index import fill, worth_vector
from db.pool import Database
from tests.db.talk import BOT, MING, ROBOT, START, WANG, WEI, Talk, column

SEARCH = "SELECT search FROM messages ORDER BY pos"
WAITING = "SELECT m.pos FROM message_vectors v JOIN messages m ON m.id = v.message WHERE v.embedding IS NULL ORDER BY m.pos"


@pytest.fixture
async def talk(database: Database) -> Talk:
    """An empty group."""
    return Talk(database)


@pytest.mark.parametrize(
    ("text", "worth"),
    [
        ("去吃火锅", True),
        ("好的呀", False),
        ("哈 哈 哈 哈", True),
        ("okay", True),
        ("123456", False),
        ("？？？！！！", False),
        ("[微笑][微笑]", False),
        ("好[旺柴]", False),
        ("", False),
        ("😂😂😂😂😂", False),
    ],
)
def test_four_letters_are_worth_a_vector_and_faces_are_none(text: str, worth: bool) -> None:
    assert worth_vector(text) is worth


async def test_what_a_reader_sees_is_findable_with_the_row_but_nudges_and_commands_are_not(talk: Talk) -> None:
    await talk.say("火锅")
    await talk.say("看这个", body="看这个 [文件 规则书.pdf 717KB]", quote_name="阿伟", quote_text="报告")
    await talk.say("小明 戳了戳 小满", kind="poke")
    await talk.say("/群友 状态", is_command=True)
    assert await column(talk.database, SEARCH) == [" 火锅 ", " 看这 这个 文件 规则 则书 pdf 717kb ", "", ""]


async def test_people_and_the_bot_wait_for_vectors_and_nobody_else(talk: Talk, database: Database) -> None:
    await talk.say("一起去吃火锅")
    await talk.say("我在家里做饭", BOT)
    await talk.say("签到成功啦啦", ROBOT)
    await talk.say("好")
    await talk.say("小明 戳了戳 小满", kind="poke")
    await talk.say("/群友 忘记我", is_command=True)
    await talk.say("这句话马上撤回", withdrawn_at=START)
    assert await column(database, WAITING) == [1, 2]
    async with database.connection() as conn:
        await unlearned.set(conn, talk.id, WEI)
        await conn.execute("DELETE FROM message_vectors")
    await talk.say_all([("一起去吃烤肉", WEI), ("一起去吃火锅", WANG)])
    assert await column(database, WAITING) == [9]
    async with database.connection() as conn:
        await conn.execute("UPDATE conversations SET learning = false")
    await talk.say("一起去吃烧烤")
    assert await column(database, WAITING) == [9]


async def test_rows_of_one_batch_are_numbered_in_order_of_arrival(talk: Talk, database: Database) -> None:
    rows = await talk.say_all([(f"第{number}句话", MING) for number in range(200)])
    assert rows == sorted(rows)
    assert await column(database, "SELECT id FROM messages ORDER BY pos") == rows


async def test_a_withdrawn_message_is_stored_without_words_to_find(talk: Talk) -> None:
    await talk.say("说漏嘴了", withdrawn_at=START)
    assert await column(talk.database, SEARCH) == [""]


async def test_a_second_sight_that_tells_a_command_takes_its_words_away(talk: Talk) -> None:
    await talk.say("状态", real_seq=7)
    await talk.say("状态", real_seq=7, is_command=True)
    assert await column(talk.database, SEARCH) == [""]


async def test_what_is_fetched_later_is_findable_at_once(talk: Talk, database: Database) -> None:
    row = await talk.say("", body="[聊天记录]")
    gone = await talk.say("", body="[聊天记录]", withdrawn_at=START)
    async with database.connection() as conn:
        for message in (row, gone):
            await message_index.set_body(conn, message, old="[聊天记录]", new="[聊天记录 阿伟:周六去爬山]")
    assert await column(database, SEARCH) == [" 聊天 天记 记录 阿伟 周六 六去 去爬 爬山 ", ""]
    assert await talk.bodies("爬山") == ["[聊天记录 阿伟:周六去爬山]"]


async def _as_from_before(talk: Talk) -> None:
    """Take away what an older version did not write."""
    async with talk.database.transaction() as conn:
        await conn.execute("UPDATE messages SET search = NULL")
        await conn.execute("DELETE FROM message_vectors")


async def test_old_messages_are_filled_newest_first_piece_by_piece_and_never_twice(talk: Talk, database: Database) -> None:
    await talk.say_all([(f"第{number}次去吃火锅", MING) for number in range(7)])
    await talk.say("/群友 状态", is_command=True)
    await talk.withdraw(await talk.say("说错了说错了"))
    await talk.say("签到成功啦啦", ROBOT)
    before = await column(database, SEARCH)
    await _as_from_before(talk)
    assert await talk.bodies("火锅") == []
    assert await fill(database, piece=4) == 4
    assert await talk.bodies("火锅") == ["第6次去吃火锅"]
    assert await fill(database, piece=4) == 4
    await talk.embed({talk.rows[3]: (1.0, 0.0)})
    assert [await fill(database, piece=4) for _ in range(3)] == [2, 0, 0]
    assert await column(database, SEARCH) == [*before[:8], "", before[9]]
    assert await column(database, WAITING) == [1, 2, 3, 5, 6, 7]


async def test_filling_from_two_sides_at_once_fills_each_row_once(talk: Talk, database: Database) -> None:
    await talk.say_all([(f"第{number}次去吃火锅", MING) for number in range(60)])
    await _as_from_before(talk)

    async def all_of_it() -> int:
        done = 0
        while piece := await fill(database, piece=10):
            done += piece
        return done

    assert sum(await asyncio.gather(all_of_it(), all_of_it())) == 60
    assert await column(database, "SELECT count(*) FROM messages WHERE search IS NULL") == [0]


async def test_unlearned_members_and_groups_get_no_vectors_by_filling(talk: Talk, database: Database) -> None:
    await talk.say_all([("一起去吃烤肉", WEI), ("一起去吃火锅", WANG)])
    await _as_from_before(talk)
    async with database.connection() as conn:
        await unlearned.set(conn, talk.id, WEI)
    await fill(database)
    assert await column(database, WAITING) == [2]
    await _as_from_before(talk)
    async with database.connection() as conn:
        await conn.execute("UPDATE conversations SET learning = false")
    await fill(database)
    assert await column(database, WAITING) == []
