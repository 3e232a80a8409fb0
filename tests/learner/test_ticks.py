"""Who is due, in which order, and how much of a long past is learned before it is another's turn."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import timedelta

from db import conversations, learner
from db.learned_models import LearnTask
from db.learner import Due, Where, Work
from db.models import Conversation, ConversationId
from db.pool import Database
from learner.engine import BUDGET_GONE
from learner.service import ROUNDS
from llm.errors import ModelUnavailable
from llm.types import CallContext
from tests.db.memory_world import BOT, ROBOT, START, WEI, MemoryWorld
from tests.learner.engine_world import GROUPS, NOW, Learning, Note, Scripted


async def due(learning: Learning, *works: Work, minutes: float = 600) -> list[Due]:
    """Who is due so long after the chat began."""
    async with learning.database.connection() as conn:
        return await learner.due(conn, Where(GROUPS, ()), works or [Work("topics")], START + timedelta(minutes=minutes))


async def set_where(world: MemoryWorld, statement: str) -> None:
    """Change the group's row."""
    await world.rows(f"UPDATE conversations SET {statement} WHERE id = %(c)s RETURNING id")


async def test_ten_messages_are_due_when_the_oldest_is_a_quarter_of_an_hour_old(database: Database) -> None:
    learning = await Learning.create(database)
    await learning.chat(9)
    assert await due(learning) == []
    await learning.chat(1)
    # The first was said one minute after the start.
    assert await due(learning, minutes=15.9) == []
    [item] = await due(learning, minutes=16)
    assert (item.conversation_id, item.tasks) == (learning.world.conversation, ["topics"])


async def test_fifty_messages_are_due_at_once(database: Database) -> None:
    learning = await Learning.create(database)
    await learning.chat(49)
    assert await due(learning, minutes=1) == []
    await learning.chat(1)
    assert len(await due(learning, minutes=1)) == 1


async def test_what_is_no_source_does_not_make_it_due(database: Database) -> None:
    learning = await Learning.create(database)
    world = learning.world
    await learning.chat(9)
    await world.say("我", BOT)
    await world.say("签到", ROBOT)
    await world.say("/群友 状态", is_command=True)
    await world.say("", body="[图片]")
    await world.say("别记我的", WEI)
    withdrawn = await world.say("撤回的")
    await world.withdraw(withdrawn)
    await world.rows("INSERT INTO unlearned (conversation_id, user_id) VALUES (%(c)s, %(u)s) RETURNING user_id", u=WEI)
    assert await due(learning) == []


async def test_a_group_where_only_robots_talk_gets_its_cursor_moved(database: Database) -> None:
    learning = await Learning.create(database)
    await learning.world.rows(
        """
        INSERT INTO messages (conversation_id, pos, sender_id, sender_name, text, body, is_robot, sent_at)
        SELECT %(c)s, n, 5000000080, '群管家', '签到', '签到', true, now() FROM generate_series(1, 600) n RETURNING id
        """
    )
    await set_where(learning.world, "last_pos = 600")
    task = Scripted()
    await learning.learner(task).tick()
    assert (task.asked, (await learning.cursor())[0] > 100) == ([], True)


async def test_only_enabled_groups_that_learn_and_were_not_left_are_due(database: Database) -> None:
    learning = await Learning.create(database)
    await learning.chat(10)
    for statement, expected in (
        ("enabled = false", 0),
        ("enabled = true", 1),
        ("learning = false", 0),
        ("learning = true, left_at = now()", 0),
        ("left_at = NULL, enabled = NULL", 1),
        ("target_id = 5700000099", 0),
        ("kind = 'private', target_id = 5700000001", 0),
        ("enabled = true", 1),
    ):
        await set_where(learning.world, statement)
        assert len(await due(learning)) == expected, statement


async def test_an_owner_in_private_is_due_without_being_enabled(database: Database) -> None:
    learning = await Learning.create(database)
    await learning.chat(10)
    await set_where(learning.world, "kind = 'private', target_id = 5000000021")
    async with database.connection() as conn:
        assert len(await learner.due(conn, Where((), (5000000021,)), [Work("topics")], NOW)) == 1
        assert await learner.due(conn, Where((5000000021,), ()), [Work("topics")], NOW) == []


async def test_each_task_is_due_by_its_own_cursor_and_never_past_the_one_before(database: Database) -> None:
    learning = await Learning.create(database)
    await learning.chat(10)
    works = [Work("topics"), Work("memories", "topics"), Work("slang")]
    assert (await due(learning, *works))[0].tasks == ["topics", "slang"]
    async with database.connection() as conn:
        assert await learner.advance(conn, learner.Move(learning.world.conversation, "topics", 0, 10))
    assert (await due(learning, *works))[0].tasks == ["memories", "slang"]


async def test_who_waits_longest_comes_first_and_who_had_a_turn_goes_to_the_end(database: Database) -> None:
    learning = await Learning.create(database, 3)
    one, two, three = learning.worlds
    for world in (two, one, three):
        await learning.chat(60, world)
    assert [item.conversation_id for item in await due(learning)] == [two.conversation, one.conversation, three.conversation]
    async with database.connection() as conn:
        assert await learner.advance(conn, learner.Move(two.conversation, "topics", 0, 10))
    assert [item.conversation_id for item in await due(learning)] == [one.conversation, three.conversation, two.conversation]


async def test_a_long_past_does_not_keep_the_others_waiting(database: Database) -> None:
    learning = await Learning.create(database, 2)
    big, small = learning.worlds
    await learning.chat(60, big)
    await learning.chat(10, small)
    order: list[ConversationId] = []
    task = Scripted(size=5)

    def note(_: object) -> None:
        order.append(task.batches[-1].conversation.id)

    task.objects = note
    await learning.learner(task).tick()
    assert order == [big.conversation] * ROUNDS + [small.conversation]
    assert (await learning.cursor(world=big), await learning.cursor(world=small)) == ((20, 0, None), (5, 0, None))


async def test_the_rest_below_ten_messages_waits_for_more(database: Database) -> None:
    learning = await Learning.create(database)
    await learning.chat(14)
    task = Scripted(size=10)
    await learning.learner(task).tick()
    assert (len(task.asked), await learning.cursor()) == (1, (10, 0, None))


async def test_a_bad_message_in_a_due_batch_is_isolated_within_one_tick(database: Database) -> None:
    learning = await Learning.create(database)
    await learning.chat(30)
    await learning.world.say("毒")
    await learning.chat(30)
    task = Scripted(size=50)
    task.objects = lambda shown: ValueError("坏") if "毒" in shown else None
    for _ in range(4):
        await learning.learner(task).tick()
    assert await learning.skipped() == [31]


async def test_runs_at_once_are_bounded(database: Database) -> None:
    learning = await Learning.create(database, 3)
    for world in learning.worlds:
        await learning.chat(10, world)
    task = Scripted(gate=asyncio.Event())
    working = learning.learner(task, learner_at_once=2)
    ticking = asyncio.create_task(working.tick())
    async with asyncio.timeout(20):
        while len(task.asked) < 2:  # noqa: ASYNC110 - what is waited for has no event
            await asyncio.sleep(0.01)
    assert (len(task.asked), working.activity().running) == (2, 2)
    await working.tick()
    assert len(task.asked) == 2
    assert task.gate is not None
    task.gate.set()
    await ticking
    assert [await learning.cursor(world=world) for world in learning.worlds] == [(10, 0, None)] * 3


async def test_more_at_once_than_the_pool_has_room_for_is_not_taken(database: Database) -> None:
    learning = await Learning.create(database)
    assert learning.learner(learner_at_once=16).activity().at_once == 3


async def test_two_learners_at_once_learn_everything_once(database: Database, database_url: str) -> None:
    learning = await Learning.create(database, 3)
    for world in learning.worlds:
        await learning.chat(40, world)
    first = learning.learner(Scripted(size=10), learner_at_once=2)
    other = Database(database_url)
    await other.open()
    learning.database = other
    second = learning.learner(Scripted(size=10), learner_at_once=2)
    for _ in range(3):
        await asyncio.gather(first.tick(), second.tick())
    await other.close()
    for world in learning.worlds:
        learned = [label for _, labels in await learning.found(world) for label in labels]
        assert learned == list(range(1, 41))


async def test_one_groups_failure_stops_no_other_group(database: Database) -> None:
    learning = await Learning.create(database, 2)
    one, two = learning.worlds
    await learning.chat(10, one)
    await learning.chat(10, two)
    task = Scripted()
    task.objects = lambda _: ModelUnavailable("没有应答") if task.batches[-1].conversation.id == one.conversation else None
    await learning.learner(task).tick()
    assert (await learning.cursor(world=one), await learning.cursor(world=two)) == ((0, 1, "没有应答"), (10, 0, None))


async def test_a_group_without_tokens_does_not_stop_the_others(database: Database) -> None:
    learning = await Learning.create(database, 2)
    one, two = learning.worlds
    await learning.chat(10, one)
    await learning.chat(10, two)
    learning.tokens.left[one.conversation] = 0
    await learning.learner(Scripted()).tick()
    assert (await learning.cursor(world=one), await learning.cursor(world=two)) == ((0, 0, None), (10, 0, None))
    assert (await learning.learner(Scripted()).run(one.conversation)).stopped == {"topics": BUDGET_GONE}


async def test_a_tick_never_moves_what_turns_have_read(database: Database) -> None:
    learning = await Learning.create(database)
    await learning.chat(10)
    await learning.learner(Scripted()).tick()
    async with database.connection() as conn:
        place = await conversations.get(conn, learning.world.conversation)
    assert place is not None
    assert (place.watermark, place.diced_pos) == (0, 0)


@dataclass(slots=True)
class Mending:
    """Mends so many pieces, each one row, or fails."""

    pieces: int
    error: Exception | None = None
    name: LearnTask = "topics"
    asked: int = 0

    async def mend(self, place: Conversation, call: CallContext) -> Note | None:
        """Find the next piece."""
        assert call.conversation_id == place.id
        self.asked += 1
        if self.error is not None:
            raise self.error
        self.pieces -= 1
        return Note(place.id, self.name, (0,)) if self.pieces >= 0 else None


async def break_topic(learning: Learning) -> None:
    """A topic that wants a new summary."""
    await learning.world.rows(
        """
        INSERT INTO topics (conversation_id, first_at, last_at, last_pos, stale)
        VALUES (%(c)s, now(), now(), 1, true) RETURNING id
        """
    )


async def test_what_lost_its_evidence_is_mended_though_nothing_new_is_said(database: Database) -> None:
    learning = await Learning.create(database, 2)
    learning.mender = mending = Mending(1)
    await learning.learner().tick()
    assert mending.asked == 0
    await break_topic(learning)
    await learning.learner().tick()
    assert (mending.asked, await learning.found()) == (1, [("topics", [0])])
    assert await learning.found(learning.worlds[1]) == []


async def test_mending_that_fails_waits_longer_each_time_and_goes_on_by_hand(database: Database) -> None:
    learning = await Learning.create(database)
    learning.mender = mending = Mending(2, ModelUnavailable("没有应答"))
    await break_topic(learning)
    await learning.learner().tick()
    await learning.learner().tick()
    assert (mending.asked, await learning.cursor()) == (1, (0, 1, "没有应答"))
    mending.error = None
    await learning.learner().run(learning.world.conversation)
    assert await learning.found() == [("topics", [0])] * 2


async def test_without_tokens_or_a_model_nothing_is_mended(database: Database) -> None:
    learning = await Learning.create(database)
    learning.mender = mending = Mending(2)
    await break_topic(learning)
    learning.tokens.left[learning.world.conversation] = 0
    await learning.learner().tick()
    learning.tokens.left.clear()
    learning.tokens.is_demo = True
    await learning.learner().tick()
    assert (mending.asked, await learning.cursor()) == (0, (0, 0, None))
