"""Forgetting a member deletes what was derived from them in that group, and nothing of anybody else."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from db import forget, intimacy, memories, memory_moderation, notes, unlearned
from db.forget import Forgotten
from db.intimacy import Change
from db.memory_models import BOT as BOT_ITSELF
from db.memory_models import GROUP, Ask, Claim, MemoryId, Scope, Vector, Wish
from db.memory_moderation import Edit
from db.message_search import MessageQuery, search_messages
from db.models import TurnStep
from db.pool import Database
from db.recall import recall
from db.turn_log import save_step
from tests.db.memory_world import ABOUT_MING, ABOUT_WEI, BOT, MING, START, WANG, WEI, MemoryWorld


@pytest.fixture
async def world(database: Database) -> MemoryWorld:
    """A group."""
    return await MemoryWorld.create(database)


async def forgotten(world: MemoryWorld, user: int = MING) -> Forgotten:
    """Forget a member."""
    async with world.database.transaction() as conn:
        return await forget.member(conn, world.conversation, user)


async def test_all_claims_about_them_go_whoever_wrote_them_and_however_they_stand(world: MemoryWorld) -> None:
    cat = await world.remember("小明养猫", await world.say("我养猫"), about=ABOUT_MING)
    locked = await world.remember("小明是群主", about=ABOUT_MING, locked=True)
    archived = await world.remember("小明养狗", about=ABOUT_MING)
    async with world.database.connection() as conn:
        await memories.archive(conn, archived, "agent")
    weis = await world.remember("阿伟养鱼", await world.say("我养鱼", WEI), about=ABOUT_WEI)
    assert await forgotten(world) == Forgotten(messages=1, memories=3)
    assert await world.states(cat, locked, archived, weis) == ["gone", "gone", "gone", "active"]


async def test_claims_that_only_their_words_support_go_and_others_lose_these_words(world: MemoryWorld) -> None:
    mings, weis = await world.say("每周六桌游"), await world.say("对，每周六", WEI)
    alone = await world.remember("群里每周六桌游", mings)
    vouched = await world.remember("群里爱桌游", mings, locked=True)
    both = await world.remember("群里周六见", mings, weis)
    own = await world.remember("小满负责带牌", await world.say("我带牌", BOT), mings, about=BOT_ITSELF)
    nobody = await world.remember("群里有规矩", locked=True)
    await forgotten(world)
    assert await world.states(alone, vouched, both, own, nobody) == ["gone", "gone", "active", "active", "active"]
    assert await world.supported_by(both) == [weis]
    assert await world.supported_by(own) == [3]


async def test_a_withdrawn_word_of_another_keeps_nothing(world: MemoryWorld) -> None:
    mings, weis = await world.say("每周六桌游"), await world.say("对，每周六", WEI)
    games = await world.remember("群里每周六桌游", mings, weis)
    await world.withdraw(weis)
    await forgotten(world)
    assert await world.states(games) == ["gone"]


async def test_what_was_built_from_their_words_goes_even_with_others_evidence(world: MemoryWorld) -> None:
    mings, weis, wangs = await world.say("周六桌游"), await world.say("下午两点", WEI), await world.say("在老地方", WANG)
    one = await world.remember("群里周六桌游", mings)
    two = await world.remember("群里周六下午两点桌游", weis, refines=one)
    three = await world.remember("群里周六下午两点在老地方桌游", wangs, refines=two)
    await world.lock(three)
    assert (await forgotten(world)).memories == 3
    assert await world.states(one, two, three) == ["gone", "gone", "gone"]


async def test_what_they_had_refined_or_replaced_stands_again(world: MemoryWorld) -> None:
    weis = await world.say("周六桌游", WEI)
    sixth = await world.remember("群里周六桌游", weis)
    seventh = await world.remember("群里周日桌游", await world.say("改周日了"), supersedes=sixth)
    meal = await world.remember("群里聚餐", weis)
    hotpot = await world.remember("群里聚餐吃火锅", await world.say("吃火锅"), refines=meal)
    await forgotten(world)
    assert await world.states(sixth, seventh, meal, hotpot) == ["active", "gone", "active", "gone"]


async def test_their_vectors_liking_and_the_note_go_and_others_stay(world: MemoryWorld) -> None:
    await world.say("今天去吃番茄火锅吗各位")
    weis = await world.say("我带两副扑克牌过去吧", WEI)
    turn = await world.turn()
    async with world.database.transaction() as conn:
        for user in (MING, WEI):
            assert await intimacy.move(conn, Change(world.conversation, user, turn, 2, "帮了大忙"), START) is not None
        await notes.write(conn, world.conversation, "小明欠一顿饭", START)
    await forgotten(world)
    assert await world.rows("SELECT m.pos FROM message_vectors v JOIN messages m ON m.id = v.message") == [(weis,)]
    assert await world.rows("SELECT user_id FROM intimacy") == [(WEI,)]
    assert await world.rows("SELECT user_id FROM intimacy_log") == [(WEI,)]
    assert await world.rows("SELECT * FROM notes") == []


async def test_embeddings_of_what_is_forgotten_are_gone_with_it(world: MemoryWorld) -> None:
    [(space,)] = await world.rows("INSERT INTO embedding_spaces (model, dim) VALUES ('toy', 2) RETURNING id")
    vector = Vector(int(str(space)), (0.6, 0.8))
    await world.remember("小明养猫", about=ABOUT_MING, vector=vector)
    weis = await world.remember("阿伟养猫", about=ABOUT_WEI, vector=vector)
    await forgotten(world)
    assert await world.rows("SELECT id FROM memories WHERE embedding IS NOT NULL") == [(weis,)]
    found = await recall(world.database, [Ask("养猫", vector)], Scope((world.conversation,)), Wish(6))
    assert [item.memory.id for item in found] == [weis]


async def test_their_words_are_empty_unsearchable_and_unnamed_but_keep_their_place(world: MemoryWorld) -> None:
    mings, weis = await world.say("今天去吃番茄火锅吗各位"), await world.say("番茄火锅走起", WEI)
    reply = await world.say("好", WEI, quoted_id=await world.row(mings), quote_name="小明", quote_text="今天去吃番茄火锅吗各位")
    await forgotten(world)
    found = await world.rows(
        "SELECT pos, sender_name, text, body, search, quote_name, quote_text, withdrawn_at IS NULL FROM messages ORDER BY pos"
    )
    assert found == [
        (mings, "已忘记的成员", "", "", "", None, None, False),
        (weis, "阿伟", "番茄火锅走起", "番茄火锅走起", " 番茄 茄火 火锅 锅走 走起 ", None, None, True),
        (reply, "阿伟", "好", "好", " 好 ", "", None, True),
    ]
    hits = await search_messages(world.database, MessageQuery((world.conversation,), "番茄火锅"), None)
    assert [hit.line.pos for hit in hits] == [weis]


async def test_what_tools_wrote_and_read_in_that_group_is_emptied(world: MemoryWorld) -> None:
    other = await MemoryWorld.create(world.database, 5700000002)
    for number, name in enumerate(("saveMemory", "saveNote", "updateIntimacy", "updateMood", "searchMemory", "speak"), 1):
        step = TurnStep(number, "tool", name, {"content": "小明养猫"}, "小明养猫", True, START, 1)
        async with world.database.connection() as conn:
            for each in (world, other):
                await save_step(conn, await each.turn(), step)
    await forgotten(world)
    kept = (
        "SELECT s.name, s.arguments, s.result FROM turn_steps s JOIN turns t ON t.id = s.turn_id WHERE t.conversation_id = %(c)s"
    )
    told = {name: (arguments, result) for name, arguments, result in await world.rows(kept)}
    assert {name for name, (arguments, _) in told.items() if arguments is not None} == {"speak"}
    assert {result for _, result in told.values()} == {None}
    assert [row[2] for row in await other.rows(kept)] == ["小明养猫"] * 6


async def test_the_audit_log_keeps_the_acts_and_loses_the_words(world: MemoryWorld) -> None:
    async with world.database.transaction() as conn:
        cat, _ = await memory_moderation.create(
            conn, Claim(world.conversation, ABOUT_MING, "fact", "小明养猫", "person"), actor="api"
        )
        await memory_moderation.edit(conn, cat.id, Edit(content="小明养狗"), actor="api")
        await memory_moderation.delete(conn, cat.id, actor="api")
        await memory_moderation.create(conn, Claim(world.conversation, ABOUT_WEI, "fact", "阿伟养鱼", "person"), actor="api")
    games = await world.remember("群里桌游", await world.say("桌游"))
    async with world.database.transaction() as conn:
        await memory_moderation.edit(conn, games, Edit(content="群里周六桌游"), actor="api")
    await forgotten(world)
    told = await world.rows("SELECT action, before ->> 'content', after ->> 'content' FROM audit ORDER BY id")
    assert told == [
        ("memory.create", None, None),
        ("memory.change", None, None),
        ("memory.delete", None, None),
        ("memory.create", None, "阿伟养鱼"),
        ("memory.change", None, None),
    ]


async def test_another_group_remembers_on(world: MemoryWorld) -> None:
    other = await MemoryWorld.create(world.database, 5700000002)
    pos = await other.say("我养猫")
    cat = await other.remember("小明养猫", pos, about=ABOUT_MING)
    await forgotten(world)
    assert await other.states(cat) == ["active"]
    assert await other.rows("SELECT body FROM messages WHERE conversation_id = %(c)s") == [("我养猫",)]


async def test_not_to_be_learned_stays_after_forgetting(world: MemoryWorld) -> None:
    async with world.database.connection() as conn:
        await unlearned.set(conn, world.conversation, MING)
    await forgotten(world)
    assert await world.rows("SELECT user_id FROM unlearned") == [(MING,)]


async def test_the_bots_own_words_are_not_the_members(world: MemoryWorld) -> None:
    pos = await world.say("好的", MING, is_self=True)
    games = await world.remember("小满说好的", pos, about=BOT_ITSELF)
    assert (await forgotten(world)).messages == 0
    assert await world.states(games) == ["active"]


async def test_forgetting_twice_finds_nothing_the_second_time(world: MemoryWorld) -> None:
    await world.remember("小明养猫", await world.say("我养猫"), about=ABOUT_MING)
    assert await forgotten(world) == Forgotten(1, 1)
    assert await forgotten(world) == Forgotten(0, 0)


async def test_what_is_being_saved_is_forgotten_too(world: MemoryWorld) -> None:
    pos = await world.say("我养猫")
    claim = await world.claim("小明养猫", [pos], ABOUT_MING, "fact")
    async with world.database.transaction() as conn:
        await conn.execute("SELECT FROM messages WHERE pos = %(pos)s FOR SHARE", {"pos": pos})
        row = await memories.insert(conn, claim)
        assert row is not None
        forgetting = asyncio.create_task(forgotten(world))
        await world.blocked()
    assert (await forgetting).memories == 1
    assert await world.states(row) == ["gone"]


async def test_what_is_saved_while_forgetting_finds_no_evidence(world: MemoryWorld) -> None:
    pos = await world.say("我养猫")
    async with world.database.transaction() as conn:
        await forget.member(conn, world.conversation, MING)
        checking = asyncio.create_task(world.check(ABOUT_MING, [pos]))
        await world.blocked()
    assert (await checking).messages == ()


async def test_a_forgetting_that_fails_has_forgotten_nothing(world: MemoryWorld) -> None:
    pos = await world.say("我养猫")
    cat = await world.remember("小明养猫", pos, about=ABOUT_MING)
    async with world.database.connection() as conn, conn.transaction(force_rollback=True):
        await forget.member(conn, world.conversation, MING)
    assert await world.states(cat) == ["active"]
    assert await world.rows("SELECT body FROM messages") == [("我养猫",)]


async def test_a_claim_about_another_that_names_them_stays(world: MemoryWorld) -> None:
    weis = await world.remember("阿伟欠小明一顿饭", await world.say("我欠小明一顿饭", WEI), about=ABOUT_WEI)
    group = replace(await world.claim("小明是群里的吉祥物", [], GROUP, "fact"), evidence=(await world.row(1),))
    async with world.database.transaction() as conn:
        mascot = await memories.insert(conn, group)
    assert mascot is not None
    await forgotten(world)
    assert await world.states(weis, MemoryId(mascot)) == ["active", "active"]
