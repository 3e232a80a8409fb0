"""The adapter over a real socket: whom it lets in, and what it hears."""

from __future__ import annotations

import asyncio
import json

import pytest
from websockets.exceptions import InvalidStatus

from tests.chat.adapter.door import BOT, BOT2, Door, answer, frame


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
