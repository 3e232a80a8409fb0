"""Topics while others write, members withdraw and are forgotten: no version stands on what is gone, none is overwritten."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

import pytest

from db import forget, unlearned
from db.pool import Database
from learner.task import StaleFindings
from tests.db.memory_world import MING, WANG, WEI
from tests.learner.batch_world import store
from tests.learner.topic_world import Topics, placing, summing, topic_world, two_topics
from tests.llm.conftest import Opener
from tests.llm.fake_service import says


@pytest.fixture
async def learning(database: Database, open_models: Opener) -> AsyncGenerator[Topics]:
    """A group whose model puts nothing anywhere until a test says otherwise."""
    async with topic_world(database, open_models) as opened:
        yield opened


async def test_an_older_run_never_overwrites_a_newer_version(learning: Topics) -> None:
    await two_topics(learning)
    await learning.talk("七点", "八点吧")
    learning.asked.script("topic_assignment", placing(m4="T1", m5="T1"))
    learning.asked.script("topic_summary", summing("七点的版本"), summing("八点的版本"))
    older, newer = await learning.infer(4, 4), await learning.infer(5, 5)
    await store(learning.world, newer)
    with pytest.raises(StaleFindings):
        await store(learning.world, older)
    assert (await learning.versions())[1] == (2, "八点的版本", [1, 3, 5], True)
    assert list((await learning.members()).values()) == [[1, 3, 5], [2]]


async def test_two_runs_at_once_write_one_version_and_the_other_is_stale(learning: Topics) -> None:
    await two_topics(learning)
    await learning.talk("七点", "八点吧")
    learning.asked.script("topic_assignment", placing(m4="T1", m5="T1"))
    learning.asked.script("topic_summary", summing("七点的版本"), summing("八点的版本"))
    both = [await learning.infer(4, 4), await learning.infer(5, 5)]
    async with learning.world.database.transaction() as conn:
        await conn.execute("LOCK TABLE topic_summaries IN SHARE MODE")
        writing = [asyncio.create_task(store(learning.world, each)) for each in both]
        await learning.world.blocked(2)
    ended = await asyncio.gather(*writing, return_exceptions=True)
    assert sorted(type(each).__name__ for each in ended) == ["StaleFindings", "dict"]
    assert [version[0] for version in await learning.versions()] == [1, 2, 1]


async def test_the_same_batch_twice_is_placed_once(learning: Topics) -> None:
    await learning.talk("周六桌游")
    learning.asked.script("topic_assignment", placing(m1="N1"))
    learning.asked.script("topic_summary", summing("小明约桌游"))
    first, second = await learning.infer(1, 1), await learning.infer(1, 1)
    await store(learning.world, first)
    with pytest.raises(StaleFindings):
        await store(learning.world, second)
    assert list((await learning.members()).values()) == [[1]]


async def test_a_topic_that_went_while_the_model_thought_makes_the_run_stale(learning: Topics) -> None:
    await two_topics(learning)
    await learning.talk("猫呢")
    learning.asked.script("topic_assignment", placing(m4="T2"))
    learning.asked.script("topic_summary", summing("猫的事"))
    findings = await learning.infer(4, 4)
    await learning.world.withdraw(2)
    with pytest.raises(StaleFindings):
        await store(learning.world, findings)


async def test_a_withdrawal_empties_the_summary_at_once_and_queues_a_new_one(learning: Topics) -> None:
    await two_topics(learning)
    await learning.world.withdraw(3)
    assert await learning.versions() == [(1, "", [1, 3], False), (1, "老王的猫不吃饭", [2], True)]
    assert await learning.world.rows("SELECT search, keywords FROM topic_summaries WHERE dropped_at IS NOT NULL") == [("", [])]
    assert [topic.gist for topic in await learning.prompt("周六桌游狼人杀", 1)] == ["老王的猫不吃饭"]
    assert await learning.stale() == [True, False]
    learning.asked.script("topic_summary", summing("小明约周六桌游"))
    assert await learning.learn(4, 4) == {"topics": 0, "topic_messages": 0, "summaries": 1}
    assert learning.asked.asked("topic_summary")[-1] == "【T1】\n#1 11-25 18:01 小明[1]: 周六桌游谁来"
    assert (await learning.versions())[1] == (2, "小明约周六桌游", [1], True)
    assert await learning.stale() == [False, False]


async def test_a_new_summary_is_built_on_the_last_version_that_never_held_what_was_withdrawn(learning: Topics) -> None:
    await two_topics(learning)
    for pos, gist in ((4, "第二版"), (5, "第三版")):
        await learning.talk(f"消息{pos}")
        learning.asked.script("topic_assignment", placing(**{f"m{pos}": "T1"}))
        learning.asked.script("topic_summary", summing(gist))
        await learning.learn(pos, pos)
    await learning.world.withdraw(4)
    assert [gist for _, gist, _, in_use in await learning.versions() if in_use] == ["小明约周六桌游，阿伟来", "老王的猫不吃饭"]
    assert (await learning.prompt("", 1))[0].gist == "小明约周六桌游，阿伟来"
    learning.asked.script("topic_summary", summing("第四版"))
    await learning.learn(6, 6)
    assert learning.asked.asked("topic_summary")[-1].splitlines()[1:] == [
        "已有摘要：小明约周六桌游，阿伟：小明约周六桌游，阿伟来",
        "#5 11-25 18:05 小明[1]: 消息5",
    ]
    assert (await learning.versions())[3] == (4, "第四版", [1, 3, 5], True)


async def test_topics_that_wait_are_mended_without_news_until_none_waits(learning: Topics) -> None:
    assert await learning.mend() is None
    await two_topics(learning)
    assert await learning.mend() is None
    await learning.world.withdraw(3)
    learning.asked.script("topic_summary", summing("小明约周六桌游"))
    assert await learning.mend() == {"topics": 0, "topic_messages": 0, "summaries": 1}
    assert await learning.mend() is None
    assert (await learning.versions())[1] == (2, "小明约周六桌游", [1], True)


async def test_a_topic_that_cannot_be_mended_does_not_wait_for_ever(learning: Topics) -> None:
    await two_topics(learning)
    await learning.world.withdraw(3)
    learning.asked.script("topic_summary", says("不会"))
    assert await learning.mend() == {"topics": 0, "topic_messages": 0, "summaries": 0}
    assert await learning.mend() is None
    assert [topic.gist for topic in await learning.prompt()] == ["老王的猫不吃饭"]


async def test_nothing_is_asked_where_the_version_before_holds_all_that_is_left(learning: Topics) -> None:
    await two_topics(learning)
    await learning.talk("七点")
    learning.asked.script("topic_assignment", placing(m4="T1"))
    learning.asked.script("topic_summary", summing("七点的版本"))
    await learning.learn(4, 4)
    await learning.world.withdraw(4)
    before = len(learning.asked.service.requests)
    await learning.learn(5, 5)
    assert len(learning.asked.service.requests) == before
    assert await learning.stale() == [False, False]
    assert (await learning.prompt("", 1))[0].gist == "小明约周六桌游，阿伟来"


async def test_a_topic_whose_last_message_is_withdrawn_goes(learning: Topics) -> None:
    await two_topics(learning)
    await learning.world.withdraw(1, 3)
    assert list((await learning.members()).values()) == [[2]]
    assert await learning.versions() == [(1, "老王的猫不吃饭", [2], True)]


async def test_a_message_that_is_withdrawn_while_the_model_thinks_gets_into_no_summary(learning: Topics) -> None:
    await learning.talk("周六桌游", "我的密码是一二三")

    async def meanwhile(task: str) -> None:
        if task == "topic_summary":
            await learning.world.withdraw(2)

    learning.asked.meanwhile = meanwhile
    learning.asked.script("topic_assignment", placing(m1="N1", m2="N1"))
    learning.asked.script("topic_summary", summing("小明的密码是一二三"))
    assert await learning.learn(1, 2) == {"topics": 1, "topic_messages": 1, "summaries": 0}
    assert (await learning.versions(), await learning.stale(), await learning.prompt()) == ([], [True], [])
    learning.asked.meanwhile = None
    learning.asked.script("topic_summary", summing("小明约桌游"))
    await learning.learn(3, 3)
    assert await learning.versions() == [(1, "小明约桌游", [1], True)]


async def test_a_source_of_the_base_that_is_withdrawn_while_the_model_thinks_keeps_the_version_out(learning: Topics) -> None:
    await two_topics(learning)
    await learning.talk("七点")
    learning.asked.script("topic_assignment", placing(m4="T1"))
    learning.asked.script("topic_summary", summing("阿伟带狼人杀，七点"))
    findings = await learning.infer(4, 4)
    await learning.world.withdraw(3)
    assert await store(learning.world, findings) == {"topics": 0, "topic_messages": 1, "summaries": 0}
    assert [version[1] for version in await learning.versions()] == ["", "老王的猫不吃饭"]
    assert await learning.stale() == [True, False]


async def test_a_withdrawal_that_waits_for_a_summary_being_written_empties_it_too(learning: Topics) -> None:
    await two_topics(learning)
    await learning.talk("七点")
    learning.asked.script("topic_assignment", placing(m4="T1"))
    learning.asked.script("topic_summary", summing("阿伟带狼人杀，七点"))
    findings = await learning.infer(4, 4)
    async with learning.world.database.transaction() as conn:
        await conn.execute("LOCK TABLE topic_summaries IN SHARE MODE")
        # The run holds the topic and waits with its version; the withdrawal of an older source then waits for the topic.
        writing = asyncio.create_task(store(learning.world, findings))
        await learning.world.blocked()
        withdrawing = asyncio.create_task(learning.world.withdraw(3))
        await learning.world.blocked(2)
    await asyncio.gather(writing, withdrawing)
    assert [version[1] for version in await learning.versions()] == ["", "", "老王的猫不吃饭"]
    assert await learning.stale() == [True, False]


async def test_a_withdrawal_that_comes_while_its_message_is_being_placed_takes_it_out_again(learning: Topics) -> None:
    await two_topics(learning)
    await learning.talk("我的密码是一二三")
    learning.asked.script("topic_assignment", placing(m4="T1"))
    learning.asked.script("topic_summary", summing("小明的密码是一二三"))
    findings = await learning.infer(4, 4)
    async with learning.world.database.transaction() as conn:
        await conn.execute("LOCK TABLE topic_summaries IN SHARE MODE")
        writing = asyncio.create_task(store(learning.world, findings))
        await learning.world.blocked()
        withdrawing = asyncio.create_task(learning.world.withdraw(4))
        await learning.world.blocked(2)
    await asyncio.gather(writing, withdrawing)
    assert list((await learning.members()).values()) == [[1, 3], [2]]
    assert [version[1] for version in await learning.versions()] == ["小明约周六桌游，阿伟来", "", "老王的猫不吃饭"]


async def test_a_new_topic_whose_messages_were_all_withdrawn_meanwhile_is_not_made(learning: Topics) -> None:
    await learning.talk("说错了")
    learning.asked.script("topic_assignment", placing(m1="N1"))
    learning.asked.script("topic_summary", summing("小明说错了"))
    findings = await learning.infer(1, 1)
    await learning.world.withdraw(1)
    assert await store(learning.world, findings) == {"topics": 0, "topic_messages": 0, "summaries": 0}
    assert await learning.world.rows("SELECT id FROM topics") == []


async def test_who_says_not_to_be_learned_while_the_model_thinks_gets_into_no_topic(learning: Topics) -> None:
    await learning.talk("周六桌游")
    await learning.talk("我住在城西", user=WEI)
    learning.asked.script("topic_assignment", placing(m1="N1", m2="N1"))
    learning.asked.script("topic_summary", summing("阿伟住在城西"))
    findings = await learning.infer(1, 2)
    async with learning.world.database.connection() as conn:
        await unlearned.set(conn, learning.world.conversation, WEI)
    assert await store(learning.world, findings) == {"topics": 1, "topic_messages": 1, "summaries": 0}


async def test_the_words_of_who_is_not_learned_any_more_go_into_no_new_summary(learning: Topics) -> None:
    await two_topics(learning)
    await learning.world.withdraw(1)
    async with learning.world.database.connection() as conn:
        await unlearned.set(conn, learning.world.conversation, WEI)
    before = len(learning.asked.service.requests)
    await learning.learn(4, 4)
    assert len(learning.asked.service.requests) == before


async def test_forgetting_deletes_every_version_that_their_words_went_into(learning: Topics) -> None:
    await two_topics(learning)
    await learning.talk("七点")
    learning.asked.script("topic_assignment", placing(m4="T1"))
    learning.asked.script("topic_summary", summing("阿伟带狼人杀，七点"))
    await learning.learn(4, 4)
    async with learning.world.database.transaction() as conn:
        await forget.member(conn, learning.world.conversation, WEI)
    assert await learning.versions() == [(1, "老王的猫不吃饭", [2], True)]
    assert list((await learning.members()).values()) == [[1, 4], [2]]
    assert await learning.stale() == [True, False]
    learning.asked.script("topic_summary", summing("小明约了七点"))
    await learning.learn(5, 5)
    [games, _] = await learning.prompt()
    assert (games.gist, games.participants) == ("小明约了七点", (MING,))
    assert "狼人杀" not in learning.asked.asked("topic_summary")[-1]


async def test_forgetting_leaves_no_words_in_dropped_versions_nor_whole_topics_of_theirs(learning: Topics) -> None:
    await two_topics(learning)
    await learning.world.withdraw(3)
    async with learning.world.database.transaction() as conn:
        await forget.member(conn, learning.world.conversation, WEI)
        await forget.member(conn, learning.world.conversation, WANG)
    assert await learning.versions() == []
    assert list((await learning.members()).values()) == [[1]]


async def test_an_older_run_writes_nothing_of_who_was_forgotten_meanwhile(learning: Topics) -> None:
    await two_topics(learning)
    await learning.talk("七点")
    learning.asked.script("topic_assignment", placing(m4="T1"))
    learning.asked.script("topic_summary", summing("阿伟带狼人杀，七点"))
    findings = await learning.infer(4, 4)
    async with learning.world.database.transaction() as conn:
        await forget.member(conn, learning.world.conversation, WEI)
    assert (await store(learning.world, findings))["summaries"] == 0
    assert [version[1] for version in await learning.versions()] == ["老王的猫不吃饭"]
