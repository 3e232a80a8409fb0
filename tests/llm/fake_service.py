"""A real HTTP model service with scripted answers, for every test that needs a model behind the real client."""

from __future__ import annotations

import asyncio
import itertools
import json
import socket
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import TypeAlias

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from db.models import Json, JsonObject

USAGE: JsonObject = {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}


@dataclass(frozen=True, slots=True)
class Raw:
    """Any HTTP answer: for failures and for services that lie. ``delay`` in seconds."""

    body: str | JsonObject = ""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    content_type: str = "application/json"
    delay: float = 0.0


Answer: TypeAlias = "Raw | JsonObject"
"""A raw HTTP answer, or an assistant's message: ``{"content": …}`` or ``{"tool_calls": […]}``."""
Brain: TypeAlias = "Callable[[JsonObject], Answer]"
"""Decides an answer from the request's body."""
Embedder: TypeAlias = "Callable[[JsonObject], Awaitable[Raw]]"
"""Answers a request for embeddings."""

_numbers = itertools.count(1)


def call(name: str, **arguments: Json) -> JsonObject:
    """One tool call as the service writes it."""
    function: JsonObject = {"name": name, "arguments": json.dumps(arguments, ensure_ascii=False)}
    return {"id": f"call_{next(_numbers)}", "type": "function", "function": function}


def calls(*tool_calls: JsonObject) -> JsonObject:
    """A message that calls tools."""
    return {"content": None, "tool_calls": list(tool_calls)}


def says(content: str) -> JsonObject:
    """A message of plain text."""
    return {"content": content}


def completion(message: JsonObject, *, model: str = "fake-chat", usage: JsonObject = USAGE) -> JsonObject:
    """The body of a chat completion."""
    finish = "tool_calls" if message.get("tool_calls") else "stop"
    choice: JsonObject = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish}
    return {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": model, "choices": [choice], "usage": usage}


def failure(status: int, message: str, *, headers: Mapping[str, str] | None = None) -> Raw:
    """An error as OpenAI-compatible services write it."""
    return Raw({"error": {"message": message, "type": "error", "code": None}}, status, headers or {})


def dig(node: Json, *path: str | int) -> Json:
    """Read inside a request's body: ``dig(body, "messages", -1, "content")``. Raises AssertionError where it ends."""
    for key in path:
        if isinstance(key, int):
            assert isinstance(node, list), f"no list at {key} of {path}"
            node = node[key]
        else:
            assert isinstance(node, Mapping), f"no object at {key} of {path}"
            assert key in node, f"no {key} of {path}"
            node = node[key]
    return node


def text_at(node: Json, *path: str | int) -> str:
    """Like ``dig``, for a text."""
    found = dig(node, *path)
    assert isinstance(found, str)
    return found


class FakeService:
    """``async with FakeService(answer, …) as service``: answers in turn, the last one for ever.

    ``brain`` decides instead of the list when it is set. ``requests`` holds the bodies as parsed, ``raw`` as bytes,
    ``authorizations`` the headers. ``models`` answers ``GET /v1/models``, ``embedder`` answers ``POST /v1/embeddings``.
    """

    def __init__(self, *answers: Answer, brain: Brain | None = None) -> None:
        self.answers: deque[Answer] = deque(answers or (says("好"),))
        self.brain = brain
        self.models: Raw = Raw({"object": "list", "data": [{"id": "fake-chat", "object": "model"}]})
        self.embedder: Embedder | None = None
        self.requests: list[JsonObject] = []
        self.raw: list[bytes] = []
        self.authorizations: list[str] = []
        self.probes = 0
        # With the protocol named, asyncio sends small writes at once (TCP_NODELAY) on what it accepts.
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        self._server: uvicorn.Server | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def base_url(self) -> str:
        """The address for LLM_BASE_URL."""
        host, port = self._socket.getsockname()[:2]
        return f"http://{host}:{port}/v1"

    def script(self, answers: Sequence[Answer]) -> None:
        """Replace what comes next."""
        self.answers = deque(answers)

    async def _chat(self, request: Request) -> Response:
        raw = await request.body()
        body: JsonObject = json.loads(raw)
        self.raw.append(raw)
        self.requests.append(body)
        self.authorizations.append(request.headers.get("authorization", ""))
        if self.brain is not None:
            answer = self.brain(body)
        else:
            answer = self.answers.popleft() if len(self.answers) > 1 else self.answers[0]
        return await _respond(answer if isinstance(answer, Raw) else Raw(completion(answer, model=str(body.get("model")))))

    async def _embed(self, request: Request) -> Response:
        self.authorizations.append(request.headers.get("authorization", ""))
        if self.embedder is None:
            return await _respond(failure(404, "no such model"))
        return await _respond(await self.embedder(json.loads(await request.body())))

    async def _list_models(self, _request: Request) -> Response:
        self.probes += 1
        return await _respond(self.models)

    async def __aenter__(self) -> FakeService:
        self._socket.bind(("127.0.0.1", 0))
        # Connections queue in the backlog until the server takes them: nothing to wait for.
        self._socket.listen(64)
        app = Starlette(
            routes=[
                Route("/v1/chat/completions", self._chat, methods=["POST"]),
                Route("/v1/embeddings", self._embed, methods=["POST"]),
                Route("/v1/models", self._list_models),
            ]
        )
        self._server = uvicorn.Server(uvicorn.Config(app, log_level="error", lifespan="off", timeout_graceful_shutdown=1))
        self._task = asyncio.create_task(self._server.serve(sockets=[self._socket]))
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._server is not None:
            self._server.should_exit = True
            self._server.force_exit = True
        if self._task is not None:
            with suppress(asyncio.CancelledError):
                await self._task
        self._socket.close()


async def _respond(answer: Raw) -> Response:
    if answer.delay:
        await asyncio.sleep(answer.delay)
    if isinstance(answer.body, str):
        return Response(answer.body, answer.status, dict(answer.headers), answer.content_type)
    return JSONResponse(answer.body, answer.status, dict(answer.headers))
