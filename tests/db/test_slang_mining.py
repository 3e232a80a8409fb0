"""What the miner reads and writes in SQL."""

from __future__ import annotations

import pytest

from db import slang_counts, slang_mining
from db.pool import Database
from db.slang_mining import Term
from tests.db.memory_world import BOT, MING, ROBOT, WANG, WEI
from tests.db.slang_world import SlangWorld

ZONE = "Asia/Shanghai"


@pytest.fixture
async def world(database: Database) -> SlangWorld:
    return await SlangWorld.create(database)


async def window(world: SlangWorld, upto: int = 10_000, limit: int = 100) -> list[str]:
    async with world.database.connection() as conn:
        heard = await slang_mining.window(conn, world.conversation, upto, limit=limit, chars=10, zone=ZONE)
    return [item.text for item in heard]


async def test_the_window_holds_the_newest_of_people_in_order(world: SlangWorld) -> None:
    await world.talk("一", "二", "三", "四")
    await world.hear("自己", BOT)
    await world.hear("机器", ROBOT)
    await world.hear("/命令", MING, is_command=True)
    await world.hear("五五五五五五五五五五五五", WEI)
    assert await window(world, limit=3) == ["三", "四", "五" * 10]
    assert await window(world, upto=2) == ["一", "二"]


async def test_days_are_local_ones(world: SlangWorld) -> None:
    pos = [await world.hear(text, MING) for text in ("晚", "早")]
    for at, where in zip(("2026-10-01 15:59+00", "2026-10-01 16:01+00"), pos, strict=True):
        await world.rows("UPDATE messages SET sent_at = %(at)s WHERE pos = %(pos)s RETURNING id", at=at, pos=where)
    async with world.database.connection() as conn:
        late, early = await slang_mining.window(conn, world.conversation, 10, limit=10, chars=10, zone=ZONE)
    assert early.day - late.day == 1


async def test_many_rows_are_read_whole_and_in_order(world: SlangWorld) -> None:
    await world.rows(
        """
        INSERT INTO messages (conversation_id, pos, sender_id, sender_name, text, body, sent_at)
        SELECT %(c)s, n, %(user)s, '小明', n::text, n::text, now() FROM generate_series(1, 1201) AS n RETURNING id
        """,
        user=MING,
    )
    assert await window(world, limit=5_000) == [str(number) for number in range(1, 1202)]


async def test_other_groups_are_read_as_far_as_asked(world: SlangWorld) -> None:
    other = await SlangWorld.create(world.database, 5700000002)
    await world.talk("这里一", "这里二")
    await other.talk("那里一", "那里二", "那里三")
    async with world.database.connection() as conn:
        heard = await slang_mining.others(conn, conversations=5, each=2, chars=10)
    assert sorted(item.text for item in heard if item.conversation_id == other.conversation) == ["那里三", "那里二"]
    assert {item.conversation_id for item in heard} == {world.conversation, other.conversation}


async def test_names_are_those_of_members_now_and_earlier_and_of_accounts(world: SlangWorld) -> None:
    await world.rows("INSERT INTO member_names VALUES (%(c)s, %(user)s, '旧名字', now(), now()) RETURNING user_id", user=WANG)
    async with world.database.connection() as conn:
        names = await slang_mining.names(conn, world.conversation)
    assert {"小明", "阿伟", "老王", "旧名字", "测试群"} <= set(names)


async def test_insert_rate_and_spell_leave_what_people_decided(world: SlangWorld) -> None:
    mine = await world.put("夺笋", "", score=0.2)
    locked = await world.put("鸽王局", locked=True, source="person", score=0.0)
    async with world.database.transaction() as conn:
        terms = [Term("夺笋", "夺笋", (), 0.9, ()), Term("绝绝子", "绝绝子", (), 0.8, ())]
        [new] = await slang_mining.insert(conn, world.conversation, terms)
        await slang_mining.rate(conn, [(mine, 0.5), (mine, 0.9), (locked, 0.9), (new, 0.8)])
        await slang_mining.spell(
            conn, world.conversation, [(mine, "ds", "ds"), (mine, "鸽王局", "鸽王局"), (locked, "gwj", "gwj"), (new, "ds", "ds")]
        )
    assert [(await world.there(row)).score for row in (mine, locked, new)] == [0.9, 0.0, 0.8]
    assert [(await world.there(row)).variants for row in (mine, locked, new)] == [["ds"], [], []]
    async with world.database.connection() as conn:
        spelled = await slang_mining.spellings(conn, world.conversation)
    assert sorted(spelled) == sorted([(mine, "夺笋"), (mine, "ds"), (locked, "鸽王局"), (new, "绝绝子")])


async def test_a_new_spelling_of_a_rejected_term_is_rejected_with_it(world: SlangWorld) -> None:
    stone = await world.put("永远的神", status="rejected", decided_by="api")
    approved = await world.put("夺笋", status="approved", decided_by="api")
    async with world.database.transaction() as conn:
        await slang_mining.spell(conn, world.conversation, [(stone, "yyds", "YYDS"), (approved, "ds", "ds")])
    assert [(await world.there(row)).variants for row in (stone, approved)] == [["YYDS"], []]


async def test_only_the_worst_that_nobody_looked_at_go(world: SlangWorld) -> None:
    plain: dict[str, object] = {"source": "miner", "confidence": None}
    best, worst = await world.put("夺笋", "", score=0.9, **plain), await world.put("这也太", "", score=0.1, **plain)
    kept = [
        await world.put("一", "", score=0.0, source="miner", confidence=0.5),
        await world.put("二", "", score=0.0, denied=1, **plain),
        await world.put("三", "", score=0.0, status="rejected", **plain),
        await world.put("四", "", score=0.0, locked=True, **plain),
        await world.put("五", "", score=0.0, confidence=None, source="model"),
    ]
    async with world.database.transaction() as conn:
        assert await slang_mining.prune(conn, world.conversation, keep=1) == 1
    assert await world.slang(worst) is None
    assert all([await world.slang(row) is not None for row in (best, *kept)])


async def test_uses_are_counted_by_message_person_and_local_day(world: SlangWorld) -> None:
    row = await world.put("夺笋")
    await world.spell(row, "DS")
    said = await world.talk("夺笋夺笋夺笋", "太ds了，夺笋", "夺笋", "dsx 不是", "DS！")
    await world.rows("UPDATE messages SET sent_at = '2026-10-01 17:00+00' WHERE pos = %(pos)s RETURNING id", pos=said[0])
    async with world.database.transaction() as conn:
        await slang_counts.recount(conn, [row], zone=ZONE)
    there = await world.there(row)
    assert (there.occurrences, there.speakers, there.days) == (4, 3, 2)
    await world.withdraw(said[0])
    async with world.database.transaction() as conn:
        await slang_counts.recount(conn, [row], zone=ZONE)
    there = await world.there(row)
    assert (there.occurrences, there.speakers, there.days) == (3, 2, 1)


async def test_what_a_mining_did_not_find_again_fades(world: SlangWorld) -> None:
    plain: dict[str, object] = {"source": "miner", "confidence": None}
    found, gone = await world.put("夺笋", "", score=0.8, **plain), await world.put("这也太", "", score=0.8, **plain)
    confirmed = await world.put("绝绝子", "", score=0.8, source="miner", confidence=0.9)
    async with world.database.transaction() as conn:
        await slang_mining.fade(conn, world.conversation, [found])
    assert [(await world.there(row)).score for row in (found, gone, confirmed)] == [0.8, pytest.approx(0.2), 0.8]
