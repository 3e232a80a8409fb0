"""Whether a conversation wants a turn: rows and rules, with dice that tell."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import pytest

from db import conversations, memberships
from db.models import Conversation, ConversationId, ConversationKey
from db.moderation import ConversationSettings, change_settings
from db.pool import Database
from plugins.chat.own import OwnAccounts
from plugins.chat.planner import NoTurn, Plan, Planner
from settings import load_settings

BOT, BOT2 = 5000000001, 5000000002
MING, WEI = 5000000011, 5000000012
GROUP = 5700000001
NOW = datetime(2026, 11, 30, 4, 0, tzinfo=UTC)  # noon in Shanghai


@dataclass
class Desk:
    """A planner with its dice, its clock and its count of calls in the test's hands."""

    database: Database
    own: OwnAccounts = field(default_factory=OwnAccounts)
    now: datetime = NOW
    spent: int = 0
    rolls: list[float] = field(default_factory=list[float])
    pos: int = 0

    async def where(self, kind: str = "group", target: int = GROUP) -> Conversation:
        """The conversation as it is."""
        async with self.database.transaction() as conn:
            key = ConversationKey("private" if kind == "private" else "group", target)
            return (await conversations.ensure(conn, [conversations.KnownConversation(key)]))[0]

    async def say(self, *, user: int = MING, call: str | None = None, account: int = BOT, mark: str = "") -> None:
        """Somebody says something, and calls if so asked. ``mark``: the column that says it is not a person's line."""
        self.pos += 1
        row = (await self.where()).id
        flags = {name: name == mark for name in ("is_self", "is_robot", "is_command", "backfilled")}
        async with self.database.transaction() as conn:
            await conn.execute(
                """
                INSERT INTO messages (conversation_id, pos, sender_id, sender_name, body, sent_at,
                                      is_self, is_robot, is_command, backfilled)
                VALUES (%(c)s, %(pos)s, %(user)s, '某人', '话', %(now)s,
                        %(is_self)s, %(is_robot)s, %(is_command)s, %(backfilled)s)
                """,
                {"c": row, "pos": self.pos, "user": user, "now": self.now, **flags},
            )
            await conversations.take_positions(conn, [row], [self.pos])
            if call is not None:
                await conn.execute(
                    """
                    INSERT INTO owed (message, conversation_id, account_id, pos, kind, owed_at, retry_at)
                    SELECT id, conversation_id, %(account)s, pos, %(kind)s, %(now)s, %(now)s FROM messages
                    WHERE conversation_id = %(c)s AND pos = %(pos)s
                    """,
                    {"account": account, "kind": call, "c": row, "pos": self.pos, "now": self.now},
                )

    async def plan(self, *, poked: bool = False, roll: float = 0.0, **values: str) -> Plan | NoTurn:
        """Decide, with the dice showing ``roll``."""
        settings = load_settings({"enabled_groups": f"[{GROUP}]", "quiet_hours": ""} | values)

        async def spent(_conversation: ConversationId) -> int:
            return self.spent

        def dice() -> float:
            self.rolls.append(roll)
            return roll

        planner = Planner(self.database, settings, self.own, spent, lambda: self.now, dice)
        return await planner.plan((await self.where()).id, poked=poked)


@pytest.fixture
async def desk(database: Database) -> Desk:
    """A planner for a group that an account of ours hears."""
    made = Desk(database)
    made.own.joined(BOT)
    made.own.saw((await made.where()).id, BOT, None)
    return made


async def test_a_call_beats_everything_and_the_strongest_names_the_turn(desk: Desk) -> None:
    await desk.say(call="name")
    await desk.say(call="mention")
    await desk.say(call="reply")
    plan = await desk.plan(talk_frequency="0")
    assert isinstance(plan, Plan)
    assert (plan.trigger, plan.account_id) == ("mention", BOT)
    assert not desk.rolls


async def test_a_call_is_not_stopped_by_quiet_hours_or_by_being_asked_for_quiet(desk: Desk) -> None:
    await desk.say(call="mention")
    row = (await desk.where()).id
    async with desk.database.connection() as conn:
        await conversations.set_quiet(conn, row, until=NOW + timedelta(hours=1))
    assert isinstance(await desk.plan(quiet_hours="11:00-13:00"), Plan)


async def test_ambient_talk_is_one_roll_for_one_unread_batch(desk: Desk) -> None:
    await desk.say()
    await desk.say(user=WEI)
    assert isinstance(await desk.plan(talk_frequency="0.5", roll=0.6), NoTurn)
    assert isinstance(await desk.plan(talk_frequency="0.5", roll=0.0), NoTurn)
    assert desk.rolls == [0.6]
    await desk.say()
    plan = await desk.plan(talk_frequency="0.5", roll=0.4)
    assert isinstance(plan, Plan)
    assert plan.trigger == "ambient"


@pytest.mark.parametrize("why", ["is_self", "is_robot", "is_command", "backfilled"])
async def test_what_no_person_says_now_is_no_reason_to_join_in(desk: Desk, why: str) -> None:
    await desk.say(mark=why)
    assert isinstance(await desk.plan(talk_frequency="1"), NoTurn)
    assert not desk.rolls


async def test_frequency_zero_and_quiet_roll_no_dice_and_leave_nothing_for_later(desk: Desk) -> None:
    await desk.say()
    assert isinstance(await desk.plan(talk_frequency="0"), NoTurn)
    await desk.say()
    assert isinstance(await desk.plan(talk_frequency="1", quiet_hours="11:59-12:01"), NoTurn)
    assert isinstance(await desk.plan(talk_frequency="1"), NoTurn)
    assert not desk.rolls


async def test_who_talked_half_of_the_time_holds_back(desk: Desk) -> None:
    for number in range(10):
        await desk.say(user=BOT if number % 2 else MING, mark="is_self" if number % 2 else "")
    assert isinstance(await desk.plan(talk_frequency="1", roll=0.0), NoTurn)
    assert desk.rolls == [0.0]


async def test_a_nudge_is_a_reason_of_its_own(desk: Desk) -> None:
    await desk.say()
    plan = await desk.plan(poked=True, talk_frequency="0")
    assert isinstance(plan, Plan)
    assert plan.trigger == "poke"


async def test_a_group_that_is_not_enabled_gets_no_turn(desk: Desk) -> None:
    await desk.say(call="mention")
    assert await desk.plan(enabled_groups="[]") == NoTurn("未启用")


async def test_a_muted_removed_or_deserted_bot_waits_with_the_call_open(desk: Desk) -> None:
    await desk.say(call="mention")
    row = (await desk.where()).id
    async with desk.database.connection() as conn:
        await memberships.mute(conn, row, BOT, until=NOW + timedelta(minutes=10))
    assert isinstance(await desk.plan(), NoTurn)
    desk.now += timedelta(minutes=10)
    assert isinstance(await desk.plan(), Plan)
    async with desk.database.connection() as conn:
        await memberships.leave(conn, row, BOT, at=NOW)
    assert isinstance(await desk.plan(), NoTurn)
    async with desk.database.connection() as conn:
        await memberships.arrive(conn, [(row, BOT)])
    desk.own.get(BOT).online = False
    assert isinstance(await desk.plan(), NoTurn)
    desk.own.get(BOT).online = True
    assert isinstance(await desk.plan(), Plan)


async def test_the_budget_stops_even_a_call(desk: Desk) -> None:
    await desk.say(call="mention")
    desk.spent = 500
    assert isinstance(await desk.plan(), NoTurn)
    desk.spent = 499
    assert isinstance(await desk.plan(), Plan)
    async with desk.database.transaction() as conn:
        await change_settings(conn, (await desk.where()).id, ConversationSettings(daily_calls=10), actor="test")
    assert isinstance(await desk.plan(), NoTurn)


async def test_the_called_account_answers_and_another_only_when_it_cannot(desk: Desk) -> None:
    desk.own.joined(BOT2)
    await desk.say(call="mention", account=BOT2)
    plan = await desk.plan()
    assert isinstance(plan, Plan)
    assert plan.account_id == BOT2
    desk.own.get(BOT2).online = False
    plan = await desk.plan()
    assert isinstance(plan, Plan)
    assert plan.account_id == BOT


async def test_a_call_that_failed_waits_unless_a_new_one_comes(desk: Desk) -> None:
    await desk.say(call="mention")
    async with desk.database.connection() as conn:
        await conn.execute("UPDATE owed SET retry_at = %(later)s", {"later": NOW + timedelta(minutes=1)})
    assert isinstance(await desk.plan(talk_frequency="0"), NoTurn)
    await desk.say(call="name")
    plan = await desk.plan(talk_frequency="0")
    assert isinstance(plan, Plan)
    assert plan.trigger == "mention"
