"""A small group day in the database, and a running bot as far as the API sees one."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from db.models import Conversation, ConversationId, TurnId
from db.pool import Database
from learner.service import Learner
from llm.embedding.keeper import EmbeddingKeeper
from llm.embedding.service import Embeddings
from llm.memory.search import MessageSearch
from llm.memory.service import MemoryService
from llm.service import Models
from llm.usage import UsageBook
from plugins.admin.ports import LanesStatus, SpoolStatus
from settings import Settings
from tests.llm.embedding_world import ToyBackend

BOT = 5000000001
MING = 5000000011
WEI = 5000000012
GROUP = 7000000101
OTHER_GROUP = 7000000102
FRIEND = 5000000021
NOON = datetime(2026, 11, 28, 4, 0, tzinfo=UTC)


@dataclass(slots=True)
class FakeModels:
    """A model service at the edge: it answers as told, or never."""

    ok: bool = True
    hangs: bool = False

    async def probe(self) -> Probe:
        """Answer at once, or never."""
        if self.hangs:
            await asyncio.Event().wait()
        return Probe(self.ok)


@dataclass(frozen=True, slots=True)
class Probe:
    """What the service said."""

    ok: bool


@dataclass(slots=True)
class View:
    """The running bot, with real settings and a real database."""

    database: Database
    settings: Settings = field(default_factory=lambda: Settings(llm_base_url="http://127.0.0.1:1/v1", llm_model="m-1"))
    models: FakeModels = field(default_factory=FakeModels)
    backend: ToyBackend = field(default_factory=ToyBackend)
    embeddings: Embeddings = field(init=False)
    keeper: EmbeddingKeeper = field(init=False)
    memory: MemoryService = field(init=False)
    search: MessageSearch = field(init=False)
    learner: Learner = field(init=False)
    grew: int = 0
    started_at: datetime = field(default_factory=lambda: datetime.now(UTC) - timedelta(seconds=90))
    spool: SpoolStatus = field(default_factory=lambda: SpoolStatus(pending=0, bytes=0, full=False))
    alive: set[int] = field(default_factory=set[int])
    interrupted: list[int] = field(default_factory=list[int])
    told: list[int] = field(default_factory=list[int])

    def __post_init__(self) -> None:
        self.embeddings = Embeddings(self.database, self.backend)
        self.keeper = EmbeddingKeeper(self.database, self.embeddings, first_after=0)
        # Nothing here asks it: what a person writes is not judged.
        models = Models.from_settings(Settings(), UsageBook(self.database, self.settings.zone))
        self.memory = MemoryService(self.database, models, self.embeddings, written=self.keeper.poke)
        self.search = MessageSearch(self.database, self.embeddings, zone=self.settings.zone)
        self.learner = Learner.from_parts(self.database, models, self.memory, self.embeddings, self.settings)

    async def grown(self) -> None:
        """Remember that much came in."""
        self.grew += 1

    def spool_status(self) -> SpoolStatus:
        """Tell what waits on disk."""
        return self.spool

    def lanes_status(self) -> LanesStatus:
        """Tell how busy it is."""
        return LanesStatus(running=1, waiting=2, limit=4)

    def enabled(self, conversation: Conversation) -> bool:
        """Tell whether it speaks there; here only groups do by themselves."""
        return conversation.kind == "group" if conversation.enabled is None else conversation.enabled

    async def interrupt(self, turn_id: TurnId) -> bool:
        """Stop a turn that this process runs."""
        if turn_id not in self.alive:
            return False
        self.interrupted.append(turn_id)
        return True

    async def changed(self, conversation_id: ConversationId) -> None:
        """Remember whose settings changed."""
        self.told.append(conversation_id)


def settings_with(folder: Path, **values: object) -> Settings:
    """Settings for a test whose files live in ``folder``."""
    return Settings.model_validate({"data_dir": folder, **values})


@dataclass(frozen=True, slots=True)
class Seeded:
    """Row ids of what was put in."""

    group: ConversationId
    friend: ConversationId
    done_turn: int
    running_turn: int


async def seed(database: Database) -> Seeded:
    """Put in a group with five messages, a friend, a done and a running turn, sends and calls."""
    group = await _row(
        database,
        "INSERT INTO conversations (kind, target_id, name, last_pos, watermark) "
        "VALUES ('group', %(target)s, '周末桌游', 5, 4) RETURNING id",
        target=GROUP,
    )
    friend = await _row(
        database,
        "INSERT INTO conversations (kind, target_id, name, last_pos) VALUES ('private', %(target)s, '阿青', 1) RETURNING id",
        target=FRIEND,
    )
    done = await _turn(database, group, "done")
    running = await _turn(database, group, "running")
    await _messages(database, group, friend, done)
    await _work(database, group, done)
    return Seeded(ConversationId(group), ConversationId(friend), done, running)


async def _row(database: Database, statement: str, **values: object) -> int:
    async with database.connection() as conn:
        cursor = await conn.execute(statement, values)  # pyright: ignore[reportArgumentType, reportCallIssue]
        row = await cursor.fetchone()
    assert row is not None
    return int(row[0])


async def _turn(database: Database, group: int, status: str) -> int:
    return await _row(
        database,
        """
        INSERT INTO turns (conversation_id, account_id, status, trigger, outcome, persona, from_pos, shown_pos,
                           queued_at, started_at, ended_at)
        VALUES (%(group)s, %(bot)s, %(status)s, 'mention', CASE WHEN %(status)s = 'done' THEN 'spoke' END, 'default', 0, 4,
                %(at)s, %(at)s, CASE WHEN %(status)s = 'done' THEN %(at)s END)
        RETURNING id
        """,
        group=group,
        bot=BOT,
        status=status,
        at=NOON,
    )


async def _messages(database: Database, group: int, friend: int, turn: int) -> None:
    """Position 4 arrived late: its real_seq says that it was sent before position 3; position 2 is a poke without one."""
    async with database.connection() as conn:
        await conn.execute(
            """
            INSERT INTO messages (conversation_id, pos, real_seq, kind, sender_id, sender_name, is_self, text, body,
                                  quote_name, quote_text, sent_at, withdrawn_at, turn_id)
            VALUES (%(group)s, 1, 101, 'message', %(ming)s, '小明', false, '七点开局吗', '七点开局吗', NULL, NULL,
                    %(at)s, NULL, NULL),
                   (%(group)s, 2, NULL, 'poke', %(wei)s, '阿伟', false, '', '[阿伟 戳了戳 小明]', NULL, NULL,
                    %(at)s, NULL, NULL),
                   (%(group)s, 3, 103, 'message', %(bot)s, '小满', true, '七点，老地方', '七点，老地方', '小明', '七点开局吗',
                    %(at)s, NULL, %(turn)s),
                   (%(group)s, 4, 102, 'message', %(wei)s, '阿伟', false, '带上新桌游', '带上新桌游', NULL, NULL,
                    %(at)s, %(at)s, NULL),
                   (%(group)s, 5, 104, 'message', %(ming)s, '小明', false, '好', '好', '', NULL, %(at)s, NULL, NULL),
                   (%(friend)s, 1, 9, 'message', %(qing)s, '阿青', false, '在吗', '在吗', NULL, NULL, %(at)s, NULL, NULL)
            """,
            {"group": group, "friend": friend, "ming": MING, "wei": WEI, "bot": BOT, "qing": FRIEND, "at": NOON, "turn": turn},
        )
        await conn.execute(
            """
            INSERT INTO owed (message, conversation_id, account_id, pos, kind)
            SELECT id, conversation_id, %(bot)s, pos, 'mention' FROM messages WHERE conversation_id = %(group)s AND pos = 5
            """,
            {"group": group, "bot": BOT},
        )


async def _work(database: Database, group: int, turn: int) -> None:
    """What the done turn left behind: two blocks, two steps, two sends (one refused), two calls of which one is old."""
    values = {"group": group, "turn": turn, "bot": BOT, "at": NOON}
    async with database.connection() as conn:
        await conn.execute(
            """
            INSERT INTO turn_blocks (turn_id, call_no, no, name, stability, tokens, chars, state)
            VALUES (%(turn)s, 1, 1, 'history', 'chunk', 300, 700, 'trimmed'),
                   (%(turn)s, 1, 0, 'system', 'static', 500, 1100, 'kept')
            """,
            values,
        )
        await conn.execute(
            """
            INSERT INTO turn_steps (turn_id, no, kind, name, arguments, result, ok, started_at, ms)
            VALUES (%(turn)s, 2, 'tool', 'speak', '{"content": "七点，老地方", "mentions": [5000000011]}', '已发送', true,
                    %(at)s, 35),
                   (%(turn)s, 1, 'model', 'm-1', NULL, NULL, true, %(at)s, 900)
            """,
            values,
        )
        await conn.execute(
            """
            INSERT INTO outbox (conversation_id, account_id, turn_id, status, segments, text, message_id, reason)
            VALUES (%(group)s, %(bot)s, %(turn)s, 'refused', '[]', '太长的话', NULL, 'other'),
                   (%(group)s, %(bot)s, %(turn)s, 'sent', '[]', '七点，老地方', -8123456789012, NULL)
            """,
            values,
        )
        await conn.execute(
            """
            INSERT INTO model_calls (called_at, conversation_id, turn_id, task, role, model, prompt_tokens,
                                     completion_tokens, cached_tokens, latency_ms, ok)
            VALUES (%(at)s, %(group)s, %(turn)s, 'turn', 'chat', 'm-1', 1000, 20, 800, 900, true),
                   (now(), %(group)s, %(turn)s, 'turn', 'chat', 'm-1', 1100, 30, 900, 950, true)
            """,
            values,
        )
