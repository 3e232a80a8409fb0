"""A fake NapCat: one account over one real reverse WebSocket, answering calls at once."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import cast

import websockets
from websockets.asyncio.client import ClientConnection

from bench.data.groups import BOT, Group
from db.models import Json, JsonObject

_SENDS = frozenset({"send_group_msg", "send_msg"})


@dataclass(frozen=True, slots=True)
class Sent:
    """A message that arrived here to be sent. ``at``: seconds since 1970."""

    group_id: int
    message_id: int
    at: float


class FakeNapCat:
    """Connects to a bot. Every call is answered as QQ would when all is well; history is empty."""

    def __init__(self, port: int, token: str, groups: Sequence[Group]) -> None:
        self._url = f"ws://127.0.0.1:{port}/onebot/v11/ws"
        self._token = token
        self._groups = {group.group_id: group for group in groups}
        self._socket: ClientConnection | None = None
        self._reader: asyncio.Task[None] | None = None
        self._sent: asyncio.Queue[Sent] = asyncio.Queue()
        self._asked: set[int] = set()
        self._ready = asyncio.Event()
        self._message_id = 2**31

    async def __aenter__(self) -> FakeNapCat:
        """Connect and say so, as NapCat does."""
        headers = {"X-Self-ID": str(BOT), "X-Client-Role": "Universal", "Authorization": f"Bearer {self._token}"}
        # No compression: what the sender saves is not what is measured.
        self._socket = await websockets.connect(self._url, additional_headers=headers, compression=None, max_size=None)
        self._reader = asyncio.create_task(self._read(self._socket))
        hello = {"self_id": BOT, "post_type": "meta_event", "meta_event_type": "lifecycle", "sub_type": "connect"}
        await self.send(json.dumps({"time": int(time.time()), **hello}))
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Close the socket."""
        if self._reader is not None:
            self._reader.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._reader
        if self._socket is not None:
            await self._socket.close()

    async def caught_up(self) -> None:
        """Wait until the bot has asked for the members of every group, which ends its greeting after a connect."""
        await asyncio.wait_for(self._ready.wait(), 60)
        await asyncio.sleep(1)

    async def send(self, frame: str) -> float:
        """Send one frame; gives when, in seconds since 1970. Raises RuntimeError when not connected."""
        if self._socket is None:
            raise RuntimeError("not connected")
        at = time.time()
        await self._socket.send(frame)
        return at

    async def next_sent(self, seconds: float) -> Sent:
        """Give the next message that arrives to be sent. Raises TimeoutError."""
        return await asyncio.wait_for(self._sent.get(), seconds)

    async def _read(self, socket: ClientConnection) -> None:
        with contextlib.suppress(websockets.ConnectionClosed):
            async for raw in socket:
                await self._answer(socket, time.time(), cast("JsonObject", json.loads(raw)))

    async def _answer(self, socket: ClientConnection, at: float, call: JsonObject) -> None:
        params = call.get("params")
        data = self._data(str(call["action"]), params if isinstance(params, dict) else {}, at)
        answer = {"status": "ok", "retcode": 0, "data": data, "message": "", "wording": "", "echo": call.get("echo")}
        await socket.send(json.dumps(answer, ensure_ascii=False))

    def _data(self, action: str, params: JsonObject, at: float) -> Json:
        group = self._groups.get(int(str(params.get("group_id") or 0)))
        if action in _SENDS:
            self._message_id += 1
            self._sent.put_nowait(Sent(group.group_id if group else 0, self._message_id, at))
            return {"message_id": self._message_id}
        match action:
            case "get_login_info":
                return {"user_id": BOT, "nickname": "小满"}
            case "get_group_list":
                return [{"group_id": item.group_id, "group_name": item.name} for item in self._groups.values()]
            case "get_group_msg_history":
                return {"messages": []}
            case "get_group_member_list" if group is not None:
                self._asked.add(group.group_id)
                if len(self._asked) == len(self._groups):
                    self._ready.set()
                return _members(group)
            case "get_msg":
                return _some_message(params.get("message_id"))
            case _:
                return None


def _members(group: Group) -> list[Json]:
    known = [(person.user_id, person.nickname, person.card, person.role) for person in group.people]
    return [
        {"group_id": group.group_id, "user_id": user_id, "nickname": nickname, "card": card, "role": role, "title": ""}
        for user_id, nickname, card, role in [*known, (BOT, "小满", "", "member")]
    ]


def _some_message(message_id: Json) -> Json:
    """What the stock adapter asks for before any handler runs, when a message quotes another."""
    return {
        "message_id": message_id,
        "real_id": message_id,
        "time": int(time.time()),
        "message_type": "group",
        "sender": {"user_id": 5000000100, "nickname": "小明", "card": ""},
        "message": [{"type": "text", "data": {"text": "好的"}}],
    }
