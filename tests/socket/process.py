"""The bot as a process of its own, and a NapCat that talks to it over a real socket."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import cast

import httpx
import psutil
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from db.models import Json, JsonObject
from settings import ROOT, Settings

BOT, BOT2, MING = 5000000001, 5000000002, 5000000011
GROUPS = tuple(range(5700000001, 5700000009))
TOKEN, ADMIN = "a-token-of-this-test", "an-admin-token-of-this-test-0123456789"
START_SECONDS = 90

_numbers = itertools.count(1)


class BotProcess:
    """``python bot.py`` with settings of its own. It may be killed and started again on the same folder."""

    def __init__(self, folder: Path, port: int, llm: str, **values: str) -> None:
        self.folder = folder
        self.port = port
        self.log = folder / "bot.log"
        ours = {name.upper() for name in Settings.model_fields}
        clean = {key: value for key, value in os.environ.items() if key.upper() not in ours}
        self._environment = clean | {
            "HOST": "127.0.0.1",
            "PORT": str(port),
            "DATA_DIR": str(folder / "data"),
            "DATABASE_URL": "",
            "ADMIN_TOKEN": ADMIN,
            "ONEBOT_ACCESS_TOKEN": TOKEN,
            "ENABLED_GROUPS": json.dumps(GROUPS),
            "BOT_NAMES": "小满",
            "DEBOUNCE_SECONDS": "0.05",
            "DEBOUNCE_MAX_SECONDS": "1",
            "SCAN_SECONDS": "0.5",
            "TALK_FREQUENCY": "0",
            "TYPING_CHARS_PER_SECOND": "0",
            "LEARNER_SECONDS": "0",
            "LLM_BASE_URL": llm,
            "LLM_API_KEY": "sk-test",
            "LLM_MODEL": "fake-chat",
            "PYTHONUNBUFFERED": "1",
            **values,
        }
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def process(self) -> subprocess.Popen[bytes]:
        """The running process. Raises AssertionError before ``start``."""
        assert self._process is not None
        return self._process

    async def start(self) -> None:
        """Start it and wait until it is healthy but for its accounts."""
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(  # noqa: ASYNC220 - returns at once
                [sys.executable, str(ROOT / "bot.py")],
                cwd=ROOT,
                env=self._environment,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        async with httpx.AsyncClient() as client, asyncio.timeout(START_SECONDS):
            while True:
                assert self.process.poll() is None, self.said()
                with suppress(httpx.HTTPError):
                    answer = await client.get(f"http://127.0.0.1:{self.port}/api/health", timeout=3)
                    if answer.status_code == 200:
                        return
                await asyncio.sleep(0.1)

    async def kill(self) -> None:
        """Kill it as the system would, without a word of warning."""
        self.process.kill()
        await asyncio.to_thread(self.process.wait)

    async def stop(self) -> int:
        """Ask it to stop, and wait; returns how it ended."""
        if self._process is None or self._process.poll() is not None:
            return 0
        self._process.terminate()
        try:
            return await asyncio.to_thread(self._process.wait, 30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return -9

    def said(self) -> str:
        """The end of its log."""
        return self.log.read_text(encoding="utf-8", errors="replace")[-4000:]

    async def items(self, path: str, group: int) -> list[JsonObject]:
        """Read a list from the API: ``messages``, ``turns`` or ``outbox`` of a group."""
        headers = {"Authorization": f"Bearer {ADMIN}"}
        async with httpx.AsyncClient(headers=headers, timeout=20) as client:
            answer = await client.get(f"http://127.0.0.1:{self.port}/api/{path}", params={"group_id": group, "limit": 200})
        assert answer.status_code == 200, answer.text
        return cast("list[JsonObject]", answer.json()["items"])

    async def said_in(self, group: int) -> list[str]:
        """What people said in a group, in reading order."""
        return [str(item["display"]) for item in await self.items("messages", group) if not item["is_self"]]

    def memory(self) -> int:
        """Resident bytes of the process."""
        return int(psutil.Process(self.process.pid).memory_info().rss)


class NapCat:
    """One account's socket: sends events, answers calls, keeps what was sent."""

    def __init__(self, port: int, account: int = BOT) -> None:
        self.account = account
        self.sent: list[JsonObject] = []
        self.history: dict[int, list[JsonObject]] = {}
        self._port = port
        self._client: ClientConnection | None = None
        self._reading: asyncio.Task[None] | None = None

    async def __aenter__(self) -> NapCat:
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def open(self) -> None:
        """Connect."""
        headers = {"X-Self-ID": str(self.account), "Authorization": f"Bearer {TOKEN}"}
        self._client = await connect(
            f"ws://127.0.0.1:{self._port}/onebot/v11/ws", additional_headers=headers, max_size=None, proxy=None
        )
        self._reading = asyncio.create_task(self._read(self._client))
        await self.event(post_type="meta_event", meta_event_type="lifecycle", sub_type="connect")

    async def close(self) -> None:
        """Disconnect."""
        if self._client is not None and self._reading is not None:
            await self._client.close()
            await asyncio.wait({self._reading})

    async def _read(self, client: ClientConnection) -> None:
        with suppress(ConnectionClosed):
            async for frame in client:
                asked: JsonObject = json.loads(frame)
                data = self._answer(str(asked["action"]), cast("JsonObject", asked["params"]))
                await client.send(json.dumps({"status": "ok", "retcode": 0, "data": data, "echo": asked["echo"]}))

    def _answer(self, action: str, params: JsonObject) -> Json:
        match action:
            case "send_group_msg":
                self.sent.append(params)
                return {"message_id": 900_000_000 + next(_numbers)}
            case "get_login_info":
                return {"user_id": self.account, "nickname": "小满"}
            case "get_group_list":
                return [{"group_id": group, "group_name": f"测试群{group % 10}"} for group in GROUPS]
            case "get_group_member_list":
                return []
            case "get_group_msg_history":
                return {"messages": self.history.get(int(str(params["group_id"])), [])}
            case _:
                return None

    async def event(self, **fields: Json) -> None:
        """Send one event."""
        assert self._client is not None
        frame = {"time": int(time.time()), "self_id": self.account, **fields}
        await self._client.send(json.dumps(frame))  # as ASCII: a text frame cannot carry half a character

    async def say(self, group: int, *parts: str | JsonObject, **more: Json) -> JsonObject:
        """Somebody says something in a group; returns the fields of the event."""
        number = next(_numbers)
        fields: dict[str, Json] = {
            "post_type": "message",
            "message_type": "group",
            "sub_type": "normal",
            "group_id": group,
            "user_id": MING,
            "message_id": number,
            "real_seq": str(number),
            "message": [{"type": "text", "data": {"text": part}} if isinstance(part, str) else part for part in parts],
            "sender": {"user_id": MING, "nickname": "小明", "card": "", "role": "member"},
            **more,
        }
        await self.event(**fields)
        return fields

    def texts(self, group: int) -> list[str]:
        """What was sent to a group, as text."""
        return [_text(item["message"]) for item in self.sent if item["group_id"] == group]


def _text(message: Json) -> str:
    parts = cast("Sequence[JsonObject]", message)
    return "".join(str(cast("JsonObject", part["data"])["text"]) for part in parts if part["type"] == "text")


def at(account: int = BOT) -> JsonObject:
    """An @ segment."""
    return {"type": "at", "data": {"qq": str(account)}}


async def until(check: Callable[[], bool], seconds: float = 30) -> None:
    """Wait for something to become true."""
    async with asyncio.timeout(seconds):
        while not check():  # noqa: ASYNC110 - what is waited for has no event
            await asyncio.sleep(0.02)


@asynccontextmanager
async def running(bot: BotProcess) -> AsyncGenerator[BotProcess, None]:
    """Start a process, and stop it however the test ends."""
    try:
        await bot.start()
        yield bot
    finally:
        await bot.stop()
