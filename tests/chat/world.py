"""A small world for the chat plugin's tests: the real database, the real agent and models, fake NapCat and service."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeAlias

from psycopg.rows import dict_row

from db.models import Json, JsonObject
from db.pool import Database
from db.spool import Spool
from llm.client import RetryPolicy
from llm.embedding.service import Embeddings
from llm.memory.search import MessageSearch
from llm.memory.service import MemoryService
from llm.service import Models
from llm.usage import UsageBook
from persona.loader import Personas
from plugins.chat.failures import read_failure, unconfirmed
from plugins.chat.onebot import CALL_SECONDS, CallFailed
from plugins.chat.service import Chat, Ground
from settings import Settings, load_settings
from tests.llm.embedding_world import ToyBackend
from tests.llm.fake_service import FakeService

BOT, BOT2 = 5000000001, 5000000002
MING, WEI, WANG, ROBOT = 5000000011, 5000000012, 5000000013, 5000000080
GROUP, GROUP2 = 5700000001, 5700000002
NAMES = {MING: "小明", WEI: "阿伟", WANG: "老王", ROBOT: "群管家"}

Answerer: TypeAlias = "Callable[[str, JsonObject], Json | CallFailed]"


class FakeNapCat:
    """NapCat's side of calls: keeps what was called, answers sends with ids. ``on_call`` may answer instead."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, JsonObject]] = []
        self.sent: list[JsonObject] = []
        self.history: list[JsonObject] = []
        self.members: list[JsonObject] = []
        self.groups: list[int] = [GROUP]
        self.on_call: Answerer = lambda action, params: None
        self._next = 900000

    async def call(self, account_id: int, action: str, *, seconds: float = CALL_SECONDS, **params: Json) -> Json:
        self.calls.append((action, params))
        answer = self.on_call(action, params)
        if isinstance(answer, CallFailed):
            raise answer
        if answer is not None:
            return answer
        match action:
            case "send_group_msg" | "send_private_msg":
                self._next += 1
                self.sent.append({**params, "message_id": self._next, "account": account_id})
                return {"message_id": self._next}
            case "get_login_info":
                return {"user_id": account_id, "nickname": "小满"}
            case "get_group_list":
                return [{"group_id": group, "group_name": f"测试群{group % 10}"} for group in self.groups]
            case "get_group_msg_history":
                return {"messages": self.history}
            case "get_group_member_list":
                return self.members
            case _:
                return None

    def texts(self) -> list[str]:
        """What was sent, as text."""
        return ["".join(_said(part) for part in _list(item["message"])) for item in self.sent]

    def called(self, action: str) -> list[JsonObject]:
        """The parameters of each call of an action."""
        return [params for name, params in self.calls if name == action]


def refused(words: str) -> CallFailed:
    """What a refusal of NapCat raises."""
    return CallFailed(read_failure(words))


def lost() -> CallFailed:
    """What a socket that breaks during a call raises."""
    return CallFailed(unconfirmed("没有收到回应"))


def _list(value: Json) -> Sequence[JsonObject]:
    assert isinstance(value, list)
    return value


def _said(part: JsonObject) -> str:
    data = part["data"]
    assert isinstance(data, dict)
    return str(data["text"]) if part["type"] == "text" else f"[{part['type']}:{data.get('qq') or data.get('id')}]"


class World:
    """The running chat, and a group to talk in."""

    def __init__(self, chat: Chat, napcat: FakeNapCat, service: FakeService, database: Database, settings: Settings) -> None:
        self.chat = chat
        self.napcat = napcat
        self.service = service
        self.database = database
        self.settings = settings
        self._seq = 1000
        self._id = 100000

    def connect(self, account_id: int = BOT) -> None:
        """The account's socket opens."""
        self.chat.joined(account_id)

    def event(self, account_id: int = BOT, **fields: Json) -> JsonObject:
        """One event frame arrives."""
        frame: JsonObject = {"time": int(time.time()), "self_id": account_id, **fields}
        self.chat.heard(account_id, frame, json.dumps(frame, ensure_ascii=False))
        return frame

    def say(self, *parts: str | JsonObject, user: int = MING, group: int = GROUP, **more: Json) -> JsonObject:
        """Somebody says something in a group."""
        return self.event(**self.message(*parts, user=user, group=group, **more))

    def withdraw(self, message_id: Json, *, by: int) -> None:
        """A member withdraws an own message."""
        self.event(
            post_type="notice",
            notice_type="group_recall",
            group_id=GROUP,
            user_id=by,
            operator_id=by,
            message_id=message_id,
        )

    def message(self, *parts: str | JsonObject, user: int = MING, group: int = GROUP, **more: Json) -> dict[str, Json]:
        """The fields of a group message, with the next ids."""
        self._seq += 1
        self._id += 1
        fields: dict[str, Json] = {
            "post_type": "message",
            "message_type": "group",
            "sub_type": "normal",
            "group_id": group,
            "user_id": user,
            "message_id": self._id,
            "real_seq": str(self._seq),
            "message": [text(part) if isinstance(part, str) else part for part in parts],
            "sender": {"user_id": user, "nickname": NAMES.get(user, ""), "card": "", "role": "member"},
        }
        return fields | more

    async def settle(self) -> None:
        """Wait until what arrived is stored."""
        await asyncio.wait_for(self.chat.inbox.settled(), 20)

    async def rows(self, statement: str, **values: object) -> list[dict[str, object]]:
        """Read rows with a test's own statement."""
        async with self.database.connection() as conn, conn.cursor(row_factory=dict_row) as cur:
            await cur.execute(statement.encode(), values)
            return await cur.fetchall()

    async def messages(self) -> list[dict[str, object]]:
        """Every stored message, in order of position."""
        return await self.rows("SELECT * FROM messages ORDER BY conversation_id, pos")

    async def until(self, check: Callable[[], bool], seconds: float = 15) -> None:
        """Wait for something to become true."""
        async with asyncio.timeout(seconds):
            while not check():  # noqa: ASYNC110 - what is waited for has no event
                await asyncio.sleep(0.01)

    async def until_row(self, statement: str, seconds: float = 15, **values: object) -> dict[str, object]:
        """Wait for a statement to find a row."""
        async with asyncio.timeout(seconds):
            while True:
                found = await self.rows(statement, **values)
                if found:
                    return found[0]
                await asyncio.sleep(0.02)


def text(words: str) -> JsonObject:
    """A text segment."""
    return {"type": "text", "data": {"text": words}}


def at(user: int) -> JsonObject:
    """An @ segment."""
    return {"type": "at", "data": {"qq": str(user)}}


def reply(message: JsonObject) -> JsonObject:
    """A reply segment."""
    return {"type": "reply", "data": {"id": str(message["message_id"])}}


DEFAULTS = {
    "enabled_groups": f"[{GROUP}, {GROUP2}]",
    "superusers": str(WANG),
    "bot_names": "小满",
    "debounce_seconds": "0.02",
    "debounce_max_seconds": "0.2",
    "scan_seconds": "0.2",
    "talk_frequency": "0",
    "typing_chars_per_second": "0",
    "llm_model": "fake-chat",
    "llm_api_key": "sk-test",
}


@asynccontextmanager
async def open_world(
    database: Database, folder: Path, service: FakeService, napcat: FakeNapCat | None = None, **values: str
) -> AsyncGenerator[World, None]:
    """Open the chat on a database and a folder; closing it in order is part of the test."""
    settings = load_settings(DEFAULTS | {"data_dir": str(folder), "llm_base_url": service.base_url} | values)
    usage = UsageBook(database, settings.zone)
    models = Models.from_settings(settings, usage, policy=RetryPolicy(first_wait=0.001, max_wait=0.002))
    spool = Spool(folder / "spool")
    onebot = napcat or FakeNapCat()
    embeddings = Embeddings(database, ToyBackend())
    ground = Ground(
        settings=settings,
        database=database,
        models=models,
        usage=usage,
        spool=spool,
        personas=Personas(settings.data_dir),
        onebot=onebot,
        memory=MemoryService(database, models, embeddings),
        search=MessageSearch(database, embeddings, zone=settings.zone),
    )
    chat = Chat(ground)
    await embeddings.open()
    await chat.start()
    try:
        yield World(chat, onebot, service, database, settings)
    finally:
        await chat.close()
        await embeddings.aclose()
        spool.close()
        await models.aclose()
        await usage.aclose()
