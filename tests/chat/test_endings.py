"""How turns end when something else happens meanwhile: restarts, withdrawals, a lost lease, 关闭, 停, 忘记我."""

from __future__ import annotations

import asyncio
from pathlib import Path

from db.models import Json
from db.pool import Database
from plugins.chat.onebot import CALL_SECONDS
from tests.chat.world import BOT, BOT2, GROUP, MING, WANG, WEI, FakeNapCat, World, at, open_world, text
from tests.llm.fake_service import FakeService, Raw, call, calls, completion


class SlowNapCat(FakeNapCat):
    """Takes its time over some actions."""

    def __init__(self, delay: float, *actions: str) -> None:
        super().__init__()
        self.delay = delay
        self.slow = actions

    async def call(self, account_id: int, action: str, *, seconds: float = CALL_SECONDS, **params: Json) -> Json:
        if action in self.slow:
            await asyncio.sleep(self.delay)
        return await super().call(account_id, action, seconds=seconds, **params)


def slow(seconds: float, content: str = "好") -> Raw:
    """A model that takes its time."""
    return Raw(completion(calls(call("speak", content=content))), delay=seconds)


async def test_a_restart_in_the_middle_of_a_send_does_not_answer_again(database: Database, tmp_path: Path) -> None:
    napcat = SlowNapCat(1.0, "send_group_msg")
    async with FakeService(calls(call("speak", content="回答"))) as service:
        async with open_world(database, tmp_path, service, napcat) as world:
            world.connect()
            world.say(at(BOT), text(" 在吗"))
            await world.until_row("SELECT FROM outbox WHERE status = 'sending'")
        async with open_world(database, tmp_path, service, napcat) as again:
            again.connect()
            await again.until_row("SELECT FROM owed WHERE settled_why IN ('answered', 'shown')")
            await asyncio.sleep(0.8)
    assert napcat.texts() == ["回答"]


async def test_a_turn_lost_by_a_dead_process_after_it_spoke_is_not_run_again(world: World, service: FakeService) -> None:
    world.say("早")
    await world.settle()
    await world.rows(
        """
        WITH turn AS (INSERT INTO turns (conversation_id, account_id, status, trigger, worker, started_at, lease_until)
                      SELECT id, %(bot)s, 'running', 'mention', 'gone', now(), now() FROM conversations RETURNING id),
             said AS (INSERT INTO outbox (conversation_id, account_id, turn_id, status, segments, text)
                      SELECT c.id, %(bot)s, turn.id, 'sending', '[]', '好' FROM conversations c, turn)
        INSERT INTO owed (message, conversation_id, account_id, pos, kind)
        SELECT id, conversation_id, %(bot)s, pos, 'mention' FROM messages RETURNING 1
        """,
        bot=BOT,
    )
    await world.until_row("SELECT FROM owed WHERE settled_why = 'answered'")
    assert (await world.rows("SELECT status FROM outbox"))[0]["status"] == "unknown"
    assert not service.requests


async def test_a_withdrawn_call_does_not_delay_the_others(world: World, service: FakeService) -> None:
    service.script([slow(0.5, "答甲"), slow(0, "答乙")])
    first = world.say(at(BOT), text(" 问甲"))
    await world.until(lambda: len(service.requests) == 1)
    world.withdraw(first["message_id"], by=MING)
    world.say(at(BOT), text(" 问乙"), user=WEI)
    await world.until(lambda: world.napcat.texts() == ["答甲", "答乙"], 8)


async def test_a_process_that_lost_its_lease_leaves_the_new_owner_alone(world: World, service: FakeService) -> None:
    service.script([slow(30)])
    world.say(at(BOT), text(" 在吗"))
    await world.until(lambda: len(service.requests) == 1)
    await world.rows("UPDATE turns SET status = 'interrupted' WHERE status = 'running' RETURNING 1")
    await world.rows(
        """
        WITH turn AS (INSERT INTO turns (conversation_id, account_id, status, trigger, worker, lease_until)
                      SELECT id, %(other)s, 'running', 'mention', 'another-host:1:1.0', now() + interval '1 minute'
                      FROM conversations WHERE target_id = %(group)s RETURNING id, conversation_id)
        INSERT INTO outbox (conversation_id, account_id, turn_id, segments, text)
        SELECT conversation_id, %(other)s, id, '[]', '别人的话' FROM turn RETURNING 1
        """,
        other=BOT2,
        group=GROUP,
    )
    turn = (await world.rows("SELECT id FROM turns ORDER BY id LIMIT 1"))[0]["id"]
    assert isinstance(turn, int)
    await world.chat.lanes.interrupt(turn_id=turn)  # type: ignore[arg-type]
    assert (await world.rows("SELECT status FROM outbox"))[0]["status"] == "waiting"
    assert (await world.rows("SELECT settled_at FROM owed"))[0]["settled_at"] is None


async def test_closing_a_group_stops_its_turn_and_settles_what_it_owed(world: World, service: FakeService) -> None:
    service.script([slow(1.0, "我还在说")])
    world.say(at(BOT), text(" 问"))
    await world.until(lambda: len(service.requests) == 1)
    world.say("/群友 关闭", user=WANG)
    await world.until(lambda: any("不再看" in said for said in world.napcat.texts()))
    await asyncio.sleep(1.2)
    assert "我还在说" not in world.napcat.texts()
    assert not await world.rows("SELECT FROM owed WHERE settled_at IS NULL")


async def test_a_stop_does_not_wait_behind_histories_and_member_lists(database: Database, tmp_path: Path) -> None:
    groups = [GROUP, *range(GROUP + 10, GROUP + 30)]
    napcat = SlowNapCat(60, "get_group_msg_history", "get_group_member_list")
    napcat.groups = groups
    async with (
        FakeService(slow(30)) as service,
        open_world(database, tmp_path, service, napcat, enabled_groups=str(groups)) as world,
    ):
        world.connect()
        world.say(at(BOT), text(" 在吗"))
        await world.until(lambda: len(service.requests) == 1)
        world.say("/群友 停", user=WANG)
        await world.until(lambda: napcat.texts() == ["好，停下了"])


async def test_enabling_a_group_reads_its_members_and_history(database: Database, tmp_path: Path, service: FakeService) -> None:
    async with open_world(database, tmp_path, service, enabled_groups="[]") as world:
        world.connect()
        world.say("/群友 开启", user=WANG)
        await world.until(lambda: bool(world.napcat.called("get_group_member_list")))
        await world.until(lambda: bool(world.napcat.called("get_group_msg_history")))


async def test_forgetting_leaves_no_word_and_no_name(world: World, service: FakeService) -> None:
    secret = "绝密暗号"
    read = calls(call("getRecentMessages", count=5, before=2))
    service.script([read, calls(call("speak", content="好"))])
    world.say(secret)
    await world.settle()
    world.say(at(BOT), text(" 看看"), user=WEI)
    await world.until_row("SELECT FROM turns WHERE status = 'done'")
    old = {"sender": {"user_id": MING, "nickname": "小明"}, "message": [text(secret + "旧的")]}
    world.napcat.on_call = lambda action, params: old if action == "get_msg" else None
    world.say({"type": "reply", "data": {"id": "77"}}, text("同意"), user=WEI)
    await world.until_row("SELECT FROM messages WHERE quote_text LIKE '%%旧的'")
    world.say("/群友 忘记我")
    await world.until(lambda: any("忘记你" in said for said in world.napcat.texts()))
    tables = await world.rows("SELECT table_name FROM information_schema.tables WHERE table_schema = 'public'")
    for table in (str(row["table_name"]) for row in tables):
        kept = [str(row["kept"]) for row in await world.rows(f"SELECT t::text AS kept FROM {table} t")]
        assert not [row for row in kept if secret in row], table
        assert table not in {"members", "member_names"} or not [row for row in kept if "小明" in row], table


async def test_forgetting_works_where_the_bot_was_closed(world: World) -> None:
    world.say("隐私")
    world.say("/群友 关闭", user=WANG)
    await world.until(lambda: any("不再看" in said for said in world.napcat.texts()))
    world.say("/群友 忘记我")
    await world.until(lambda: any("忘记你" in said for said in world.napcat.texts()))
    assert not await world.rows("SELECT FROM messages WHERE sender_id = %(user)s AND body <> ''", user=MING)


async def test_a_call_nobody_could_answer_for_a_day_is_history(world: World, service: FakeService) -> None:
    service.script([Raw("<html>", content_type="text/html")])
    world.say(at(BOT), text(" 在吗"))
    await world.until_row("SELECT FROM turns WHERE status = 'failed'")
    await world.rows("UPDATE owed SET owed_at = now() - interval '25 hours' RETURNING 1")
    await world.until_row("SELECT FROM owed WHERE settled_why = 'expired'")
