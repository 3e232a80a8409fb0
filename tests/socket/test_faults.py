"""A real process under faults: it answers, dies, comes back, loses its database, and loses nothing else."""

from __future__ import annotations

import asyncio
import re
import signal
import socket
from collections.abc import AsyncGenerator
from pathlib import Path

import psutil
import pytest

from db.models import JsonObject
from db.postmaster import find_postmaster
from tests.llm.fake_service import Answer, FakeService, Raw, call, calls, completion
from tests.socket.process import BOT, BOT2, GROUPS, BotProcess, NapCat, at, running, until

MENTION, HTML, KILL, OUTAGE, BIG, SHARED = GROUPS[:6]


def answer_what_was_asked(request: JsonObject) -> Answer:
    """A model that reads the last instruction in the prompt: ``答:`` and a word, with ``慢`` slowly, with ``网页`` in HTML."""
    asked = re.findall(r"答:(慢|网页)?(\w+)", str(request["messages"]))
    how, word = asked[-1] if asked else ("", "好")
    if how == "网页":
        return Raw("<html><body>502 Bad Gateway</body></html>", content_type="text/html")
    return Raw(completion(calls(call("speak", content=word))), delay=20 if how == "慢" else 0)


@pytest.fixture(scope="module")
async def service() -> AsyncGenerator[FakeService, None]:
    """The model, in this process."""
    async with FakeService(brain=answer_what_was_asked) as opened:
        yield opened


@pytest.fixture(scope="module")
async def bot(tmp_path_factory: pytest.TempPathFactory, service: FakeService) -> AsyncGenerator[BotProcess, None]:
    """One process for the module, with its own embedded database."""
    process = BotProcess(tmp_path_factory.mktemp("bot"), free_port(), service.base_url)
    async with running(process) as started:
        yield started


@pytest.fixture(autouse=True)
def _usual_model(service: FakeService) -> None:
    service.brain = answer_what_was_asked


@pytest.fixture
async def napcat(bot: BotProcess) -> AsyncGenerator[NapCat, None]:
    """The bot's account, connected."""
    async with NapCat(bot.port) as connected:
        yield connected


def free_port() -> int:
    """A port that nobody uses."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


async def until_stored(bot: BotProcess, group: int, count: int) -> list[str]:
    """Wait until people's messages of a group are stored."""
    async with asyncio.timeout(40):
        while len(said := await bot.said_in(group)) < count:  # noqa: ASYNC110 - what is waited for has no event
            await asyncio.sleep(0.1)
    return said


async def until_turn(bot: BotProcess, group: int, status: str) -> None:
    """Wait until a group has a turn in a state."""
    async with asyncio.timeout(30):
        while all(turn["status"] != status for turn in await bot.items("turns", group)):  # noqa: ASYNC110 - as above
            await asyncio.sleep(0.1)


async def test_a_mention_is_answered(bot: BotProcess, napcat: NapCat) -> None:
    await napcat.say(MENTION, at(), " 答:在的")
    await until(lambda: napcat.texts(MENTION) == ["在的"])
    await until_turn(bot, MENTION, "done")
    messages = await bot.items("messages", MENTION)
    assert [(item["display"], item["is_self"]) for item in messages] == [("@小满 答:在的", False), ("在的", True)]
    assert [item["status"] for item in await bot.items("outbox", MENTION)] == ["sent"]


async def test_a_model_that_answers_html_is_silence_and_a_failed_turn(bot: BotProcess, napcat: NapCat) -> None:
    await napcat.say(HTML, at(), " 答:网页好")
    await until_turn(bot, HTML, "failed")
    assert not napcat.texts(HTML)
    turn = (await bot.items("turns", HTML))[0]
    assert turn["error"]
    assert "<html>" not in str(turn["error"])


async def test_a_killed_process_answers_once_after_its_restart(bot: BotProcess, napcat: NapCat, service: FakeService) -> None:
    before = len(service.requests)
    await napcat.say(KILL, "先说一句")
    await napcat.say(KILL, at(), " 答:慢慢来")
    await until(lambda: len(service.requests) > before)
    await bot.kill()
    service.brain = None
    service.script([calls(call("speak", content="回来了"))])
    await bot.start()
    async with NapCat(bot.port) as again:
        await until(lambda: again.texts(KILL) == ["回来了"])
        await until_turn(bot, KILL, "done")
        await asyncio.sleep(1.5)  # three scans
        assert again.texts(KILL) == ["回来了"]
        assert sorted(str(turn["status"]) for turn in await bot.items("turns", KILL)) == ["done", "interrupted"]
        assert await bot.said_in(KILL) == ["先说一句", "@小满 答:慢慢来"]


async def test_messages_of_a_database_outage_are_stored_afterwards_in_order_once(bot: BotProcess, napcat: NapCat) -> None:
    await napcat.say(OUTAGE, "之前")
    await until_stored(bot, OUTAGE, 1)
    postmaster = find_postmaster(bot.folder / "data" / "postgres")
    assert postmaster is not None
    psutil.Process(postmaster.pid).send_signal(signal.SIGINT)
    for number in range(30):
        said = await napcat.say(OUTAGE, f"停了{number}")
        await napcat.event(**said)  # as a socket that stutters would
        await asyncio.sleep(0.03)
    await napcat.say(OUTAGE, at(), " 答:还在")
    await until(lambda: napcat.texts(OUTAGE) == ["还在"], 60)
    await napcat.say(OUTAGE, "之后")
    assert await until_stored(bot, OUTAGE, 33) == ["之前", *(f"停了{number}" for number in range(30)), "@小满 答:还在", "之后"]


async def test_hostile_frames_cost_no_message_and_no_connection(bot: BotProcess, napcat: NapCat) -> None:
    assert napcat._client is not None  # pyright: ignore[reportPrivateUsage]
    raw = napcat._client  # pyright: ignore[reportPrivateUsage]
    await napcat.say(BIG, "前")
    for rubbish in ("not json", "[]", b"\xff\x00", "[" * 50_000, '{"post_type": 7}', '{"post_type": "message", "message": {}}'):
        await raw.send(rubbish)
    await napcat.say(BIG, "哈" * (16 * 1024 * 1024 // 3))
    await napcat.say(BIG, "\ud83d 半个字 \x00")
    await napcat.say(BIG, "后")
    said = await until_stored(bot, BIG, 4)
    assert (said[0], said[-1]) == ("前", "后")
    assert len(said) == 4


async def test_the_process_stops_in_order_and_what_is_owed_is_answered_later(
    tmp_path: Path, database_url: str, service: FakeService
) -> None:
    port = free_port()
    async with running(BotProcess(tmp_path, port, service.base_url, DATABASE_URL=database_url)) as once:
        async with NapCat(port) as napcat:
            before = len(service.requests)
            await napcat.say(MENTION, at(), " 答:慢慢来")
            await until(lambda: len(service.requests) > before)
            assert await once.stop() in {0, -signal.SIGTERM}
        assert "Traceback" not in once.said()
        service.brain = None
        service.script([calls(call("speak", content="在"))])
        await once.start()
        async with NapCat(port) as napcat:
            await until(lambda: napcat.texts(MENTION) == ["在"])


async def test_two_processes_with_one_database_answer_a_mention_once(
    tmp_path: Path, database_url: str, service: FakeService
) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    ports = free_port(), free_port()
    first, second = (
        BotProcess(tmp_path / name, port, service.base_url, DATABASE_URL=database_url)
        for name, port in zip(("one", "two"), ports, strict=True)
    )
    before = len(service.requests)
    async with running(first), running(second), NapCat(ports[0], BOT) as one, NapCat(ports[1], BOT2) as two:
        fields = await one.say(SHARED, at(), " 答:在")
        await two.event(**{**fields, "message_id": 777_000_001})
        await until(lambda: bool(one.texts(SHARED) or two.texts(SHARED)))
        await until_turn(first, SHARED, "done")
        await asyncio.sleep(1.5)  # three scans
        assert (one.texts(SHARED), two.texts(SHARED)) == (["在"], [])
        said = await second.said_in(SHARED)
        assert [words.split()[-1] for words in said] == ["答:在"]
        assert sum(turn["status"] == "done" for turn in await first.items("turns", SHARED)) == 1
        assert len(service.requests) == before + 1
