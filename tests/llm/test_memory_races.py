"""Saving while others write, people edit, members withdraw and processes die: no claim is lost, none stands without evidence."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncGenerator, Callable, Coroutine

import pytest

from db import forget, memories, memory_moderation
from db.memory_models import MemoryId
from db.memory_moderation import Edit
from db.models import JsonObject
from db.pool import Database, DatabaseUnavailable
from llm.memory.save import Saved
from settings import ROOT
from tests.db.memory_world import ABOUT_MING, MING, WEI, MemoryWorld
from tests.llm.conftest import Opener
from tests.llm.fake_service import Answer, says, text_at
from tests.llm.memory_world import Saving, saving, verdict

OLD, NEW, MERGED = "小明养了一只橘猫", "小明养了一只橘猫叫年糕", "小明养了一只叫年糕的橘猫"
Meddling = Callable[[Saving, MemoryId], Coroutine[None, None, object]]


@pytest.fixture
async def world(database: Database) -> MemoryWorld:
    """A group."""
    return await MemoryWorld.create(database)


@pytest.fixture
async def judged(world: MemoryWorld, open_models: Opener) -> AsyncGenerator[Saving]:
    """Saving without vectors; the judge says new until a test says otherwise."""
    async with saving(world, open_models, verdict("new", 0)) as opened_saving:
        yield opened_saving


async def cat(world: MemoryWorld) -> MemoryId:
    """The old claim, standing on message 1."""
    return await world.remember(OLD, await world.say("我养了一只橘猫"), about=ABOUT_MING)


async def contents(world: MemoryWorld) -> list[object]:
    """What is active."""
    return [row[0] for row in await world.rows("SELECT content FROM memories WHERE status = 'active' ORDER BY id")]


async def edit(judged: Saving, memory: MemoryId, content: str | None = None) -> None:
    """A person edits, or only locks, a memory."""
    async with judged.world.database.transaction() as conn:
        assert await memory_moderation.edit(conn, memory, Edit(content=content), actor="api")


async def delete(judged: Saving, memory: MemoryId) -> None:
    """A person deletes a memory."""
    async with judged.world.database.transaction() as conn:
        assert await memory_moderation.delete(conn, memory, actor="api")


async def withdraw_old(judged: Saving, memory: MemoryId) -> None:
    """The old claim's evidence is withdrawn."""
    await judged.world.withdraw(1)


async def meddled(judged: Saving, meddle: Meddling, *, times: int = 1) -> tuple[MemoryId, Saved]:
    """Save a second claim, while something happens to the first before each of so many answers."""
    old = await cat(judged.world)

    async def before(asked: int) -> None:
        if asked <= times:
            await meddle(judged, old)

    judged.models.before = before
    return old, await judged.save(NEW, await judged.world.say("猫叫年糕"))


@pytest.mark.parametrize("relation", ["same", "refines", "supersedes", "contradicts"])
async def test_a_target_that_was_withdrawn_meanwhile_takes_nothing_with_it(judged: Saving, relation: str) -> None:
    judged.service.script([verdict(relation, 1, MERGED)])
    old, saved = await meddled(judged, withdraw_old)
    assert saved.how == "new"
    assert await judged.world.states(old) == ["withdrawn"]
    assert await contents(judged.world) == [NEW]
    assert await judged.world.rows("SELECT * FROM memory_links") == []


@pytest.mark.parametrize("relation", ["same", "refines", "supersedes", "contradicts"])
async def test_a_target_that_was_deleted_meanwhile_does_not_break_the_save(judged: Saving, relation: str) -> None:
    judged.service.script([verdict(relation, 1, MERGED)])
    old, saved = await meddled(judged, delete)
    assert saved.how == "new"
    assert await judged.world.states(old) == ["gone"]
    assert await contents(judged.world) == [NEW]


async def test_a_target_that_a_person_edited_meanwhile_is_judged_again_as_it_is_now(judged: Saving) -> None:
    judged.service.script([verdict("same", 1), verdict("supersedes", 1)])
    old, saved = await meddled(judged, lambda saving_, memory: edit(saving_, memory, "小明养了一只橘狗"))
    assert saved.how == "contradicts"
    assert await judged.world.states(old) == ["active"]
    assert await judged.world.supported_by(old) == [1]
    assert await contents(judged.world) == ["小明养了一只橘狗", NEW]
    assert "橘狗" in text_at(judged.service.requests[1], "messages", 1, "content")


async def test_a_target_that_a_person_locked_meanwhile_is_kept(judged: Saving) -> None:
    judged.service.script([verdict("supersedes", 1)])
    old, saved = await meddled(judged, lambda saving_, memory: edit(saving_, memory))
    assert saved.how == "contradicts"
    assert await judged.world.states(old) == ["active"]
    assert await contents(judged.world) == [OLD, NEW]


async def test_a_target_that_changes_every_time_leaves_the_claim_new(judged: Saving) -> None:
    judged.service.script([verdict("supersedes", 1)])
    _, saved = await meddled(judged, lambda saving_, memory: edit(saving_, memory), times=9)
    assert saved.how == "new"
    assert await contents(judged.world) == [OLD, NEW]
    assert len(judged.service.requests) == 2


async def test_evidence_that_was_withdrawn_meanwhile_keeps_the_claim_out(judged: Saving) -> None:
    judged.service.script([verdict("supersedes", 1)])
    old = await cat(judged.world)
    pos = await judged.world.say("猫叫年糕")

    async def before(asked: int) -> None:
        await judged.world.withdraw(pos)

    judged.models.before = before
    saved = await judged.save(NEW, pos)
    assert (saved.how, saved.reason) == ("refused", f"证据不成立：#{pos} 已经撤回")
    assert await judged.world.states(old) == ["active"]
    assert await contents(judged.world) == [OLD]


async def test_an_equal_claim_that_was_written_meanwhile_gets_the_evidence(judged: Saving) -> None:
    await cat(judged.world)
    pos = await judged.world.say("猫叫年糕")
    twins: list[MemoryId] = []

    async def before(asked: int) -> None:
        twins.append(await judged.world.remember(NEW, 1, about=ABOUT_MING))

    judged.models.before = before
    saved = await judged.save(NEW, pos)
    assert (saved.how, saved.memory and saved.memory.id) == ("same", twins[0])
    assert await judged.world.supported_by(twins[0]) == [1, pos]


async def test_an_equal_claim_that_commits_at_that_moment_gets_the_evidence(judged: Saving) -> None:
    pos = await judged.world.say("我养了一只橘猫")
    claim = await judged.world.claim(OLD, [pos], ABOUT_MING, "fact")
    other = await judged.world.say("对，橘的")
    async with judged.world.database.transaction() as conn:
        twin = await memories.insert(conn, claim)
        saving_ = asyncio.create_task(judged.save(OLD, other))
        await judged.world.blocked()
    saved = await saving_
    assert (saved.how, saved.memory and saved.memory.id) == ("same", twin)
    assert judged.service.requests == []


def second_thoughts(body: JsonObject) -> Answer:
    """The first of two takes the old one's place; against each other they stand side by side."""
    old = text_at(body, "messages", 1, "content").split("旧记忆：\n")[1]
    close = [line.split(". ")[1].split("（")[0] for line in old.splitlines()]
    relation, which = ("supersedes", close.index(OLD) + 1) if OLD in close else ("contradicts", 1)
    return says(json.dumps({"relation": relation, "which": which, "text": ""}))


def refining_once(body: JsonObject) -> Answer:
    """The old claim is refined, any other is another matter."""
    return verdict("refines", 1) if f"{OLD}（" in text_at(body, "messages", 1, "content") else verdict("new", 0)


def now_and_then_refining(body: JsonObject) -> Answer:
    """What has to do with the third cat is refined, the rest is replaced."""
    return verdict("refines" if "第 3" in text_at(body, "messages", 1, "content") else "supersedes", 1)


async def test_two_that_supersede_one_at_once_lose_neither_claim(judged: Saving) -> None:
    old = await cat(judged.world)
    judged.service.brain = second_thoughts
    claims = ["小明养了一只橘猫叫年糕", "小明养了一只橘猫叫团子"]
    positions = [await judged.world.say(text) for text in claims]
    async with judged.world.database.transaction() as conn:
        await conn.execute("SELECT FROM memories WHERE id = %(id)s FOR UPDATE", {"id": old})
        both = [asyncio.create_task(judged.save(text, pos)) for text, pos in zip(claims, positions, strict=True)]
        await judged.world.blocked(2)
    saved = await asyncio.gather(*both)
    assert sorted(each.how for each in saved) == ["contradicts", "supersedes"]
    assert sorted(map(str, await contents(judged.world))) == sorted(claims)
    assert await judged.world.states(old) == ["superseded"]
    assert await judged.world.rows("SELECT count(*) FROM memory_links WHERE old_id = %(old)s", old=old) == [(1,)]


async def test_two_that_refine_one_at_once_lose_neither_claim(judged: Saving) -> None:
    old = await cat(judged.world)
    judged.service.brain = refining_once
    claims = ["小明养了一只橘猫叫年糕", "小明养了一只橘猫三岁了"]
    positions = [await judged.world.say(text) for text in claims]
    async with judged.world.database.transaction() as conn:
        await conn.execute("SELECT FROM memories WHERE id = %(id)s FOR UPDATE", {"id": old})
        both = [asyncio.create_task(judged.save(text, pos)) for text, pos in zip(claims, positions, strict=True)]
        await judged.world.blocked(2)
    assert sorted(each.how for each in await asyncio.gather(*both)) == ["new", "refines"]
    assert sorted(map(str, await contents(judged.world))) == sorted(claims)


async def test_a_merge_and_the_withdrawal_of_its_origin_at_once_leave_nothing_of_it(judged: Saving) -> None:
    old = await cat(judged.world)
    judged.service.script([verdict("refines", 1, MERGED)])
    pos = await judged.world.say("猫叫年糕")
    async with judged.world.database.transaction() as conn:
        # The save has archived the old claim and waits with the link; the withdrawal then waits for the old claim.
        await conn.execute("LOCK TABLE memory_links IN SHARE MODE")
        merging = asyncio.create_task(judged.save(NEW, pos))
        await judged.world.blocked()
        withdrawing = asyncio.create_task(judged.world.withdraw(1))
        await judged.world.blocked(2)
    saved = await merging
    await withdrawing
    assert saved.memory is not None
    assert (saved.how, await judged.world.states(old, saved.memory.id)) == ("refines", ["withdrawn", "withdrawn"])
    assert await contents(judged.world) == []


async def test_a_backend_that_is_killed_between_the_writes_leaves_nothing_half_written(judged: Saving) -> None:
    old = await cat(judged.world)
    judged.service.script([verdict("supersedes", 1)])
    pos = await judged.world.say("猫叫年糕")
    async with judged.world.database.transaction() as conn:
        await conn.execute("LOCK TABLE memory_links IN SHARE MODE")
        killed = asyncio.create_task(judged.save(NEW, pos))
        await conn.execute("SELECT pg_terminate_backend(%(pid)s)", {"pid": await judged.world.blocked()})
        with pytest.raises(DatabaseUnavailable):
            await killed
    assert await judged.world.states(old) == ["active"]
    assert await contents(judged.world) == [OLD]
    assert await judged.world.rows("SELECT message FROM memory_evidence WHERE memory_id <> %(old)s", old=old) == []
    assert (await judged.save(NEW, pos)).how == "supersedes"


async def test_a_process_that_is_killed_between_the_writes_leaves_nothing_half_written(
    world: MemoryWorld, database_url: str
) -> None:
    pos = await world.say("我养猫")
    arguments = [sys.executable, "-m", "tests.llm.saving_process", database_url, str(world.conversation)]
    async with world.database.transaction() as conn:
        await conn.execute("LOCK TABLE memory_evidence IN SHARE MODE")
        process = subprocess.Popen(arguments, cwd=ROOT, stderr=subprocess.DEVNULL)  # noqa: ASYNC220 - returns at once
        try:
            backend = await world.blocked()
        finally:
            process.kill()
            await asyncio.to_thread(process.wait)
    async with asyncio.timeout(20):
        alive = "SELECT pid FROM pg_stat_activity WHERE pid = %(pid)s"
        while await world.rows(alive, pid=backend):  # noqa: ASYNC110 - what is waited for has no event
            await asyncio.sleep(0.01)
    assert await world.rows("SELECT id FROM memories") == []
    assert await world.rows("SELECT memory_id FROM memory_evidence") == []
    assert (await world.check(ABOUT_MING, [pos])).messages


async def test_saves_withdrawals_and_a_forgetting_at_once_leave_no_claim_without_evidence(judged: Saving) -> None:
    world = judged.world
    judged.service.brain = now_and_then_refining
    positions = [await world.say(f"我养了第 {number} 只橘猫") for number in range(12)]
    for number in range(3):
        await world.say(f"小明养了第 {number} 只橘猫", WEI)

    async def forgetting() -> None:
        async with world.database.transaction() as conn:
            await forget.member(conn, world.conversation, WEI)

    def claim(number: int, *labels: int) -> Coroutine[None, None, Saved]:
        return judged.save(f"小明养了第 {number} 只橘猫", *labels)

    work = [claim(number, pos, positions[-1]) for number, pos in enumerate(positions)]
    ends = [world.withdraw(*positions[start : start + 2]) for start in range(0, 10, 2)]
    ended = await asyncio.gather(*work[:6], *ends, forgetting(), *work[6:], return_exceptions=True)
    assert [error for error in ended if isinstance(error, BaseException)] == []
    await world.withdraw(*positions)
    assert await contents(world) == []
    assert await world.rows("SELECT body FROM messages WHERE sender_id <> %(ming)s", ming=MING) == [("",)] * 3
