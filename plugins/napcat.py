"""The socket to NapCat: the OneBot V11 adapter, with frames handed over in order before anything else happens.

The stock adapter ends a connection on a frame that is not JSON, refuses an account that reconnects while its old
socket is half open, and asks QQ for quoted messages before any handler runs. This one does not.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol, cast

from nonebot.adapters import Bot as BaseBot
from nonebot.adapters.onebot.v11 import Adapter, ApiNotAvailable, Bot, NetworkError
from nonebot.adapters.onebot.v11.utils import handle_api_result
from nonebot.drivers import URL, ASGIMixin, WebSocket, WebSocketServerSetup
from nonebot.exception import WebSocketClosed
from nonebot.log import logger
from nonebot.matcher import matchers
from nonebot.utils import DataclassEncoder
from typing_extensions import override

from db.models import JsonObject

PATHS = ("/onebot/v11/ws", "/onebot/v11/ws/", "/onebot/v11/")
MAX_FRAME_BYTES = 64 * 1024 * 1024
HELD_EVENTS = 2000
HELD_CHARS = 16 * 1024 * 1024
_FRAMES_A_SLICE = 64
_POLICY_VIOLATION = 1008


class Listener(Protocol):
    """Who hears the frames."""

    def heard(self, account_id: int, payload: JsonObject, raw: str) -> None:
        """Take one event frame. Called in order of arrival; must return at once."""
        ...

    @property
    def full(self) -> bool:
        """True while no more frames should come."""
        ...

    async def room(self) -> None:
        """Return when more frames may come."""
        ...

    def joined(self, account_id: int) -> None:
        """Learn that a socket of an account opened: there may be a gap to fill."""
        ...

    def parted(self, account_id: int) -> None:
        """Learn that an account's last socket is closed."""
        ...


class _Hold:
    """Events that wait for room while what comes behind them is read: an answer to one of our calls may be among it.

    Bounded: with too many held, nothing is read from the socket.
    """

    def __init__(self, find: Callable[[], Listener | None], hear: Callable[[JsonObject, str], None]) -> None:
        self._find = find
        self._hear = hear
        self._events: deque[tuple[JsonObject, str]] = deque()
        self._chars = 0
        self._moving: asyncio.Task[None] | None = None
        self._space = asyncio.Event()

    async def put(self, payload: JsonObject, raw: str) -> None:
        """Have an event heard, now or when its turn comes."""
        listener = self._find()
        if not self._events and (listener is None or not listener.full):
            self._hear(payload, raw)
            return
        self._events.append((payload, raw))
        self._chars += len(raw)
        if self._moving is None:
            self._moving = asyncio.create_task(self._move())
        while len(self._events) >= HELD_EVENTS or self._chars >= HELD_CHARS:
            self._space.clear()
            await self._space.wait()

    def release(self) -> None:
        """The socket is closed: have everything heard at once."""
        if self._moving is not None:
            self._moving.cancel()
        while self._events:
            self._next()

    async def _move(self) -> None:
        try:
            while self._events:
                listener = self._find()
                if listener is not None:
                    await listener.room()
                self._next()
        finally:
            self._moving = None

    def _next(self) -> None:
        payload, raw = self._events.popleft()
        self._chars -= len(raw)
        self._space.set()
        self._hear(payload, raw)


class NapCatAdapter(Adapter):
    """OneBot V11 over reverse WebSocket. An account may have several sockets; calls use the newest."""

    listener: Listener | None = None

    @override
    def _setup(self) -> None:
        self._sockets: dict[str, list[WebSocket]] = {}
        self._dispatched: set[asyncio.Task[None]] = set()
        if not isinstance(self.driver, ASGIMixin):
            raise TypeError("the driver cannot serve WebSockets")
        for path in PATHS:
            self.setup_websocket_server(WebSocketServerSetup(URL(path), f"{self.get_name()} {path}", self._handle_ws))
        self.driver.on_shutdown(self._close_all)

    @override
    async def _handle_ws(self, websocket: WebSocket) -> None:
        self_id = str(websocket.request.headers.get("x-self-id") or "")
        if not self_id.isdecimal() or int(self_id) == 0:
            logger.warning(f"拒绝了一个连接：请求头 X-Self-ID 应是机器人的 QQ 号，收到的是 {self_id!r}")
            await websocket.close(_POLICY_VIOLATION, "X-Self-ID must be the account's QQ number")
            return
        if self._check_access_token(websocket.request) is not None:
            logger.warning(
                f"拒绝了账号 {self_id} 的连接：NapCat 里填的 Token 与 ONEBOT_ACCESS_TOKEN 不一致，"
                "请在 NapCat「网络配置」里改成同一个"
            )
            await websocket.close(_POLICY_VIOLATION, "access token mismatch")
            return
        await websocket.accept()
        bot = self._join(self_id, websocket)
        try:
            await self._read(bot, websocket)
        except WebSocketClosed:
            logger.info(f"账号 {self_id} 的连接断开了")
        finally:
            self._leave(bot, websocket)

    async def _read(self, bot: Bot, websocket: WebSocket) -> None:
        hold = _Hold(lambda: self.listener, lambda payload, raw: self._hear(bot, payload, raw))
        count = 0
        try:
            while True:
                event = self._event(bot, await websocket.receive())
                if event is not None:
                    await hold.put(*event)
                count += 1
                if count % _FRAMES_A_SLICE == 0:
                    await asyncio.sleep(0)
        finally:
            hold.release()

    def _event(self, bot: Bot, data: str | bytes) -> tuple[JsonObject, str] | None:
        """Read a frame. None: it was no event; an answer has gone to who waits for it."""
        try:
            raw = data if isinstance(data, str) else data.decode("utf-8", "replace")
            payload: object = json.loads(raw)
        except (ValueError, RecursionError) as error:
            logger.warning(f"账号 {bot.self_id} 发来一帧不是 JSON 的数据（{len(data)} 字节），已跳过：{type(error).__name__}")
            return None
        if not isinstance(payload, dict):
            logger.warning(f"账号 {bot.self_id} 发来一帧不是对象的 JSON，已跳过")
            return None
        frame = cast("dict[str, object]", payload)
        if "post_type" not in frame:
            with suppress(asyncio.InvalidStateError):  # answered twice, or too late
                self.json_to_event(frame)
            return None
        return cast("JsonObject", frame), raw

    def _hear(self, bot: Bot, payload: JsonObject, raw: str) -> None:
        if self.listener is not None:
            self.listener.heard(int(bot.self_id), payload, raw)
        if any(matchers.values()):
            self._dispatch(bot, payload)

    @override
    async def _call_api(self, bot: BaseBot, api: str, **data: object) -> object:
        """Send a call over the newest socket. ``_timeout`` (seconds) is ours and stays here."""
        seconds = data.pop("_timeout", self.config.api_timeout)
        websocket = self.connections.get(bot.self_id)
        if websocket is None:
            raise ApiNotAvailable
        seq = self._result_store.get_seq()
        await websocket.send(json.dumps({"action": api, "params": data, "echo": str(seq)}, cls=DataclassEncoder))
        try:
            answer = await self._result_store.fetch(seq, cast("float | None", seconds))
        except TimeoutError:
            raise NetworkError(f"no answer to {api}") from None
        return handle_api_result(answer)

    def _dispatch(self, bot: Bot, payload: JsonObject) -> None:
        """Let other NoneBot plugins have the event; without any there is nothing to wait for."""
        event = self.json_to_event(payload)
        if event is not None:
            task = asyncio.create_task(bot.handle_event(event))
            self._dispatched.add(task)
            task.add_done_callback(self._dispatched.discard)

    def _join(self, self_id: str, websocket: WebSocket) -> Bot:
        sockets = self._sockets.setdefault(self_id, [])
        sockets.append(websocket)
        self.connections[self_id] = websocket
        if len(sockets) > 1:
            # The old one may be half open for a while: what was missed meanwhile must be fetched now.
            logger.warning(f"账号 {self_id} 又连上了一次：两个连接的消息都会收，发送改走新的连接")
            bot = cast("Bot", self.bots[self_id])
        else:
            bot = Bot(self, self_id)
            self.bot_connect(bot)
            logger.success(f"账号 {self_id} 已连接")
        if self.listener is not None:
            self.listener.joined(int(self_id))
        return bot

    def _leave(self, bot: Bot, websocket: WebSocket) -> None:
        sockets = self._sockets[bot.self_id]
        sockets.remove(websocket)
        if sockets:
            self.connections[bot.self_id] = sockets[-1]
            return
        del self._sockets[bot.self_id]
        self.connections.pop(bot.self_id, None)
        self.bot_disconnect(bot)
        if self.listener is not None:
            self.listener.parted(int(bot.self_id))

    async def _close_all(self) -> None:
        for sockets in list(self._sockets.values()):
            for websocket in list(sockets):
                await websocket.close()
        await self._stop()
