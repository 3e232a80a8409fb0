"""The adapter over a real socket: calls and their answers, full houses, half-open sockets, other plugins."""

from __future__ import annotations

import asyncio
import base64
import json

import pytest
from nonebot.adapters.onebot.v11 import Event
from nonebot.matcher import Matcher
from nonebot.plugin import on_message
from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed

from db.models import JsonObject
from plugins import napcat
from plugins.chat.onebot import CallFailed
from plugins.napcat import NapCatAdapter
from tests.chat.adapter.door import BOT, GROUP, MING, Door, answer, frame, opened


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
