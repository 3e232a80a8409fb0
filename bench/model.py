"""A fake model service over real HTTP that answers at once, and remembers what it was sent."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType

import uvicorn
from uvicorn._types import ASGIReceiveCallable, ASGISendCallable, HTTPScope, Scope

from db.models import JsonObject


@dataclass(frozen=True, slots=True)
class Request:
    """One chat request as it arrived. ``at``: seconds since 1970, before the body was read."""

    at: float
    body: bytes


@dataclass(frozen=True, slots=True)
class Speak:
    """Say this."""

    content: str


@dataclass(frozen=True, slots=True)
class StayQuiet:
    """Say nothing."""


Brain = Callable[[int], Speak | StayQuiet]
"""Decides the answer to the n-th request, counted from 1."""


class FakeModel:
    """Serves ``/v1/chat/completions``. ``requests`` holds everything asked so far."""

    def __init__(self, brain: Brain) -> None:
        self._brain = brain
        self._socket = socket.create_server(("127.0.0.1", 0))
        self._arrived: asyncio.Queue[Request] = asyncio.Queue()
        self.requests: list[Request] = []
        self._server = uvicorn.Server(
            uvicorn.Config(self._app, interface="asgi3", lifespan="off", log_level="error", access_log=False)
        )
        self._task: asyncio.Task[None] | None = None

    @property
    def url(self) -> str:
        """The base URL for an OpenAI-compatible client."""
        return f"http://127.0.0.1:{self._socket.getsockname()[1]}/v1"

    async def __aenter__(self) -> FakeModel:
        """Serve."""
        # serve() would take the signals of the whole process.
        self._task = asyncio.create_task(self._server._serve([self._socket]))  # pyright: ignore[reportPrivateUsage]
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Stop."""
        self._server.should_exit = True
        if self._task is not None:
            await self._task

    async def next_request(self, seconds: float) -> Request:
        """Give the next request that was not given yet. Raises TimeoutError."""
        return await asyncio.wait_for(self._arrived.get(), seconds)

    async def _app(self, scope: Scope, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        at = time.time()
        if scope["type"] != "http":
            return
        body = await _read(receive)
        await _reply(send, self._answer(scope, Request(at, body)))

    def _answer(self, scope: HTTPScope, request: Request) -> JsonObject:
        if not scope["path"].endswith("/chat/completions"):
            return {"object": "list", "data": [{"id": "bench", "object": "model"}]}
        self.requests.append(request)
        self._arrived.put_nowait(request)
        return completion(self._brain(len(self.requests)), len(self.requests))


async def _read(receive: ASGIReceiveCallable) -> bytes:
    parts: list[bytes] = []
    while True:
        event = await receive()
        if event["type"] != "http.request":
            return b"".join(parts)
        parts.append(event["body"])
        if not event["more_body"]:
            return b"".join(parts)


async def _reply(send: ASGISendCallable, answer: JsonObject) -> None:
    body = json.dumps(answer, ensure_ascii=False).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers, "trailers": False})
    await send({"type": "http.response.body", "body": body, "more_body": False})


def completion(act: Speak | StayQuiet, number: int) -> JsonObject:
    """Put an act into the shape of a chat completion with one tool call."""
    match act:
        case Speak(content):
            function = {"name": "speak", "arguments": json.dumps({"content": content}, ensure_ascii=False)}
        case StayQuiet():
            function = {"name": "stayQuiet", "arguments": json.dumps({"reason": "没什么要说的"}, ensure_ascii=False)}
    call = {"id": f"call_{number}", "type": "function", "function": function}
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    return {
        "id": f"bench-{number}",
        "object": "chat.completion",
        "created": int(time.time()),
        "model": "bench",
        "choices": [{"index": 0, "finish_reason": "tool_calls", "message": message}],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
    }
