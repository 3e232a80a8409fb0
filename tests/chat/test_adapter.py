"""The adapter over a real socket: whom it lets in, what it hears, and through which socket it calls."""

from __future__ import annotations

import asyncio
import base64
import json
import socket
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, suppress
from typing import cast

import nonebot
import pytest
import uvicorn
from nonebot.adapters.onebot.v11 import Bot, Event
from nonebot.log import logger
from nonebot.matcher import Matcher
from nonebot.plugin import on_message
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from db.models import Json, JsonObject
from plugins import napcat
from plugins.chat.onebot import CallFailed, NapCatCalls
from plugins.napcat import MAX_FRAME_BYTES, NapCatAdapter

BOT, BOT2 = 5000000001, 5000000002
GROUP, MING = 5700000001, 5000000011


class Ear:
    """Hears frames."""

    def __init__(self) -> None:
        self.frames: list[tuple[int, JsonObject, str]] = []
        self.coming: list[str] = []
        self.open = asyncio.Event()
        self.open.set()

    def heard(self, account_id: int, payload: JsonObject, raw: str) -> None:
        self.frames.append((account_id, payload, raw))

    @property
    def full(self) -> bool:
        return not self.open.is_set()

    async def room(self) -> None:
        await self.open.wait()

    def joined(self, account_id: int) -> None:
        self.coming.append(f"+{account_id}")

    def parted(self, account_id: int) -> None:
        self.coming.append(f"-{account_id}")

    def said(self) -> list[Json]:
        """The numbers that the frames carry."""
        return [payload.get("n") for _, payload, _ in self.frames]


class Door:
    """The adapter behind a real server."""

    def __init__(self, adapter: NapCatAdapter, port: int, ear: Ear) -> None:
        self.adapter = adapter
        self.port = port
        self.ear = ear
        self.calls = NapCatCalls(lambda account: cast("Bot | None", adapter.bots.get(str(account))))

    def connect(self, account: int | str | None = BOT, path: str = "/onebot/v11/ws", **headers: str) -> connect:
        """A client that says whose socket it is."""
        sent = {key.replace("_", "-"): value for key, value in headers.items()}
        if account is not None:
            sent["X-Self-ID"] = str(account)
        return connect(f"ws://127.0.0.1:{self.port}{path}", additional_headers=sent, max_size=None, proxy=None)

    async def until(self, check: list[Json]) -> None:
        """Wait until exactly these numbers were heard."""
        async with asyncio.timeout(20):
            while self.ear.said() != check:  # noqa: ASYNC110 - what is waited for has no event
                await asyncio.sleep(0.01)

    async def until_coming(self, check: list[str]) -> None:
        """Wait until accounts came and went like this."""
        async with asyncio.timeout(20):
            while self.ear.coming != check:  # noqa: ASYNC110 - what is waited for has no event
                await asyncio.sleep(0.01)


@pytest.fixture(scope="session")
def adapter(nonebug_init: None) -> NapCatAdapter:
    """The one adapter of this session's NoneBot."""
    nonebot.get_driver().register_adapter(NapCatAdapter)  # pyright: ignore[reportUnknownMemberType] - untyped kwargs
    return nonebot.get_adapter(NapCatAdapter)


@asynccontextmanager
async def opened(adapter: NapCatAdapter, *, ping: float = 20.0) -> AsyncGenerator[Door, None]:
    """Serve the adapter as the bot does."""
    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    listening.listen(64)
    config = uvicorn.Config(
        nonebot.get_asgi(),
        lifespan="off",
        log_level="error",
        ws_max_size=MAX_FRAME_BYTES,
        ws_ping_interval=ping,
        ws_ping_timeout=ping,
        timeout_graceful_shutdown=2,
    )
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server.serve(sockets=[listening]))
    ear = Ear()
    adapter.listener = ear
    try:
        yield Door(adapter, listening.getsockname()[1], ear)
    finally:
        adapter.listener = None
        server.should_exit = True
        with suppress(asyncio.CancelledError):
            await serving
        listening.close()


@pytest.fixture
async def door(adapter: NapCatAdapter) -> AsyncGenerator[Door, None]:
    """The adapter, served."""
    async with opened(adapter) as served:
        yield served


@pytest.fixture
def lines() -> Generator[list[str], None, None]:
    """What the log says."""
    said: list[str] = []
    sink = logger.add(lambda message: said.append(str(message)), level="DEBUG", format="{message}")
    yield said
    logger.remove(sink)


def frame(number: int, **more: Json) -> str:
    """An event frame with a number."""
    return json.dumps({"post_type": "meta_event", "meta_event_type": "x", "self_id": BOT, "time": 1, "n": number, **more})


async def answer(client: ClientConnection, data: Json, *, times: int = 1, status: str = "ok") -> JsonObject:
    """Answer the next call."""
    asked: JsonObject = json.loads(await asyncio.wait_for(client.recv(), 10))
    for _ in range(times):
        await client.send(json.dumps({"status": status, "retcode": 0, "data": data, "echo": asked["echo"]}))
    return asked


async def test_frames_are_heard_in_order_as_they_came(door: Door) -> None:
    async with door.connect() as client:
        for number in range(200):
            await client.send(frame(number))
        await door.until(list(range(200)))
    await door.until_coming([f"+{BOT}", f"-{BOT}"])
    assert door.ear.frames[7] == (BOT, json.loads(frame(7)), frame(7))


@pytest.mark.parametrize("path", ["/onebot/v11/ws", "/onebot/v11/ws/", "/onebot/v11/"])
async def test_every_known_path_is_open(door: Door, path: str) -> None:
    async with door.connect(path=path) as client:
        await client.send(frame(1))
        await door.until([1])


@pytest.mark.parametrize("token", [None, "Bearer wrong", "Bearer "])
async def test_a_wrong_token_is_refused_and_the_log_says_what_to_do(
    door: Door, monkeypatch: pytest.MonkeyPatch, lines: list[str], token: str | None
) -> None:
    monkeypatch.setattr(door.adapter.onebot_config, "onebot_access_token", "right-one")
    with pytest.raises(InvalidStatus) as refusal:
        async with door.connect(**({"Authorization": token} if token else {})):
            pass
    assert refusal.value.response.status_code == 403
    assert any(str(BOT) in line and "Token" in line and "ONEBOT_ACCESS_TOKEN" in line for line in lines)
    assert not door.ear.coming


async def test_the_right_token_is_let_in(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door.adapter.onebot_config, "onebot_access_token", "right-one")
    async with door.connect(Authorization="Bearer right-one") as client:
        await client.send(frame(1))
        await door.until([1])


@pytest.mark.parametrize("account", [None, "", "小满", "0", "-5", "12 34"])
async def test_who_does_not_say_which_account_it_is_stays_outside(door: Door, lines: list[str], account: str | None) -> None:
    headers = {} if account is None else {"X-Self-ID": account.encode().decode("latin-1")}
    with pytest.raises(InvalidStatus):
        async with door.connect(None, **{key.replace("-", "_"): value for key, value in headers.items()}):
            pass
    assert any("X-Self-ID" in line for line in lines)


async def test_two_sockets_of_one_account_are_both_heard_and_calls_use_the_newest(door: Door) -> None:
    async with door.connect() as old:
        await old.send(frame(1))
        await door.until([1])
        async with door.connect() as new:
            await new.send(frame(2))
            await door.until([1, 2])
            await old.send(frame(3))
            await door.until([1, 2, 3])
            call = asyncio.create_task(door.calls.call(BOT, "get_login_info"))
            assert (await answer(new, {"user_id": BOT}))["action"] == "get_login_info"
            assert await call == {"user_id": BOT}
        async with asyncio.timeout(10):
            while len(door.adapter._sockets[str(BOT)]) > 1:  # noqa: ASYNC110  # pyright: ignore[reportPrivateUsage]
                await asyncio.sleep(0.01)
        call = asyncio.create_task(door.calls.call(BOT, "get_status"))
        assert (await answer(old, {"online": True}))["action"] == "get_status"
        assert await call == {"online": True}
    await door.until_coming([f"+{BOT}", f"+{BOT}", f"-{BOT}"])


async def test_closing_the_old_of_two_sockets_keeps_the_new(door: Door) -> None:
    old = await door.connect()
    async with door.connect() as new:
        await old.close()
        await new.send(frame(1))
        await door.until([1])
        call = asyncio.create_task(door.calls.call(BOT, "get_status"))
        await answer(new, None)
        await call
        assert door.ear.coming == [f"+{BOT}", f"+{BOT}"], "each connect may have a gap to fill"


async def test_two_accounts_are_kept_apart(door: Door) -> None:
    async with door.connect(BOT) as one, door.connect(BOT2) as two:
        await two.send(frame(2))
        await door.until([2])
        assert door.ear.frames[0][0] == BOT2
        call = asyncio.create_task(door.calls.call(BOT, "get_status"))
        await answer(one, None)
        await call


@pytest.mark.parametrize(
    "rubbish",
    [
        "",
        "not json",
        "[1, 2]",
        "7",
        "null",
        '"text"',
        "{",
        "[" * 100_000,
        b"\xff\xfe\x00",
        "{}",
        '{"echo": "77"}',
        '{"echo": {}}',
    ],
)
async def test_a_frame_that_makes_no_sense_is_skipped_and_the_socket_stays(door: Door, rubbish: str | bytes) -> None:
    async with door.connect() as client:
        await client.send(frame(1))
        await client.send(rubbish)
        await client.send(frame(2))
        await door.until([1, 2])
        call = asyncio.create_task(door.calls.call(BOT, "get_status"))
        await answer(client, None)
        await call
    assert door.ear.coming[0] == f"+{BOT}"


async def test_a_binary_frame_is_read_as_text(door: Door) -> None:
    async with door.connect() as client:
        await client.send(frame(1, words="好").encode())
        await door.until([1])


async def test_a_frame_of_sixteen_mebibytes_is_heard(door: Door) -> None:
    async with door.connect() as client:
        await client.send(frame(1, big="哈" * (16 * 1024 * 1024 // 6)))
        await client.send(frame(2))
        await door.until([1, 2])


async def test_an_answer_that_comes_twice_does_no_harm(door: Door) -> None:
    async with door.connect() as client:
        call = asyncio.create_task(door.calls.call(BOT, "get_status"))
        await answer(client, {"online": True}, times=5)
        await client.send(frame(1))
        assert await call == {"online": True}
        await door.until([1])
    assert door.ear.coming[0] == f"+{BOT}"


async def test_a_refusal_says_why(door: Door) -> None:
    async with door.connect() as client:
        call = asyncio.create_task(door.calls.call(BOT, "send_group_msg"))
        asked = json.loads(await client.recv())
        refusal = {"status": "failed", "retcode": 200, "data": None, "message": '"result": 120', "wording": ""}
        await client.send(json.dumps(refusal | {"echo": asked["echo"]}))
        with pytest.raises(CallFailed) as failed:
            await call
    assert (failed.value.failure.status, failed.value.failure.reason) == ("refused", "muted")


async def test_nobody_answers_in_time_and_nobody_knows(door: Door) -> None:
    async with door.connect():
        with pytest.raises(CallFailed) as failed:
            await door.calls.call(BOT, "send_group_msg", seconds=0.1)
    assert failed.value.failure.status == "unknown"


async def test_an_answer_after_the_time_does_no_harm(door: Door) -> None:
    async with door.connect() as client:
        with pytest.raises(CallFailed):
            await door.calls.call(BOT, "send_group_msg", seconds=0.05)
        await answer(client, {"message_id": 5})
        await client.send(frame(1))
        await door.until([1])


async def test_without_a_socket_a_call_is_refused_because_offline(door: Door) -> None:
    with pytest.raises(CallFailed) as failed:
        await door.calls.call(BOT, "send_group_msg")
    assert (failed.value.failure.status, failed.value.failure.reason) == ("refused", "offline")


async def test_a_call_into_a_socket_that_is_gone_but_not_yet_noticed_fails_as_a_call(
    door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(napcat, "HELD_EVENTS", 1)
    client = await door.connect()
    await client.send(frame(1))
    await door.until([1])
    door.ear.open.clear()  # nobody reads, so nobody notices
    await client.send(frame(2))
    await asyncio.sleep(0.2)
    client.transport.abort()
    await asyncio.sleep(0.2)
    with pytest.raises(CallFailed) as failed:
        await door.calls.call(BOT, "send_group_msg", seconds=0.5)
    assert failed.value.failure.status == "unknown"
    door.ear.open.set()
    await door.until_coming([f"+{BOT}", f"-{BOT}"])


async def answer_behind(client: ClientConnection, *numbers: int) -> None:
    """Answer the next call, behind some events."""
    asked = json.loads(await client.recv())
    for number in numbers:
        await client.send(frame(number))
    await client.send(json.dumps({"status": "ok", "retcode": 0, "data": {"message_id": 7}, "echo": asked["echo"]}))


async def test_an_answer_behind_events_is_heard_also_while_there_is_no_room(door: Door) -> None:
    async with door.connect() as client:
        await door.until_coming([f"+{BOT}"])
        door.ear.open.clear()
        answering = asyncio.create_task(answer_behind(client, *range(5)))
        assert await door.calls.call(BOT, "send_group_msg") == {"message_id": 7}
        await answering
        assert door.ear.said() == []
        door.ear.open.set()
        await door.until([0, 1, 2, 3, 4])
        await client.send(frame(5))
        await door.until([0, 1, 2, 3, 4, 5])


@pytest.mark.parametrize("bound", ["HELD_EVENTS", "HELD_CHARS"])
async def test_without_room_only_so_much_is_read(door: Door, monkeypatch: pytest.MonkeyPatch, bound: str) -> None:
    monkeypatch.setattr(napcat, bound, 3 if bound == "HELD_EVENTS" else 3 * len(frame(0)))
    async with door.connect() as client:
        await door.until_coming([f"+{BOT}"])
        door.ear.open.clear()
        answering = asyncio.create_task(answer_behind(client, 0, 1, 2))
        with pytest.raises(CallFailed) as failed:
            await door.calls.call(BOT, "send_group_msg", seconds=0.3)
        assert failed.value.failure.status == "unknown"
        await answering
        door.ear.open.set()
        await client.send(frame(3))
        await door.until([0, 1, 2, 3])


async def test_what_is_held_is_heard_when_the_socket_closes(door: Door) -> None:
    async with door.connect() as client:
        await door.until_coming([f"+{BOT}"])
        door.ear.open.clear()
        for number in range(5):
            await client.send(frame(number))
    await door.until([0, 1, 2, 3, 4])
    await door.until_coming([f"+{BOT}", f"-{BOT}"])


async def test_a_half_open_socket_is_noticed(adapter: NapCatAdapter) -> None:
    async with opened(adapter, ping=0.3) as door:
        reader, writer = await asyncio.open_connection("127.0.0.1", door.port)
        key = base64.b64encode(b"0" * 16).decode()
        writer.write(
            f"GET /onebot/v11/ws HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\nX-Self-ID: {BOT}\r\n\r\n".encode()
        )
        assert b"101" in await reader.readline()
        await door.until_coming([f"+{BOT}", f"-{BOT}"])  # it never answers a ping
        writer.close()


async def test_a_storm_of_reconnects_leaves_nothing_behind(door: Door) -> None:
    async def flap() -> None:
        async with door.connect() as client:
            await client.send(frame(1))

    await asyncio.gather(*(flap() for _ in range(30)))
    async with asyncio.timeout(20):
        while str(BOT) in door.adapter.bots:  # noqa: ASYNC110 - what is waited for has no event
            await asyncio.sleep(0.01)
    assert door.ear.said() == [1] * 30
    assert door.ear.coming.count(f"+{BOT}") == 30
    assert door.ear.coming[-1] == f"-{BOT}"
    assert not door.adapter.connections


async def test_other_plugins_get_events_too(door: Door) -> None:
    got: list[str] = []

    async def note(event: Event) -> None:
        got.append(event.get_plaintext())

    matcher: type[Matcher] = on_message(handlers=[note])
    message: JsonObject = {
        "post_type": "message",
        "message_type": "group",
        "sub_type": "normal",
        "time": 1,
        "self_id": BOT,
        "group_id": GROUP,
        "user_id": MING,
        "message_id": 1,
        "message": [{"type": "text", "data": {"text": "早"}}],
        "raw_message": "早",
        "font": 0,
        "sender": {"user_id": MING, "nickname": "小明"},
        "n": 1,
    }
    try:
        async with door.connect() as client:
            await client.send(json.dumps(message))
            await door.until([1])
            async with asyncio.timeout(10):
                while not got:  # noqa: ASYNC110 - what is waited for has no event
                    await asyncio.sleep(0.01)
    finally:
        matcher.destroy()
    assert got == ["早"]


async def test_the_server_closes_every_socket_when_it_stops(adapter: NapCatAdapter) -> None:
    async with opened(adapter) as door:
        client = await door.connect()
        await client.send(frame(1))
        await door.until([1])
    with pytest.raises(ConnectionClosed):
        await asyncio.wait_for(client.recv(), 10)
