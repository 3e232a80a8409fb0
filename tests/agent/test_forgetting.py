"""Forgetting by tool: for the member who asks, in their own words, now, and for nobody else."""

from __future__ import annotations

from tests.agent.world import BOT, MING, WANG, WEI, ScriptedModels, World, answers, call, calls, quiet


async def forgetting(world: World, label: object, mode: str = "忘记") -> str:
    """What the tool answers."""
    models = ScriptedModels(calls(call("forgetMember", label=label, mode=mode)), quiet())
    await world.agent(models).run(await world.request())
    return answers(models)[0]


async def test_who_asks_to_be_forgotten_is_and_nobody_else(world: World) -> None:
    first = await world.say("我最爱吃番茄火锅")
    weis = await world.say("我养猫", WEI)
    await world.remember("小明最爱吃番茄火锅", MING, labels=[first])
    cat = await world.remember("阿伟养猫", WEI, labels=[weis])
    pos = await world.say("小满，忘了我吧", owed=True)
    assert await forgetting(world, f"#{pos}") == "忘了：清空 2 条消息，删除 1 条记忆。别再提对方以前的话。"
    assert await world.rows("SELECT id FROM memories") == [(cat,)]
    assert await world.rows("SELECT body FROM messages WHERE sender_id = %(user)s", user=MING) == [("",), ("",)]
    assert await world.rows("SELECT body FROM messages WHERE sender_id = %(user)s", user=WEI) == [("我养猫",)]


async def test_their_own_words_must_ask_for_it(world: World) -> None:
    pos = await world.say("你忘记我了吗", owed=True)
    assert "没有明说“忘记我”" in await forgetting(world, pos)
    weis = await world.say("小满，忘了小明吧", WEI)
    assert "没有明说" in await forgetting(world, weis)
    assert await world.rows("SELECT count(*) FROM messages WHERE body <> ''") == [(2,)]


async def test_one_wish_is_not_another(world: World) -> None:
    pos = await world.say("别记我", owed=True)
    assert "没有明说“忘记我”" in await forgetting(world, pos, "忘记")
    assert "没有明说“可以记我”" in await forgetting(world, pos, "可以记")
    assert await world.rows("SELECT user_id FROM unlearned") == []


async def test_an_old_wish_or_one_out_of_sight_counts_no_more(world: World) -> None:
    old = await world.say("忘记我")
    await world.read_up_to(old)
    await world.say("在吗", owed=True)
    assert "不是这一轮的新消息" in await forgetting(world, old)
    assert "不是这一轮的新消息" in await forgetting(world, 99)


async def test_only_a_person_can_ask(world: World) -> None:
    await world.say("在吗", owed=True)
    own = await world.say("忘记我", BOT)
    robot = await world.say("忘记我", 5000000080, name="天气")
    await world.execute("UPDATE messages SET is_robot = true WHERE conversation_id = %(c)s AND pos = %(pos)s", robot)
    assert "不能作数" in await forgetting(world, own)
    assert "不能作数" in await forgetting(world, robot)


async def test_a_wish_that_was_withdrawn_meanwhile_is_none(world: World) -> None:
    pos = await world.say("忘记我", owed=True)
    models = ScriptedModels(calls(call("forgetMember", label=pos, mode="忘记")), quiet())

    async def gone(number: int) -> None:
        await world.withdraw(pos)

    models.before = gone
    await world.agent(models).run(await world.request())
    assert "已经撤回" in answers(models)[0]


async def test_a_wish_that_came_during_the_turn_counts_once_it_was_read(world: World) -> None:
    await world.say("在吗", owed=True)
    models = ScriptedModels(calls(call("getNewMessages"), call("forgetMember", label=2, mode="别记")), quiet())

    async def later(number: int) -> None:
        if number == 1:
            await world.say("别记我", WEI)

    models.before = later
    await world.agent(models).run(await world.request())
    assert answers(models)[1].startswith("好，以后不记")
    assert await world.rows("SELECT user_id FROM unlearned") == [(WEI,)]


async def test_not_to_be_remembered_and_to_be_remembered_again(world: World) -> None:
    first = await world.say("以后别记我了", owed=True)
    assert "忘记我" in await forgetting(world, first, "别记")
    assert await world.rows("SELECT user_id FROM unlearned") == [(MING,)]
    claim = await world.say("我最爱吃番茄火锅")
    save = call("saveMemory", subject="小明", kind="preference", content="小明最爱吃番茄火锅", evidence=[claim])
    models = ScriptedModels(calls(save), quiet())
    await world.agent(models).run(await world.request())
    assert "别记" in answers(models)[0]
    again = await world.say("可以记我了", owed=True)
    assert "又可以" in await forgetting(world, again, "可以记")
    assert await world.rows("SELECT user_id FROM unlearned") == []


async def test_even_a_superuser_is_forgotten_only_for_themselves(world: World) -> None:
    await world.say("我最爱吃番茄火锅", WEI)
    pos = await world.say("小满，忘了阿伟，忘记他", WANG, owed=True)
    assert "没有明说" in await forgetting(world, pos)


async def test_after_forgetting_nothing_of_them_is_in_later_prompts(world: World) -> None:
    await world.say("我最爱吃番茄火锅")
    await world.remember("小明最爱吃番茄火锅", MING)
    await world.remember("群里常约番茄火锅", WEI)
    pos = await world.say("忘记我", owed=True)
    await forgetting(world, pos)
    await world.say("番茄火锅走起", WEI, owed=True)
    models = ScriptedModels(calls(call("searchMessages", query="最爱"), call("searchMemory", query="最爱")), quiet())
    await world.agent(models).run(await world.request())
    everything = "\n".join(message.text for message in models.requests[-1][1:])
    assert "最爱吃" not in everything
    assert "小明" not in everything
