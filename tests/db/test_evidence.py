"""Evidence: which messages may support a claim, one rule a test, and why the others may not."""

from __future__ import annotations

import asyncio

import pytest

from db import evidence, unlearned
from db.evidence import Cited
from db.memory_models import BOT as BOT_ITSELF
from db.memory_models import GROUP, Subject
from db.pool import Database
from tests.db.memory_world import ABOUT_MING, ABOUT_WEI, BOT, MING, ROBOT, START, WEI, MemoryWorld


@pytest.fixture
async def world(database: Database) -> MemoryWorld:
    """A group."""
    return await MemoryWorld.create(database)


async def test_what_a_member_said_supports_a_claim_about_them(world: MemoryWorld) -> None:
    first, second = await world.say("我养了一只猫"), await world.say("它叫年糕")
    found = await world.check(ABOUT_MING, [second, first, second])
    assert found.messages == (await world.row(second), await world.row(first))
    assert found.refusal == ""


async def test_without_a_label_nothing_is_supported(world: MemoryWorld) -> None:
    found = await world.check(ABOUT_MING, [])
    assert (found.messages, found.refusal) == ((), "没有给出证据：请写上支持它的消息编号")


async def test_a_message_that_this_run_was_not_shown_does_not_count(world: MemoryWorld) -> None:
    pos = await world.say("我养了一只猫")
    found = await world.check(ABOUT_MING, [pos], shown=[pos + 1])
    assert (found.messages, found.refusal) == ((), f"证据不成立：#{pos} 这轮没看到这条消息")


async def test_a_message_of_another_conversation_does_not_count(world: MemoryWorld) -> None:
    other = await MemoryWorld.create(world.database, 5700000002)
    await other.say("随便说说")
    pos = await other.say("我养了一只猫")
    found = await world.check(ABOUT_MING, [pos])
    assert (found.messages, found.refusal) == ((), f"证据不成立：#{pos} 这轮没看到这条消息")


async def test_a_withdrawn_message_does_not_count(world: MemoryWorld) -> None:
    pos = await world.say("我养了一只猫")
    await world.withdraw(pos)
    found = await world.check(ABOUT_MING, [pos])
    assert (found.messages, found.refusal) == ((), f"证据不成立：#{pos} 已经撤回")


async def test_a_reply_to_the_subject_is_not_their_own_word(world: MemoryWorld) -> None:
    pos = await world.say("我搬家了")
    reply = await world.say("小明搬到海边去了", WEI, quoted_id=await world.row(pos), quote_name="小明", quote_text="我搬家了")
    found = await world.check(ABOUT_MING, [reply])
    assert (found.messages, found.refusal) == ((), f"证据不成立：#{reply} 不是本人说的")


async def test_the_bots_own_words_support_nothing_about_others(world: MemoryWorld) -> None:
    pos = await world.say("小明养了一只猫", BOT)
    for subject in (ABOUT_MING, GROUP):
        found = await world.check(subject, [pos])
        assert (found.messages, found.refusal) == ((), f"证据不成立：#{pos} 是你自己说的，不能当别人的证据")
    assert (await world.check(Subject("member", BOT), [pos])).messages == ()


async def test_the_bots_own_words_support_a_claim_about_the_bot(world: MemoryWorld) -> None:
    pos = await world.say("我答应周六带牌", BOT)
    assert (await world.check(BOT_ITSELF, [pos])).messages == (await world.row(pos),)


async def test_a_robot_is_no_witness(world: MemoryWorld) -> None:
    pos = await world.say("群规：每周六桌游", ROBOT)
    unmarked = await world.say("群规：每周日休息", ROBOT, is_robot=False)
    found = await world.check(GROUP, [pos, unmarked])
    assert (found.messages, found.refusal) == ((), f"证据不成立：#{pos} 是机器人说的；#{unmarked} 是机器人说的")


async def test_a_command_a_nudge_and_an_empty_message_say_nothing(world: MemoryWorld) -> None:
    command = await world.say("/群友 帮助", is_command=True)
    poke = await world.say("戳了戳 小满", kind="poke")
    empty = await world.say("")
    found = await world.check(ABOUT_MING, [command, poke, empty])
    assert found.messages == ()
    assert found.refusal == "证据不成立：" + "；".join(f"#{pos} 不是一句话" for pos in (command, poke, empty))


async def test_who_is_not_learned_from_supports_nothing(world: MemoryWorld) -> None:
    pos, weis = await world.say("我养了一只猫"), await world.say("周六聚餐", WEI)
    async with world.database.connection() as conn:
        assert await unlearned.set(conn, world.conversation, MING)
    assert (await world.check(ABOUT_MING, [pos])).refusal == f"证据不成立：#{pos} 这个人说过别记"
    assert (await world.check(GROUP, [pos, weis])).messages == (await world.row(weis),)


async def test_about_the_group_any_person_may_speak(world: MemoryWorld) -> None:
    first, second = await world.say("每周六桌游"), await world.say("对，下午两点", WEI)
    assert len((await world.check(GROUP, [first, second])).messages) == 2


async def test_what_counts_is_kept_and_what_does_not_is_left_out(world: MemoryWorld) -> None:
    good, weis = await world.say("我养了一只猫"), await world.say("他养猫", WEI)
    found = await world.check(ABOUT_MING, [weis, good])
    assert (found.messages, found.refusal) == ((await world.row(good),), "")
    assert (await world.check(ABOUT_WEI, [weis, good])).messages == (await world.row(weis),)


async def test_labels_beyond_any_number_are_just_not_there(world: MemoryWorld) -> None:
    found = await world.check(ABOUT_MING, [10**30, -1], shown=[1])
    assert found.messages == ()
    assert found.refusal.count("没看到") == 2


async def test_at_most_twenty_labels_are_looked_at_and_five_reasons_told(world: MemoryWorld) -> None:
    for number in range(21):
        await world.say(f"第 {number} 句", WEI)
    pos = await world.say("我养了一只猫")
    found = await world.check(ABOUT_MING, range(1, pos + 1))
    assert found.messages == ()
    assert found.refusal.count("不是本人说的") == 5


async def test_a_withdrawal_waits_for_the_commit_of_what_stands_on_it(world: MemoryWorld) -> None:
    pos = await world.say("我养了一只猫")
    cited = Cited(world.conversation, ABOUT_MING, (pos,), frozenset({pos}))
    async with world.database.transaction() as conn:
        assert (await evidence.check(conn, cited)).messages
        withdrawing = asyncio.create_task(world.withdraw(pos))
        await world.blocked()
        assert not withdrawing.done()
    await withdrawing
    assert (await world.check(ABOUT_MING, [pos])).messages == ()


async def test_a_check_waits_for_a_withdrawal_and_sees_it(world: MemoryWorld) -> None:
    pos = await world.say("我养了一只猫")
    async with world.database.transaction() as conn:
        assert await world.withdraw_in(conn, pos)
        checking = asyncio.create_task(world.check(ABOUT_MING, [pos]))
        await world.blocked()
    assert (await checking).refusal == f"证据不成立：#{pos} 已经撤回"


async def test_an_early_withdrawal_meets_its_message_and_nothing_can_be_kept(world: MemoryWorld) -> None:
    pos = await world.say("说错了", withdrawn_at=START, withdrawn_by=MING)
    assert (await world.check(ABOUT_MING, [pos])).refusal == f"证据不成立：#{pos} 已经撤回"
