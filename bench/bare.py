"""The plain baseline, run as its own process: the same NoneBot and server settings, the stock OneBot adapter, one handler.

``BENCH_MODEL_URL`` empty: the handler only counts. Else it asks the model with one short message and sends "好的".
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
from plugins.napcat import MAX_FRAME_BYTES

_QUESTION = {"model": "bench", "messages": [{"role": "user", "content": "在吗"}]}


class Count:
    """How many events the handler has had."""

    def __init__(self) -> None:
        self._handled = 0
        self._changed = asyncio.Condition()
        self._wanted: int | None = None

    async def add(self) -> None:
        """One more."""
        self._handled += 1
        if self._handled == self._wanted:
            async with self._changed:
                self._changed.notify_all()

    async def reach(self, wanted: int) -> int:
        """Wait until so many were handled."""
        self._wanted = wanted
        async with self._changed:
            await self._changed.wait_for(lambda: self._handled >= wanted)
        return self._handled


def counting(count: Count) -> None:
    """Register the handler that does nothing but count."""

    async def handle(event: Event) -> None:
        await count.add()

    nonebot.on(priority=1, block=False).append_handler(handle)


def answering(url: str) -> None:
    """Register the handler that asks the model when somebody calls the bot, and sends a word."""
    client = httpx.AsyncClient()

    async def handle(bot: Bot, event: GroupMessageEvent) -> None:
        if event.is_tome():
            await client.post(f"{url}/chat/completions", json=_QUESTION)
            await bot.send(event, "好的")

    nonebot.on(priority=1, block=False).append_handler(handle)


def main() -> None:
    """Run until stopped."""
    nonebot.init(
        driver="~fastapi",
        host="127.0.0.1",
        port=int(os.environ.get("PORT") or free_port()),
        log_level=os.environ.get("LOG_LEVEL", "INFO"),
        onebot_access_token=os.environ.get("ONEBOT_ACCESS_TOKEN") or None,
    )
    nonebot.get_driver().register_adapter(Adapter)  # pyright: ignore[reportUnknownMemberType] - untyped kwargs
    count = Count()
    app = nonebot.get_app()
    if not isinstance(app, FastAPI):
        raise TypeError("the driver is not FastAPI")

    async def handled(count_to: int = 0) -> str:
        return json.dumps({"handled": await count.reach(count_to)})

    app.add_api_route("/api/health", handled)
    model_url = os.environ.get("BENCH_MODEL_URL", "")
    if model_url:
        answering(model_url)
    else:
        counting(count)
    nonebot.run(loop="auto", ws_max_size=MAX_FRAME_BYTES, access_log=False)


if __name__ == "__main__":
    main()
