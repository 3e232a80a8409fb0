"""Owner commands: who may use them, what they do, what they answer, and that the model never sees them."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from db import memories
from db.memory_models import Claim, Subject
from db.models import JsonObject, Role
from db.pool import Database
from persona.loader import list_personas
from plugins.chat.commands import RIGHTS, may_use
from plugins.chat.commands_text import CommandKind
from tests.chat.edges import where
from tests.chat.world import BOT, GROUP, MING, WANG, WEI, World, at, open_world, reply, text
from tests.llm.fake_service import FakeService, Raw, call, calls, completion

FOREIGN = 5700000099
ANYONE = {"status", "help", "forget", "unlearn", "learn"}
STAFF = {"stop", "quiet", "unquiet", "disable"}


@pytest.mark.parametrize("kind", sorted(RIGHTS))
@pytest.mark.parametrize(
    ("superuser", "role", "private", "may"),
    [
        (True, "member", False, ANYONE | STAFF | {"enable", "persona"}),
        (True, "unknown", True, ANYONE | STAFF | {"enable", "persona"}),
        (False, "owner", False, ANYONE | STAFF),
        (False, "admin", False, ANYONE | STAFF),
        (False, "member", False, ANYONE),
        (False, "unknown", False, ANYONE),
        (False, "unknown", True, ANYONE),
        (False, "owner", True, ANYONE),
    ],
)
def test_who_may_use_what(kind: CommandKind, superuser: bool, role: Role, private: bool, may: set[str]) -> None:
    refusal = may_use(kind, superuser=superuser, role=role, private=private)
    assert (refusal == "") is (kind in may)


async def order(world: World, words: str, *, user: int = WANG, role: str = "member", group: int = GROUP) -> str:
    """Give a command and read the answer."""
    before = len(world.napcat.sent)
    world.say(words, user=user, group=group, sender={"user_id": user, "nickname": "老王", "role": role})
    await world.until(lambda: len(world.napcat.sent) > before)
    return world.napcat.texts()[-1]


@pytest.fixture(autouse=True)
def _pace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("plugins.chat.outbox.GAP_SECONDS", 0.01)


async def test_status_tells_how_it_is(world: World) -> None:
    answer = await order(world, "/群友 状态", user=MING)
    assert "已开启，人格 default，模型 fake-chat" in answer
    assert "插话频率 0" in answer
    assert "今日模型调用 0/500，正在进行 0 轮" in answer


async def test_help_lists_the_commands_and_says_what_was_not_understood(world: World) -> None:
    assert "忘记我" in await order(world, "/群友 帮助", user=MING)
    assert "没有「跳舞」这个命令" in await order(world, "/群友 跳舞", user=MING)


@pytest.mark.parametrize("words", ["/群友 停", "/群友 安静 30m", "/群友 关闭"])
async def test_a_member_is_told_that_this_is_for_staff(world: World, words: str) -> None:
    assert await order(world, words, user=MING) == "这个命令只有机器人的主人、群主和管理员能用"
    row = await where(world)
    assert (row.quiet_until, row.enabled) == (None, None)


async def test_an_admin_may_not_choose_the_persona(world: World) -> None:
    assert await order(world, "/群友 人格 default", user=WEI, role="admin") == "这个命令只有机器人的主人能用"


async def test_quiet_and_its_end(world: World) -> None:
    assert (await order(world, "/群友 安静 30m", user=WEI, role="admin")).startswith("好，安静到 ")
    row = (await world.rows("SELECT quiet_until - now() AS left FROM conversations"))[0]["left"]
    assert "0:29" in str(row)
    assert "现在安静中" in await order(world, "/群友 状态")
    assert await order(world, "/群友 安静 取消", user=WEI, role="owner") == "好，不用安静了"
    assert (await where(world)).quiet_until is None


async def test_quiet_does_not_stop_a_mention(world: World, service: FakeService) -> None:
    await order(world, "/群友 安静 30m")
    world.say(at(BOT), text(" 在吗"))
    await world.until(lambda: world.napcat.texts()[-1] == "好")
    assert len(service.requests) == 1


async def test_the_persona_is_asked_changed_and_an_unknown_one_names_those_there_are(world: World) -> None:
    folder = world.settings.data_dir / "persona"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "猫.md").write_text("# 猫\n你是一只猫。", encoding="utf-8")
    assert await order(world, "/群友 人格") == f"现在是 default；可选：{'、'.join(list_personas(world.settings.data_dir))}"
    missing = await order(world, "/群友 人格 狗")
    assert "狗" in missing
    assert "default" in missing
    assert "猫" in missing
    assert (await where(world)).persona is None
    assert await order(world, "/群友 人格 猫") == "好，换成「猫」"
    assert (await where(world)).persona == "猫"
    assert (await world.rows("SELECT actor FROM audit"))[0]["actor"] == str(WANG)


async def test_disable_stores_nothing_more_and_enable_stores_again(world: World) -> None:
    assert await order(world, "/群友 关闭", user=WEI, role="owner") == "好，我在这里不再看也不再说了"
    world.say("关了以后说的")
    await world.settle()
    assert await order(world, "/群友 开启") == "好，我在这里开工了"
    world.say("开了以后说的")
    await world.settle()
    bodies = [row["body"] for row in await world.messages() if not row["is_self"] and not row["is_command"]]
    assert bodies == ["开了以后说的"]


async def test_an_owner_enables_a_group_that_was_never_enabled(world: World) -> None:
    world.say("开启之前", group=FOREIGN)
    await world.settle()
    assert await order(world, "/群友 开启", group=FOREIGN) == "好，我在这里开工了"
    world.say(at(BOT), text(" 开启之后"), group=FOREIGN)
    await world.until(lambda: world.napcat.texts()[-1] == "好")
    bodies = [row["body"] for row in await world.messages() if not row["is_self"]]
    assert bodies == ["@小满 开启之后"]


async def test_a_stranger_in_a_foreign_group_gets_no_answer(world: World) -> None:
    for words in ("/群友 状态", "/群友 帮助", "/群友 停", "/群友 开启"):
        world.say(words, group=FOREIGN, user=MING, sender={"user_id": MING, "nickname": "小明", "role": "owner"})
    await world.settle()
    await asyncio.sleep(0.3)
    assert not world.napcat.sent
    assert not await world.messages()


async def test_commands_and_who_gives_them_never_reach_the_model(world: World, service: FakeService) -> None:
    await order(world, "/群友 安静 30m")
    world.say(at(BOT), text(" /群友 帮助"), user=MING)
    world.say("今天天气不错", user=MING)
    world.say(at(BOT), text(" 在吗"), user=MING)
    await world.until(lambda: len(service.requests) == 1)
    prompt = str(service.requests[0]["messages"])
    assert "今天天气不错" in prompt
    assert "/群友" not in prompt
    assert "安静到" not in prompt
    rows = await world.rows("SELECT body FROM messages WHERE is_command AND NOT is_self ORDER BY pos")
    assert [row["body"] for row in rows] == ["/群友 安静 30m", "@小满 /群友 帮助"]


async def test_a_command_calls_nobody_and_wakes_no_model(world: World, service: FakeService) -> None:
    await order(world, "/群友 状态 小满")
    await asyncio.sleep(0.2)
    assert not service.requests
    assert not await world.rows("SELECT FROM owed")


async def test_forget_me_empties_what_was_said_and_what_quotes_it(world: World, service: FakeService) -> None:
    secret = world.say("我的生日是五月五号", user=MING)
    world.say(reply(secret), text("记下了"), user=WEI)
    await world.settle()
    answer = await order(world, "/群友 忘记我", user=MING)
    assert answer.startswith("好，已经忘记你了")
    rows = await world.rows("SELECT * FROM messages WHERE sender_id = %(user)s", user=MING)
    assert {(row["body"], row["text"], str(row["segments"])) for row in rows} == {("", "", "[]")}
    assert all(row["withdrawn_at"] is not None for row in rows)
    assert not await world.rows("SELECT FROM member_names WHERE user_id = %(user)s", user=MING)
    world.say(at(BOT), text(" 他生日几号"), user=WEI)
    await world.until(lambda: len(service.requests) == 1)
    assert "五月五号" not in str(service.requests[0])
    assert "记下了" in str(service.requests[0])


async def test_forget_me_says_how_many_memories_went(world: World) -> None:
    world.say("我对花生过敏", user=MING)
    await world.settle()
    here = (await where(world)).id
    async with world.database.transaction() as conn:
        await memories.insert(conn, Claim(here, Subject("member", MING), "constraint", "小明对花生过敏", "person"))
        await memories.insert(conn, Claim(here, Subject("member", WEI), "fact", "阿伟养了两只猫", "person"))
    assert "1 条记忆也删掉了" in await order(world, "/群友 忘记我", user=MING)
    assert [row["content"] for row in await world.rows("SELECT content FROM memories")] == ["阿伟养了两只猫"]


async def test_anybody_may_ask_not_to_be_learned_and_take_it_back(world: World) -> None:
    assert (await order(world, "/群友 别记我", user=MING)).startswith("好，以后不再记你的事")
    assert (await order(world, "/群友 别记我", user=MING)).startswith("已经不记你的事了")
    assert await world.rows("SELECT user_id FROM unlearned") == [{"user_id": MING}]
    assert await order(world, "/群友 可以记我", user=WEI) == "我本来就可以记你说的事"
    assert await world.rows("SELECT user_id FROM unlearned") == [{"user_id": MING}]
    assert await order(world, "/群友 可以记我", user=MING) == "好，以后可以记你说的事了"
    assert await world.rows("SELECT user_id FROM unlearned") == []


async def test_not_to_be_learned_works_where_the_bot_was_closed_and_stays_silent_where_it_never_was(world: World) -> None:
    world.say("随便说说", user=MING)
    assert await order(world, "/群友 关闭") == "好，我在这里不再看也不再说了"
    assert (await order(world, "/群友 别记我", user=MING)).startswith("好，以后不再记你的事")
    world.say("/群友 别记我", group=FOREIGN, user=MING)
    await world.settle()
    await asyncio.sleep(0.3)
    assert len(world.napcat.sent) == 2
    assert len(await world.rows("SELECT FROM unlearned")) == 1


async def test_forget_me_also_empties_quotes_that_were_fetched_from_qq(world: World, service: FakeService) -> None:
    asked: JsonObject = {"message": [text("我的生日是五月五号")], "sender": {"user_id": MING, "nickname": "小明"}}
    world.napcat.on_call = lambda action, params: asked if action == "get_msg" else None
    world.say({"type": "reply", "data": {"id": "31337"}}, text("记下了"), user=WEI)
    await world.until_row("SELECT FROM messages WHERE quote_text IS NOT NULL")
    await order(world, "/群友 忘记我", user=MING)
    world.say(at(BOT), text(" 他生日几号"), user=WEI)
    await world.until(lambda: len(service.requests) == 1)
    assert "五月五号" not in str(service.requests[0])


async def test_forget_me_settles_what_is_owed_to_them_only(world: World, service: FakeService) -> None:
    ban: JsonObject = {"post_type": "notice", "notice_type": "group_ban", "group_id": GROUP, "user_id": BOT}
    world.event(**ban, sub_type="ban", operator_id=WANG, duration=600)  # type: ignore[arg-type]
    world.say(at(BOT), text(" 问一件事"), user=MING)
    world.say(at(BOT), text(" 也问一件"), user=WEI)
    await world.settle()
    await order(world, "/群友 忘记我", user=MING)
    rows = await world.rows("SELECT m.sender_id, o.settled_why FROM owed o JOIN messages m ON m.id = o.message ORDER BY o.pos")
    assert [(row["sender_id"], row["settled_why"]) for row in rows] == [(MING, "forgotten"), (WEI, None)]


async def test_forgetting_one_group_leaves_the_other(world: World) -> None:
    world.say("这里说的", user=MING)
    world.say("那里说的", user=MING, group=GROUP + 1)
    await world.settle()
    await order(world, "/群友 忘记我", user=MING)
    rows = await world.rows("SELECT body FROM messages WHERE body <> '' AND NOT is_self")
    assert [row["body"] for row in rows] == ["那里说的"]


async def test_what_was_forgotten_does_not_come_back_with_history(world: World) -> None:
    secret = world.say("我的生日是五月五号", user=MING)
    await world.settle()
    await order(world, "/群友 忘记我", user=MING)
    world.napcat.history.append(secret)
    world.chat.parted(BOT)
    world.connect()
    await world.until(lambda: len(world.napcat.called("get_group_msg_history")) >= 2)
    await world.settle()
    assert not await world.rows("SELECT FROM messages WHERE body LIKE '%%生日%%'")


async def test_a_stop_answers_at_once_though_the_background_is_busy(world: World, service: FakeService) -> None:
    service.script([Raw(completion(calls(call("speak", content="好"))), delay=5)])
    never = asyncio.Event()
    for _ in range(20):
        world.chat._jobs.start("占位", never.wait())  # pyright: ignore[reportPrivateUsage]
    world.say(at(BOT), text(" 讲个长的"))
    await world.until(lambda: len(service.requests) == 1)
    assert await order(world, "/群友 停") == "好，停下了"
    assert await order(world, "/群友 停") == "现在没有在进行的一轮"


async def test_a_friend_without_leave_gets_no_answer_and_the_owner_does(world: World) -> None:
    for number, user in enumerate((MING, WANG)):
        world.event(
            post_type="message",
            message_type="private",
            sub_type="friend",
            user_id=user,
            message_id=50 + number,
            message=[text("/群友 状态")],
            sender={"user_id": user, "nickname": "某人"},
        )
    await world.until(lambda: len(world.napcat.sent) == 1)
    await asyncio.sleep(0.2)
    assert [item["user_id"] for item in world.napcat.sent] == [WANG]


async def test_an_admin_known_from_the_member_list_counts_where_the_event_is_silent(
    database: Database, tmp_path: Path, service: FakeService
) -> None:
    async with open_world(database, tmp_path, service) as world:
        world.napcat.members = [{"user_id": WEI, "nickname": "阿伟", "role": "admin"}]
        world.connect()
        await world.until_row("SELECT FROM members WHERE role = 'admin'")
        world.say("/群友 安静", user=WEI, sender={"user_id": WEI, "nickname": "阿伟"})
        await world.until(lambda: len(world.napcat.sent) == 1)
        assert world.napcat.texts()[0].startswith("好，安静到")


async def test_a_quote_fetched_from_qq_goes_when_the_original_is_withdrawn(world: World) -> None:
    asked: JsonObject = {"message": [text("说漏嘴了")], "sender": {"user_id": MING, "nickname": "小明"}}
    world.napcat.on_call = lambda action, params: asked if action == "get_msg" else None
    world.say({"type": "reply", "data": {"id": "31337"}}, text("哈哈"), user=WEI)
    await world.until_row("SELECT FROM messages WHERE quote_text IS NOT NULL")
    withdrawal: JsonObject = {"post_type": "notice", "notice_type": "group_recall", "group_id": GROUP}
    world.event(BOT, **withdrawal, user_id=MING, operator_id=MING, message_id=31337)
    await world.settle()
    assert [row["quote_text"] for row in await world.messages()] == [None]
