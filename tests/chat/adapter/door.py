"""The adapter behind a real server, and a client to knock with."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import cast

import nonebot
import uvicorn
from nonebot.adapters.onebot.v11 import Bot
from websockets.asyncio.client import ClientConnection, connect

from db.models import Json, JsonObject
from plugins.chat.onebot import NapCatCalls
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


def frame(number: int, **more: Json) -> str:
    """An event frame with a number."""
    return json.dumps({"post_type": "meta_event", "meta_event_type": "x", "self_id": BOT, "time": 1, "n": number, **more})


async def answer(client: ClientConnection, data: Json, *, times: int = 1, status: str = "ok") -> JsonObject:
    """Answer the next call."""
    asked: JsonObject = json.loads(await asyncio.wait_for(client.recv(), 10))
    for _ in range(times):
        await client.send(json.dumps({"status": status, "retcode": 0, "data": data, "echo": asked["echo"]}))
    return asked
