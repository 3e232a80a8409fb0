"""A small world for the agent's tests: stored rows, a fake QQ and a scripted model at the edges."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Protocol, TypeVar

from langchain_core.messages import AIMessage, BaseMessage, InvalidToolCall, ToolCall, ToolMessage
from pydantic import BaseModel

from agent.asking import ChatModels
from agent.ports import TurnRequest
from agent.turn import Agent
from db.memory_models import MemoryId, MemoryKind, MemoryStatus, Subject
from db.models import Conversation, ConversationId, JsonObject, Kind, Trigger, TurnId
from db.pool import Database
from db.searchtext import content_key, search_text
from llm.embedding import Embeddings
from llm.errors import ModelError, ModelUnavailable
from llm.memory.merge import StructuredModels
from llm.memory.search import MessageSearch
from llm.memory.service import MemoryService
from llm.types import CallContext, ModelRole, Prompt, Reply, Usage
from persona.loader import Personas
from settings import Settings
from tests.agent.people import BOT, GROUP, MING, NAMES, NUMBERS, START, STRANGER, WANG, WEI, FakeQQ

__all__ = ["BOT", "GROUP", "MING", "START", "STRANGER", "WANG", "WEI"]


class Clock:
    """A clock that stands still until it is moved."""

    def __init__(self, now: datetime = START + timedelta(minutes=30)) -> None:
        self.now = now

    def __call__(self) -> datetime:
        return self.now


T = TypeVar("T", bound=BaseModel)
Step = AIMessage | ModelError | Callable[[Sequence[BaseMessage]], AIMessage]


class ScriptedModels:
    """A model at the edge that answers from a script; ``requests`` are the messages as it was shown them."""

    def __init__(self, *script: Step, window: int = 64_000) -> None:
        self.script = list(script)
        self.requests: list[list[BaseMessage]] = []
        self.tools: list[Sequence[JsonObject]] = []
        self.contexts: list[CallContext] = []
        self.judged: list[tuple[str, str, CallContext]] = []
        """Structured calls: task, question, context."""
        self.verdict: JsonObject | None = None
        """What structured calls are answered; None: nobody answers."""
        self.tokens = window
        self.before: Callable[[int], Awaitable[None]] | None = None
        """Runs before each answer, with the number of the call from 1."""

    def route(self, text: str) -> ModelRole:
        return "chat"

    def window(self, role: ModelRole) -> int:
        return self.tokens

    async def chat(
        self, messages: Sequence[BaseMessage], *, role: ModelRole, tools: Sequence[JsonObject] = (), context: CallContext
    ) -> Reply:
        if self.before is not None:
            await self.before(len(self.requests) + 1)
        self.requests.append(list(messages))
        self.tools.append(tools)
        self.contexts.append(context)
        step = self.script.pop(0) if len(self.script) > 1 else self.script[0]
        if isinstance(step, ModelError):
            raise step
        message = step if isinstance(step, AIMessage) else step(messages)
        return Reply(message, Usage(100, 20, 80), "fake-chat", role, 5)

    async def structured(
        self, task: str, schema: type[T], prompt: Sequence[Prompt], *, role: ModelRole = "learner", context: CallContext
    ) -> T:
        self.judged.append((task, prompt[-1].text, context))
        if self.verdict is None:
            raise ModelUnavailable("没有裁判")
        return schema.model_validate(self.verdict)


_ids = iter(range(1, 1_000_000))


def call(name: str, **arguments: object) -> ToolCall:
    """One tool call."""
    return ToolCall(name=name, args=arguments, id=f"t{next(_ids)}", type="tool_call")


def calls(*made: ToolCall) -> AIMessage:
    """A reply that calls tools."""
    return AIMessage(content="", tool_calls=list(made))


def says(content: str, **more: object) -> AIMessage:
    """A reply that speaks."""
    return calls(call("speak", content=content, **more))


def quiet() -> AIMessage:
    """A reply that stays silent."""
    return calls(call("stayQuiet", reason="没什么可说"))


def broken(name: str, args: str) -> AIMessage:
    """A reply whose arguments are not JSON."""
    bad = InvalidToolCall(name=name, args=args, id="bad1", error="not JSON", type="invalid_tool_call")
    return AIMessage(content="", invalid_tool_calls=[bad])


class AgentModels(ChatModels, StructuredModels, Protocol):
    """What an agent and its memory ask."""


class World:
    """One conversation in a real database, with turns to run in it."""

    def __init__(self, database: Database, data_dir: Path, conversation: ConversationId, kind: Kind) -> None:
        self.database = database
        self.conversation = conversation
        self.kind: Kind = kind
        self.qq = FakeQQ()
        self.clock = Clock()
        self.settings = Settings(data_dir=data_dir, context_messages=10, llm_max_steps=6)
        self.personas = Personas(data_dir)
        self.pos = 0
        self.extra_prompt = ""
        self.learning = True
        self.target = GROUP

    @classmethod
    async def create(cls, database: Database, data_dir: Path, kind: Kind = "group") -> World:
        """Make the conversation and its members: 小明 1, 阿伟 2, 老王 3 (owner)."""
        async with database.connection() as conn:
            cur = await conn.execute(
                "INSERT INTO conversations (kind, target_id, name) VALUES (%(kind)s, %(target)s, '测试') RETURNING id",
                {"kind": kind, "target": GROUP},
            )
            row = await cur.fetchone()
            assert row is not None
            world = cls(database, data_dir, ConversationId(row[0]), kind)
            for user_id, no in NUMBERS.items():
                await conn.execute(
                    """
                    INSERT INTO members (conversation_id, user_id, no, nickname, role)
                    VALUES (%(conversation)s, %(user)s, %(no)s, %(name)s, %(role)s)
                    """,
                    {
                        "conversation": world.conversation,
                        "user": user_id,
                        "no": no,
                        "name": NAMES[user_id],
                        "role": "owner" if user_id == WANG else "member",
                    },
                )
        return world

    async def say(
        self,
        text: str,
        user_id: int = MING,
        *,
        owed: bool = False,
        name: str | None = None,
        at: datetime | None = None,
        real_seq: int | None = None,
        quotes: int | None = None,
        kind: str = "message",
        is_command: bool = False,
    ) -> int:
        """Store one message; returns its position."""
        self.pos += 1
        async with self.database.transaction() as conn:
            await conn.execute(
                """
                WITH said AS (
                    INSERT INTO messages (conversation_id, pos, real_seq, kind, sender_id, sender_name, is_self, is_command,
                                          text, body, quoted_id, quote_name, quote_text, sent_at)
                    SELECT %(conversation)s, %(pos)s, %(seq)s, %(kind)s, %(user)s, %(name)s, %(self)s, %(command)s,
                           %(text)s, %(text)s, q.id, q.sender_name, q.body, %(at)s
                    FROM (SELECT 1) AS one
                    LEFT JOIN messages q ON q.conversation_id = %(conversation)s AND q.pos = %(quotes)s
                    RETURNING id, pos
                ), moved AS (
                    UPDATE conversations SET last_pos = %(pos)s WHERE id = %(conversation)s
                )
                INSERT INTO owed (message, conversation_id, account_id, pos, kind)
                SELECT id, %(conversation)s, %(bot)s, pos, 'mention' FROM said WHERE %(owed)s
                """,
                {
                    "conversation": self.conversation,
                    "pos": self.pos,
                    "seq": real_seq,
                    "kind": kind,
                    "user": user_id,
                    "name": NAMES.get(user_id, "生人") if name is None else name,
                    "self": user_id == BOT,
                    "command": is_command,
                    "text": text,
                    "at": at or START + timedelta(seconds=self.pos),
                    "quotes": quotes,
                    "bot": BOT,
                    "owed": owed,
                },
            )
        return self.pos

    async def withdraw(self, pos: int) -> None:
        """Mark a message as withdrawn."""
        await self.execute("UPDATE messages SET withdrawn_at = now() WHERE conversation_id = %(c)s AND pos = %(pos)s", pos)

    async def read_up_to(self, pos: int) -> None:
        """Move the watermark."""
        await self.execute("UPDATE conversations SET watermark = %(pos)s WHERE id = %(c)s", pos)

    async def settle(self) -> None:
        """Settle everything owed."""
        await self.execute("UPDATE owed SET settled_at = now() WHERE conversation_id = %(c)s AND %(pos)s = 0", 0)

    async def execute(self, statement: str, pos: int) -> None:
        """Run a statement about this conversation (``c``) and a position (``pos``)."""
        async with self.database.connection() as conn:
            await conn.execute(statement.encode(), {"c": self.conversation, "pos": pos})

    async def request(self, trigger: Trigger = "mention") -> TurnRequest:
        """Make a running turn to run."""
        async with self.database.connection() as conn:
            await conn.execute(
                "UPDATE turns SET status = 'done' WHERE conversation_id = %(c)s AND status = 'running'",
                {"c": self.conversation},
            )
            cur = await conn.execute(
                """
                INSERT INTO turns (conversation_id, account_id, status, trigger)
                VALUES (%(c)s, %(bot)s, 'running', %(trigger)s) RETURNING id
                """,
                {"c": self.conversation, "bot": BOT, "trigger": trigger},
            )
            row = await cur.fetchone()
        assert row is not None
        return TurnRequest(TurnId(row[0]), self.row(), BOT, trigger, self.qq, "member", frozenset({WANG}))

    def row(self) -> Conversation:
        """The conversation as the lane would hand it over."""
        return Conversation(
            id=self.conversation,
            kind=self.kind,
            target_id=self.target,
            name="测试",
            enabled=True,
            talk_frequency=None,
            quiet_hours=None,
            daily_calls=7,
            persona=None,
            extra_prompt=self.extra_prompt,
            learning=self.learning,
            quiet_until=None,
            muted_until=None,
            whole_mute=False,
            left_at=None,
            last_pos=self.pos,
            watermark=0,
            diced_pos=0,
        )

    def agent(self, models: AgentModels, settings: Settings | None = None) -> Agent:
        """The agent under test; its embeddings are not open, so that recall runs on words alone."""
        embeddings = Embeddings.from_settings(self.settings, self.database)
        return Agent(
            self.database,
            models,
            settings or self.settings,
            self.personas,
            memory=MemoryService(self.database, models, embeddings),
            search=MessageSearch(self.database, embeddings, zone=self.settings.zone, clock=self.clock),
            clock=self.clock,
        )

    async def remember(
        self,
        content: str,
        about: int | Subject,
        *,
        kind: MemoryKind = "fact",
        labels: Sequence[int] = (),
        locked: bool = False,
        status: MemoryStatus = "active",
    ) -> MemoryId:
        """Store a memory about a member (by QQ number) or another subject; ``labels`` are its evidence."""
        subject = Subject("member", about) if isinstance(about, int) else about
        async with self.database.transaction() as conn:
            cur = await conn.execute(
                """
                INSERT INTO memories (conversation_id, subject_kind, subject_id, kind, content, content_key, search, source,
                                      locked, status, archived_at, created_at)
                VALUES (%(c)s, %(subject)s, %(user)s, %(kind)s, %(content)s, %(key)s, %(search)s, 'agent',
                        %(locked)s, %(status)s, CASE WHEN %(status)s = 'archived' THEN now() END, %(at)s)
                RETURNING id
                """,
                {
                    "c": self.conversation,
                    "subject": subject.kind,
                    "user": subject.user_id,
                    "kind": kind,
                    "content": content,
                    "key": content_key(content),
                    "search": search_text(content),
                    "locked": locked,
                    "status": status,
                    "at": START - timedelta(days=59),
                },
            )
            row = await cur.fetchone()
            assert row is not None
            await conn.execute(
                """
                INSERT INTO memory_evidence (memory_id, message)
                SELECT %(memory)s, m.id FROM messages m WHERE m.conversation_id = %(c)s AND m.pos = ANY(%(labels)s::bigint[])
                """,
                {"memory": row[0], "c": self.conversation, "labels": list(labels)},
            )
        return MemoryId(row[0])

    async def rows(self, statement: str, **values: object) -> list[tuple[object, ...]]:
        """Read rows with a test's own statement; ``c`` is this conversation."""
        async with self.database.connection() as conn:
            cur = await conn.execute(statement.encode(), {"c": self.conversation, **values})
            return await cur.fetchall()

    async def steps(self, request: TurnRequest) -> list[tuple[str, str, bool, str | None]]:
        """The recorded steps of a turn: kind, name, ok, result."""
        async with self.database.connection() as conn:
            cur = await conn.execute(
                "SELECT kind, name, ok, result FROM turn_steps WHERE turn_id = %(turn)s ORDER BY no", {"turn": request.turn_id}
            )
            return [(row[0], row[1], row[2], row[3]) for row in await cur.fetchall()]

    async def blocks(self, request: TurnRequest) -> list[tuple[int, str, str]]:
        """The recorded blocks of a turn: call, name, state."""
        async with self.database.connection() as conn:
            cur = await conn.execute(
                "SELECT call_no, name, state FROM turn_blocks WHERE turn_id = %(turn)s ORDER BY call_no, no",
                {"turn": request.turn_id},
            )
            return [(row[0], row[1], row[2]) for row in await cur.fetchall()]


def texts(messages: Sequence[BaseMessage]) -> list[str]:
    """The texts of a request's messages."""
    return [message.text for message in messages]


def answers(models: ScriptedModels) -> list[str]:
    """What the tools answered, as the model's latest request shows it."""
    return [message.text for message in models.requests[-1] if isinstance(message, ToolMessage)]


def request_chars(tools: Sequence[JsonObject], messages: Sequence[BaseMessage]) -> str:
    """A request as it goes over the wire: tools, then messages."""
    wire = [{"role": "system" if message.type == "system" else "user", "content": message.text} for message in messages]
    return json.dumps([*tools, *wire], ensure_ascii=False, separators=(",", ":"))
