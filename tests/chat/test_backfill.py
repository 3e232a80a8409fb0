"""Filling the gap after a connect: as many pages as needed, each message once, whichever way this version pages."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from db.models import Json, JsonObject
from db.pool import Database
from plugins.chat.backfill import PAGE, PAGES
from plugins.chat.onebot import CALL_SECONDS
from tests.chat.world import BOT, GROUP, MING, WEI, FakeNapCat, World, at, open_world, text
from tests.llm.fake_service import FakeService


class Archive(FakeNapCat):
    """A NapCat with a long history. ``forward``: the default page holds the anchor and what came later, and only
    ``reverseOrder`` gives the anchor and what came before; else every page holds what came before."""

    def __init__(self, *, forward: bool = True) -> None:
        super().__init__()
        self.forward = forward
        self.gate = asyncio.Event()
        self.gate.set()

    async def call(self, account_id: int, action: str, *, seconds: float = CALL_SECONDS, **params: Json) -> Json:
        if action != "get_group_msg_history":
            return await super().call(account_id, action, seconds=seconds, **params)
        self.calls.append((action, params))
        await self.gate.wait()
        return {"messages": self._page(params)}

    def _page(self, params: JsonObject) -> list[Json]:
        count, anchor = int(str(params["count"])), params.get("message_seq")
        if anchor is None:
            return list(self.history[-count:])
        at_anchor = next(index for index, item in enumerate(self.history) if item["message_id"] == anchor)
        if self.forward and not params.get("reverseOrder"):
            return list(self.history[at_anchor : at_anchor + count])
        return list(self.history[max(0, at_anchor - count + 1) : at_anchor + 1])

    def remember(self, first: int, last: int, *, numbered: bool = True, age: int = 60) -> None:
        """Messages ``first`` to ``last``, one a second."""
        for number in range(first, last + 1):
            self.history.append(
                {
                    "message_id": 10_000 + number,
                    "user_id": WEI,
                    "sender": {"user_id": WEI, "nickname": "阿伟"},
                    "message": [text(f"第{number}句")],
                    "time": int(time.time()) - age - (last - number),
                    **({"real_seq": str(number)} if numbered else {}),
                }
            )

    def pages(self) -> int:
        """How often history was asked."""
        return len(self.called("get_group_msg_history"))


@pytest.fixture(params=[True, False], ids=["anchor and later", "anchor and earlier"])
def archive(request: pytest.FixtureRequest) -> Archive:
    """A history in both page directions."""
    return Archive(forward=bool(request.param))


@pytest.fixture
async def world(database: Database, tmp_path: Path, service: FakeService, archive: Archive) -> AsyncGenerator[World, None]:
    """The chat, not connected yet."""
    async with open_world(database, tmp_path, service, archive) as opened:
        yield opened


async def bodies(world: World) -> list[str]:
    """What is stored, in reading order."""
    rows = await world.rows("SELECT body FROM messages WHERE NOT is_self ORDER BY real_seq NULLS LAST, sent_at, pos")
    return [str(row["body"]) for row in rows]


async def stored(world: World, count: int) -> None:
    """Wait until so many messages are stored."""
    await world.until_row("SELECT count(*) FROM messages HAVING count(*) >= %(count)s", count=count)


async def test_a_gap_of_several_pages_is_filled_and_each_message_stored_once(world: World, archive: Archive) -> None:
    archive.remember(1, 400)
    world.event(BOT, **archive.history[200], post_type="message", message_type="group", group_id=GROUP)
    await world.settle()
    world.connect()
    await stored(world, 200)
    await world.settle()
    assert await bodies(world) == [f"第{number}句" for number in range(201, 401)]


async def test_pages_are_bounded(world: World, archive: Archive) -> None:
    archive.remember(1, 3000)
    world.event(BOT, **archive.history[0], post_type="message", message_type="group", group_id=GROUP)
    await world.settle()
    world.connect()
    await stored(world, PAGE * (PAGES - 1))
    await world.settle()
    assert len(await bodies(world)) <= PAGE * PAGES + 1
    assert archive.pages() <= 2 * PAGES
    assert (await bodies(world))[-1] == "第3000句"


async def test_a_new_group_gets_one_page(world: World, archive: Archive) -> None:
    archive.remember(1, 300)
    world.connect()
    await stored(world, PAGE)
    await world.settle()
    assert len(await bodies(world)) == PAGE
    assert archive.pages() == 1


async def test_without_a_gap_one_page_is_read_and_nothing_stored_twice(world: World, archive: Archive) -> None:
    archive.remember(1, 60)
    world.connect()
    await stored(world, PAGE)
    world.chat.parted(BOT)
    world.connect()
    await world.until(lambda: archive.pages() == 2)
    await world.settle()
    await asyncio.sleep(0.1)
    assert len(await bodies(world)) == PAGE


async def test_what_is_heard_before_the_history_came_does_not_hide_the_gap(world: World, archive: Archive) -> None:
    archive.remember(1, 100)
    world.event(BOT, **archive.history[9], post_type="message", message_type="group", group_id=GROUP)
    await world.settle()
    archive.gate.clear()
    world.connect()
    world.say("刚到的", user=MING, real_seq="101")
    await world.settle()
    archive.gate.set()
    await stored(world, 92)
    await world.settle()
    assert await bodies(world) == [*(f"第{number}句" for number in range(10, 101)), "刚到的"]


async def test_history_that_came_late_stands_where_it_was_said(world: World, archive: Archive, service: FakeService) -> None:
    archive.remember(1, 5)
    archive.gate.clear()
    world.connect()
    world.say("后来的话", user=MING, real_seq="6")
    await world.settle()
    archive.gate.set()
    await stored(world, 6)
    world.say(at(BOT), text(" 他们说了什么"), user=MING, real_seq="7")
    await world.until(lambda: len(service.requests) == 1)
    prompt = str(service.requests[0]["messages"])
    places = [prompt.index(words) for words in [*(f"第{number}句" for number in range(1, 6)), "后来的话", "他们说了什么"]]
    assert places == sorted(places)


async def test_messages_of_one_second_without_order_are_all_kept(world: World, archive: Archive) -> None:
    archive.remember(1, 20, numbered=False)
    now = int(time.time())
    archive.history[:] = [{**item, "time": now - 60} for item in archive.history]
    world.connect()
    await stored(world, 20)


async def test_rubbish_in_history_is_passed_over(world: World, archive: Archive) -> None:
    archive.remember(1, 3)
    archive.history[1:1] = [{"message_id": 1}]
    archive._page = lambda params: [*archive.history, None, 5, "x", []]  # type: ignore[method-assign]
    world.connect()
    await stored(world, 3)
    assert (await bodies(world))[:3] == ["第1句", "第2句", "第3句"]


async def test_without_numbers_pages_are_read_until_what_is_known(world: World, archive: Archive) -> None:
    archive.remember(1, 400, numbered=False)
    archive.history[:] = [{**item, "time": int(str(item["time"])) // 3 * 3} for item in archive.history]  # three a second
    world.event(BOT, **archive.history[99], post_type="message", message_type="group", group_id=GROUP)
    await world.settle()
    archive.gate.clear()
    world.connect()
    world.event(
        BOT,
        **{**archive.history[399], "message_id": 1, "message": [text("刚到的")]},
        post_type="message",
        message_type="group",
        group_id=GROUP,
    )
    await world.settle()
    archive.gate.set()
    await stored(world, 302)
    await world.settle()
    said = await world.rows("SELECT body FROM messages ORDER BY sent_at, pos")
    found = [str(row["body"]) for row in said if row["body"] != "刚到的"]
    earlier = {"第98句", "第99句"}  # perhaps of one second with what is known
    assert [body for body in found if body not in earlier] == [f"第{number}句" for number in range(100, 401)]
    assert archive.pages() <= 2 * 7


async def test_messages_of_one_second_keep_the_order_of_their_page(world: World, archive: Archive) -> None:
    archive.remember(1, 30, numbered=False)
    now = int(time.time())
    numbers = {index: (index * 7919) % 1000 for index in range(30)}  # ids are no order
    archive.history[:] = [{**item, "time": now - 60, "message_id": numbers[index]} for index, item in enumerate(archive.history)]
    world.connect()
    await stored(world, 30)
    assert await bodies(world) == [f"第{number}句" for number in range(1, 31)]


async def test_a_storm_of_reconnects_asks_a_bounded_number_of_times(world: World, archive: Archive) -> None:
    archive.remember(1, 10)
    for _ in range(30):
        world.connect()
        world.chat.parted(BOT)
    world.connect()
    await stored(world, 10)
    await world.until_row("SELECT FROM accounts WHERE connected")
    await asyncio.sleep(0.3)
    assert len(archive.called("get_group_list")) <= 3
    assert len(await bodies(world)) == 10
    assert len(await world.rows("SELECT FROM accounts WHERE connected")) == 1


async def test_history_that_an_import_brought_before_is_not_stored_again(world: World, archive: Archive) -> None:
    archive.remember(1, 30)
    archive.history.append({**archive.history[-1], "message_id": 10_031, "real_seq": "31"})
    [place] = await world.rows(
        "INSERT INTO conversations (kind, target_id, last_pos) VALUES ('group', %(g)s, 20) RETURNING id", g=GROUP
    )
    await world.rows(
        """
        WITH brought AS (
            INSERT INTO messages (conversation_id, pos, sender_id, sender_name, text, body, sent_at, backfilled)
            SELECT %(place)s, n, %(wei)s, '阿伟', h.body, h.body, to_timestamp(h.at), true
            FROM unnest(%(bodies)s::text[], %(times)s::bigint[]) WITH ORDINALITY AS h(body, at, n)
            RETURNING id, pos
        )
        INSERT INTO message_keys (account_id, message_id, message) SELECT 0, 777000 + pos, id FROM brought RETURNING message
        """,
        place=place["id"],
        wei=WEI,
        bodies=[f"第{number}句" for number in range(11, 31)],
        times=[item["time"] for item in archive.history[10:30]],
    )
    world.connect()
    await stored(world, 21)
    await world.settle()
    assert (await bodies(world)).count("第30句") == 2
