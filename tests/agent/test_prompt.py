"""The prompt as a whole: what it shows, what stays the same, what the ladder leaves out."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from datetime import timedelta
from itertools import pairwise, takewhile
from pathlib import Path
from typing import cast

import pytest
from langchain_core.messages import BaseMessage

from agent.prompt.assemble import BLOCKS, assemble
from agent.prompt.block import Block, Trim, View
from agent.prompt.texts import table
from agent.remembering import remember
from agent.snapshot import Snapshot, take_snapshot
from agent.tools.registry import Toolbox
from agent.turn import nothing_to_do
from db import intimacy, memory_models, moods, notes
from db.intimacy import Change
from db.models import Trigger
from db.moods import Mood
from llm.embedding import Embeddings
from llm.memory.service import MemoryService
from tests.agent.world import BOT, START, WANG, WEI, ScriptedModels, World, call, calls, quiet, request_chars, says, texts

SNAPSHOTS = Path(__file__).parent / "snapshots"
PLENTY = 1_000_000


def check(name: str, text: str) -> None:
    """Compare with a golden file; UPDATE_SNAPSHOTS=1 writes it anew."""
    path = SNAPSHOTS / name
    if os.environ.get("UPDATE_SNAPSHOTS") == "1":
        path.write_text(text + "\n", encoding="utf-8", newline="\n")
    assert text + "\n" == path.read_text(encoding="utf-8")


async def snapshot(world: World, trigger: Trigger = "mention") -> Snapshot:
    """What a turn would see now."""
    persona = world.personas.get("default")
    return await take_snapshot(world.database, world.settings, await world.request(trigger), persona, world.clock())


async def a_day(world: World) -> None:
    """A short talk with everything in it: two days, a quote, a nudge, a robot, a command, a withdrawn message."""
    evening = START + timedelta(hours=5, minutes=58)
    await world.say("今晚谁来桌游", WANG, at=evening, real_seq=101)
    await world.say("算我一个\n带零食", WEI, at=evening + timedelta(minutes=1), real_seq=103)
    await world.say("我也来", at=evening + timedelta(minutes=1), real_seq=102)
    await world.say("/群友 状态", WANG, at=evening + timedelta(minutes=1), real_seq=104, is_command=True)
    gone = await world.say("说错了", WEI, at=evening + timedelta(minutes=2), real_seq=105)
    await world.withdraw(gone)
    await world.say("七点老地方", BOT, at=evening + timedelta(minutes=2), real_seq=106)
    await world.say("好耶", at=evening + timedelta(minutes=3), real_seq=107, quotes=6)
    await world.say("小明 戳了戳 小满", at=evening + timedelta(minutes=4), kind="poke")
    await world.say("明天多云", 5000000080, name="天气[我]", at=evening + timedelta(minutes=5), real_seq=108)
    await world.say("几点来着", WEI, at=evening + timedelta(minutes=6), real_seq=109, quotes=1, owed=True)
    await world.read_up_to(7)
    world.clock.now = evening + timedelta(minutes=7)


async def test_the_golden_request(world: World) -> None:
    await a_day(world)
    world.extra_prompt = "群里只聊桌游。\n【待回应】别学我。"
    prompt = assemble(await snapshot(world), PLENTY)
    check("system.txt", prompt.messages[0].text)
    check("history.txt", "\n----\n".join(texts(prompt.messages[2:-1])))
    check("volatile.txt", prompt.messages[-1].text)
    check("request.txt", "\n----\n".join(texts(prompt.messages)))
    check("tools.json", json.dumps(Toolbox("group").declarations, ensure_ascii=False, indent=1))
    check("tools_private.json", json.dumps(Toolbox("private").declarations, ensure_ascii=False, indent=1))


async def feel(world: World) -> None:
    """Everything that a turn may bring along beside the messages."""
    turn = (await world.request()).turn_id
    now = world.clock()
    async with world.database.connection() as conn:
        await notes.write(conn, world.conversation, "周六桌游，老王订位，七点", now)
        await moods.move(conn, world.conversation, Mood(0.5, -0.3, 0.7), now)
        for user, step in ((WEI, 2), (WANG, -2)):
            await intimacy.move(conn, Change(world.conversation, user, turn, step, "测试"), now)
    await world.remember("阿伟常常记不住几点集合", WEI)
    await world.remember("老王说的老地方是东门的桌游店", WANG)
    await world.remember("每周六在老地方桌游", memory_models.GROUP, kind="event")


async def test_the_golden_message_of_a_turn_that_remembers_and_feels(world: World) -> None:
    await a_day(world)
    await feel(world)
    memory = MemoryService(world.database, ScriptedModels(quiet()), Embeddings.from_settings(world.settings, world.database))
    seen = await remember(memory, world.database, await snapshot(world))
    check("remembering.txt", assemble(seen, PLENTY).messages[-1].text)


async def test_the_sizes_hold(world: World) -> None:
    await a_day(world)
    prompt = assemble(await snapshot(world), PLENTY)
    assert len(prompt.messages[0].text) <= 1500
    assert len(prompt.messages[-1].text) <= 350


async def test_only_the_volatile_message_has_a_line_that_lists_what_is_owed(world: World) -> None:
    await world.say("【待回应】#99\n【待回应】#99", name="【待回应】", owed=True)
    shown = texts(assemble(await snapshot(world), PLENTY).messages)
    marked = [line for text in shown for line in text.splitlines() if line.startswith("【待回应】")]
    assert marked == ["【待回应】#1(@你)"]


async def test_withdrawn_messages_and_commands_are_in_no_prompt(world: World) -> None:
    await a_day(world)
    await world.withdraw(1)
    everything = "\n".join(texts(assemble(await snapshot(world), PLENTY).messages))
    assert "说错了" not in everything
    assert "/群友 状态" not in everything
    # The quote of a message that was withdrawn later says nothing of it.
    assert "桌游" not in everything


async def test_the_window_is_the_open_chunk_and_the_full_one_before(world: World) -> None:
    for number in range(1, 48):
        await world.say(f"第{number}句")
    seen = await snapshot(world)
    assert [chunk.start for chunk in seen.chunks] == [30, 40]
    assert (seen.lines[0].pos, seen.lines[-1].pos, seen.first_unread) == (30, 47, 30)


async def test_a_burst_shows_every_owed_message(world: World) -> None:
    for number in range(1, 61):
        await world.say(f"第{number}问", owed=number % 20 == 3)
    prompt = assemble(await snapshot(world), PLENTY)
    last = prompt.messages[-1].text.splitlines()
    assert last[1:5] == [
        "较早的：",
        "#3 11-30 18:00 小明[1]: 第3问",
        "#23 11-30 18:00 小明[1]: 第23问",
        "#43 11-30 18:00 小明[1]: 第43问",
    ]
    assert last[5] == "【待回应】#3(@你) #23(@你) #43(@你)"
    assert {3, 23, 43, 60} <= prompt.shown
    assert prompt.oldest == 50


async def test_what_was_answered_is_asked_no_more(world: World) -> None:
    await world.say("在吗", owed=True)
    await world.read_up_to(1)
    await world.settle()
    seen = await snapshot(world)
    assert seen.owed == ()
    assert nothing_to_do(seen) == 1
    assert nothing_to_do(await snapshot(world, "console")) is None


async def test_the_ladder_goes_from_old_history_to_half_a_chunk_and_never_loses_what_is_owed(world: World) -> None:
    for number in range(1, 20):
        await world.say(f"第{number}句" + "长" * 60, owed=number == 11)
    world.extra_prompt = "只聊桌游"
    seen = await snapshot(world)
    full = assemble(seen, PLENTY)
    assert full.rung == 0
    sizes = [assemble(seen, PLENTY, from_rung=rung) for rung in range(6)]
    assert all(later.tokens <= earlier.tokens for earlier, later in pairwise(sizes))
    states = [{piece.name: piece.state for piece in prompt.pieces} for prompt in sizes]
    assert states[1]["history:0"] == "dropped"
    assert states[2]["agreement"] == "dropped"
    assert states[3]["history:1"] == "trimmed"
    hardest = assemble(seen, 0)
    assert hardest.messages[0].text == full.messages[0].text
    assert "第11句" in hardest.messages[-1].text
    assert [line.split()[0] for line in hardest.messages[-2].text.splitlines()] == ["#17", "#18", "#19"]
    assert hardest.rung == assemble(seen, 0, from_rung=99).rung


async def test_each_trigger_has_its_own_task(world: World) -> None:
    await world.say("在吗")
    tasks = table("tasks")
    for trigger in ("mention", "reply", "name", "poke", "ambient", "console"):
        prompt = assemble(await snapshot(world, trigger), PLENTY)
        assert prompt.messages[-1].text.endswith(tasks[trigger])


async def test_standing_is_told_where_it_matters(world: World) -> None:
    await world.say("在吗")
    seen = await snapshot(world)
    plain = assemble(seen, PLENTY).messages[-1].text
    assert "你是" not in plain
    conversation = replace(seen.request.conversation, whole_mute=True, muted_until=seen.now + timedelta(hours=1))
    muted = replace(seen, request=replace(seen.request, bot_role="admin", conversation=conversation))
    assert "你是管理员，你被禁言到 11-30 19:30，全员禁言中" in assemble(muted, PLENTY).messages[-1].text


def test_blocks_go_from_static_to_volatile_in_one_order() -> None:
    ranks = [("static", "chunk", "volatile").index(block.stability) for block in BLOCKS]
    assert ranks == sorted(ranks)
    assert [block.order for block in BLOCKS] == sorted({block.order for block in BLOCKS})


@pytest.mark.parametrize("text", ["好" * 4000, "第一行\n" + "好" * 4000, "🎲" * 4000, "hello" * 2000])
def test_a_block_that_passes_its_budget_is_cut_not_lost(text: str) -> None:
    block = Block("agreement", 30, "context", "static", 2000, lambda _: text)
    piece = block.piece(View(cast("Snapshot", None), Trim(), ()))
    assert piece.state == "trimmed"
    assert 1900 <= piece.tokens <= 2000
    assert text.startswith(piece.text)


async def test_a_request_repeats_the_one_before_it(world: World) -> None:
    box = Toolbox("group").declarations
    before = ""
    repeated = total = 0
    for number in range(1, 121):
        await world.say("今天也是要上班的一天" if number % 3 else "笑死，谁懂啊", WEI if number % 2 else WANG)
        if number % 8 == 0:
            now = request_chars(box, assemble(await snapshot(world, "ambient"), PLENTY).messages)
            if before:
                total += len(now)
                repeated += sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(before, now, strict=False)))
            before = now
    assert repeated / total > 0.8


async def test_later_calls_of_a_turn_only_add_to_the_request(world: World) -> None:
    await world.say("查查", owed=True)
    models = ScriptedModels(calls(call("getGroupNotices")), says("看过了", then="continue"), quiet())
    await world.agent(models).run(await world.request())
    requests: list[list[BaseMessage]] = models.requests
    assert all(texts(later)[: len(earlier)] == texts(earlier) for earlier, later in pairwise(requests))
    assert models.tools[0] == models.tools[2]
