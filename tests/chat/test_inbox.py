"""The inbox: order kept, nothing dropped, whether the database is there, away or refuses a frame."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from db.migrate import migrate
from db.models import JsonObject
from db.pool import Database, DatabaseUnavailable
from db.server import EmbeddedServer
from db.spool import Spool
from plugins.chat.effects import AccountSeen, Effect
from plugins.chat.inbox import BATCH, QUEUE, Frame, Inbox
from tests.chat.world import BOT, BOT2, World, at, open_world, text
from tests.llm.fake_service import FakeService, call, calls
from tests.support import FAST


class Table:
    """Where frames go: all of a batch or none. ``away``: the database is not there; ``poison``: what it refuses."""

    def __init__(self) -> None:
        self.rows: list[str] = []
        self.late: list[str] = []
        self.batches: list[int] = []
        self.away = False
        self.poison: Callable[[Frame], Exception | None] = lambda frame: None

    async def write(self, frames: Sequence[Frame]) -> list[Effect]:
        await asyncio.sleep(0)
        if self.away:
            raise DatabaseUnavailable("不在")
        for frame in frames:
            error = self.poison(frame)
            if error is not None:
                raise error
        self.batches.append(len(frames))
        self.rows += [frame.raw for frame in frames]
        self.late += [frame.raw for frame in frames if frame.late]
        return [AccountSeen(frame.account_id, None, frame.raw) for frame in frames]


class Office:
    """An inbox over a table."""

    def __init__(self, folder: Path, table: Table, *, max_bytes: int = 1 << 20) -> None:
        self.table = table
        self.told: list[str] = []
        self.spool = Spool(folder / "spool", max_bytes=max_bytes)
        self.rejects = folder / "rejected.jsonl"
        self.inbox = Inbox(table, self.spool, self._tell, self.rejects)

    def _tell(self, effects: Sequence[Effect]) -> None:
        self.told += [effect.note for effect in effects if isinstance(effect, AccountSeen)]

    def put(self, *numbers: int, size: int = 0) -> None:
        """Frames with numbers, each a little longer if so asked."""
        for number in numbers:
            self.inbox.put(frame(number, size))

    async def until(self, check: Callable[[], bool]) -> None:
        """Wait for something to become true."""
        async with asyncio.timeout(20):
            while not check():  # noqa: ASYNC110 - what is waited for has no event
                await asyncio.sleep(0.01)


def frame(number: int, size: int = 0) -> Frame:
    """A frame with a number."""
    payload: JsonObject = {"n": number, "fill": "x" * size}
    return Frame(BOT, 1.0, payload, json.dumps(payload))


def numbers(rows: Sequence[str]) -> list[int]:
    """The numbers of stored frames."""
    return [int(json.loads(row)["n"]) for row in rows]


@asynccontextmanager
async def opened(folder: Path, table: Table, *, max_bytes: int = 1 << 20) -> AsyncGenerator[Office, None]:
    """Run an inbox; at the end it is cancelled, as when the process stops."""
    office = Office(folder, table, max_bytes=max_bytes)
    running = asyncio.create_task(office.inbox.run())
    try:
        yield office
    finally:
        running.cancel()
        await asyncio.wait({running})
        office.spool.close()


@pytest.fixture(autouse=True)
def _patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("plugins.chat.inbox.RETRY_SECONDS", 0.02)
    monkeypatch.setattr("plugins.chat.inbox.RETRY_MAX_SECONDS", 0.05)


async def test_frames_are_stored_in_order_in_few_batches_and_then_told(tmp_path: Path) -> None:
    async with opened(tmp_path, Table()) as office:
        office.put(*range(1200))
        await office.inbox.settled()
        assert numbers(office.table.rows) == list(range(1200))
        assert numbers(office.told) == list(range(1200))
        assert max(office.table.batches) <= BATCH
        assert len(office.table.batches) == 3
        assert not office.table.late


async def test_during_an_outage_frames_wait_on_disk_and_come_back_in_order_once(tmp_path: Path) -> None:
    async with opened(tmp_path, Table()) as office:
        office.put(0, 1)
        await office.inbox.settled()
        office.table.away = True
        for number in range(2, 30):
            office.put(number)
            await asyncio.sleep(0.002)
        await office.until(lambda: office.spool.pending == 28)
        office.table.away = False
        office.put(30)
        await office.until(lambda: len(office.table.rows) == 31)
        assert numbers(office.table.rows) == list(range(31))
        assert office.spool.pending == 0
        assert set(numbers(office.table.late)) >= set(range(2, 30))
        office.put(31)
        await office.inbox.settled()
        assert numbers(office.table.late)[-1] != 31


async def test_what_waits_on_disk_is_stored_by_the_next_process_before_what_it_hears(tmp_path: Path) -> None:
    table = Table()
    table.away = True
    async with opened(tmp_path, table) as office:
        office.put(*range(5))
        await office.until(lambda: office.spool.pending == 5)
    table.away = False
    office = Office(tmp_path, table)
    office.put(5)
    running = asyncio.create_task(office.inbox.run())
    await office.until(lambda: len(table.rows) == 6)
    running.cancel()
    await asyncio.wait({running})
    office.spool.close()
    assert numbers(table.rows) == list(range(6))


async def test_what_is_in_memory_at_the_end_goes_to_disk(tmp_path: Path) -> None:
    table = Table()
    async with opened(tmp_path, table) as office:
        office.put(1)
        await office.inbox.settled()
        office.put(2, 3)
    async with opened(tmp_path, table) as again:
        await again.until(lambda: len(table.rows) == 3)
    assert numbers(table.rows) == [1, 2, 3]


@pytest.mark.parametrize("error", [ValueError("坏"), OverflowError("大"), KeyError("少"), TypeError("错"), RecursionError("深")])
async def test_a_frame_that_cannot_be_stored_is_set_aside_and_its_neighbours_are_stored(tmp_path: Path, error: Exception) -> None:
    table = Table()
    table.poison = lambda item: error if item.payload["n"] in {3, 77} else None
    async with opened(tmp_path, table) as office:
        office.put(*range(100))
        await asyncio.wait_for(office.inbox.settled(), 10)
        assert numbers(table.rows) == [number for number in range(100) if number not in {3, 77}]
        kept = [json.loads(line) for line in office.rejects.read_text(encoding="utf-8").splitlines()]
        assert [json.loads(item["raw"])["n"] for item in kept] == [3, 77]
        assert {item["account"] for item in kept} == {BOT}
        office.put(100)
        await asyncio.wait_for(office.inbox.settled(), 10)
        assert numbers(table.rows)[-1] == 100


async def test_a_poisonous_frame_on_disk_is_set_aside_too(tmp_path: Path) -> None:
    table = Table()
    table.away = True
    table.poison = lambda item: ValueError("坏") if item.payload["n"] == 1 else None
    async with opened(tmp_path, table) as office:
        office.put(0, 1, 2)
        await office.until(lambda: office.spool.pending == 3)
        table.away = False
        await office.until(lambda: numbers(table.rows) == [0, 2] and office.spool.pending == 0)
        assert office.rejects.exists()


async def test_a_full_queue_blocks_the_socket_and_opens_it_again(tmp_path: Path) -> None:
    table = Table()
    async with opened(tmp_path, table) as office:
        office.put(*range(QUEUE))
        waiting = asyncio.create_task(office.inbox.room())
        await asyncio.sleep(0)
        assert not waiting.done()
        await asyncio.wait_for(waiting, 10)
        await office.inbox.settled()
        assert len(table.rows) == QUEUE


async def test_a_full_disk_spool_blocks_and_loses_nothing(tmp_path: Path) -> None:
    table = Table()
    table.away = True
    async with opened(tmp_path, table, max_bytes=4000) as office:
        office.put(*range(30), size=200)
        await office.until(lambda: office.inbox.blocked)
        assert 0 < office.spool.pending < 30
        assert office.inbox.waiting == 30 - office.spool.pending
        table.away = False
        await office.until(lambda: len(table.rows) == 30)
        await office.inbox.settled()
        assert numbers(table.rows) == list(range(30))
        assert not office.inbox.blocked


async def test_a_frame_larger_than_the_whole_spool_waits_in_memory(tmp_path: Path) -> None:
    table = Table()
    table.away = True
    async with opened(tmp_path, table, max_bytes=2000) as office:
        office.put(0)
        office.put(1, size=5000)
        office.put(2)
        await office.until(lambda: office.inbox.blocked)
        table.away = False
        await office.until(lambda: len(table.rows) == 3)
        assert numbers(table.rows) == [0, 1, 2]
        await office.until(lambda: not office.inbox.blocked)


async def test_a_command_is_carried_out_when_heard_and_not_when_it_waited_on_disk(world: World) -> None:
    payload = world.message("/群友 帮助") | {"self_id": BOT, "time": 1}
    world.chat.inbox.put(Frame(BOT, 1.0, payload, json.dumps(payload), late=True))
    world.say("/群友 帮助")
    await world.until(lambda: len(world.napcat.sent) == 1)
    await asyncio.sleep(0.3)
    assert len(world.napcat.sent) == 1


async def test_one_batch_with_every_kind_of_number_is_stored(world: World) -> None:
    world.say("早", message_id=-(2**31), real_seq="0")
    world.say("中", message_id=2**63 - 1, real_seq=str(2**62))
    world.say("晚", message_id=str(2**40), real_seq=None)
    world.say("太大", message_id=2**80, real_seq=str(2**80))
    await world.settle()
    assert {"早", "中", "晚"} <= {str(row["body"]) for row in await world.messages()}


async def test_a_database_that_stops_and_starts_loses_nothing(tmp_path: Path) -> None:
    server = EmbeddedServer.start(tmp_path / "server", extra=FAST)
    try:
        await migrate(server.url)
        database = Database(server.url)
        await database.open()
        folder = tmp_path / "data"
        async with (
            FakeService(calls(call("speak", content="好"))) as service,
            open_world(database, folder, service) as world,
        ):
            world.connect()
            world.say("停之前")
            await world.settle()
            await asyncio.to_thread(server.stop)
            for number in range(20):
                world.say(f"停了{number}")
                await asyncio.sleep(0.01)
            world.say(at(BOT), text(" 停的时候叫你"))
            await world.settle()
            server = await asyncio.to_thread(EmbeddedServer.start, tmp_path / "server", extra=FAST)
            await world.until(lambda: world.napcat.texts() == ["好"], 40)
            world.say("起来之后")
            await world.settle()
            bodies = [row["body"] for row in await world.messages() if not row["is_self"]]
            assert bodies == ["停之前", *(f"停了{number}" for number in range(20)), "@小满 停的时候叫你", "起来之后"]
        await database.close()
    finally:
        server.stop()


async def test_an_account_that_another_process_brought_is_known_as_ours_soon(database: Database, tmp_path: Path) -> None:
    async with (
        FakeService(calls(call("speak", content="好"))) as service,
        open_world(database, tmp_path / "a", service) as first,
        open_world(database, tmp_path / "b", service) as second,
    ):
        first.chat.own.worker = "elsewhere:1:1.0"  # both run in this test's process
        second.connect(BOT2)
        first.connect(BOT)
        await second.until(lambda: BOT in second.chat.own.ids)
        fields = second.message("小满在想", user=BOT, sender={"user_id": BOT, "nickname": "小满"})
        second.event(BOT2, **fields)
        await second.settle()
        assert [row["is_self"] for row in await second.messages()] == [True]
        assert not await second.rows("SELECT FROM owed")
