"""The plain baseline, run as its own process: the same NoneBot and server settings, the stock OneBot adapter, one handler.

``BENCH_KIND``: ``count``, the handler only counts; ``answer``, it asks the model at BENCH_MODEL_URL with one short
message and sends "好的"; ``frames``, our own adapter, whose listener only counts.
"""

from __future__ import annotations

import asyncio
import json
import os

import httpx
import nonebot
from fastapi import FastAPI
from nonebot.adapters.onebot.v11 import Adapter, Bot, Event, GroupMessageEvent

from bench.ports import free_port
from db.models import JsonObject
from plugins.napcat import MAX_FRAME_BYTES, NapCatAdapter

_QUESTION = {"model": "bench", "messages": [{"role": "user", "content": "在吗"}]}


class Count:
    """How many events the handler has had."""

    def __init__(self) -> None:
        self._handled = 0
        self._wanted = 0
        self._reached = asyncio.Event()

    def add(self) -> None:
        """One more."""
        self._handled += 1
        if self._handled == self._wanted:
            self._reached.set()

    async def reach(self, wanted: int) -> int:
        """Wait until so many were handled."""
        self._wanted = wanted
        if self._handled < wanted:
            self._reached.clear()
            await self._reached.wait()
        return self._handled


class Frames:
    """A listener of our adapter that only counts."""

    def __init__(self, count: Count) -> None:
        self._count = count

    def heard(self, account_id: int, payload: JsonObject, raw: str) -> None:
        """Count the frame."""
        self._count.add()

    @property
    def full(self) -> bool:
        """There is always room."""
        return False

    async def room(self) -> None:
        """There is always room."""

    def joined(self, account_id: int) -> None:
        """Not of interest."""

    def parted(self, account_id: int) -> None:
        """Not of interest."""


def counting(count: Count) -> None:
    """Register the handler that does nothing but count."""

    async def handle(event: Event) -> None:
        count.add()

    nonebot.on(priority=1, block=False).append_handler(handle)


def answering(url: str) -> None:
    """Register the handler that asks the model when somebody calls the bot, and sends a word."""
    client = httpx.AsyncClient()

    async def handle(bot: Bot, event: GroupMessageEvent) -> None:
        if event.is_tome():
            await client.post(f"{url}/chat/completions", json=_QUESTION)
            await bot.send(event, "好的")

    nonebot.on(priority=1, block=False).append_handler(handle)


def start(kind: str, count: Count) -> None:
    """Register what this kind wants."""
    match kind:
        case "frames":
            nonebot.get_adapter(NapCatAdapter).listener = Frames(count)
        case "answer":
            answering(os.environ["BENCH_MODEL_URL"])
        case _:
            counting(count)


def main() -> None:
    """Run until stopped."""
    nonebot.init(
        driver="~fastapi",
        host="127.0.0.1",
        port=int(os.environ.get("PORT") or free_port()),
        log_level=os.environ.get("LOG_LEVEL", "INFO"),
        onebot_access_token=os.environ.get("ONEBOT_ACCESS_TOKEN") or None,
    )
    kind = os.environ["BENCH_KIND"]
    adapter = NapCatAdapter if kind == "frames" else Adapter
    nonebot.get_driver().register_adapter(adapter)  # pyright: ignore[reportUnknownMemberType] - untyped kwargs
    count = Count()
    nonebot.get_driver().on_startup(lambda: start(kind, count))
    app = nonebot.get_app()
    if not isinstance(app, FastAPI):
        raise TypeError("the driver is not FastAPI")

    async def handled(count_to: int = 0) -> str:
        return json.dumps({"handled": await count.reach(count_to)})

    app.add_api_route("/api/health", handled)
    nonebot.run(loop="auto", ws_max_size=MAX_FRAME_BYTES, access_log=False)


if __name__ == "__main__":
    main()
