"""The running bot: opened when the server starts, closed when it stops, seen by every plugin."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from nonebot.adapters.onebot.v11 import Bot
from nonebot.log import logger

from db.embedding_indexes import tend_indexes
from db.models import Conversation, ConversationId, TurnId
from db.pool import Database, DatabaseUnavailable
from db.search_terms import count_terms
from db.spool import Spool
from db.start import RunningDatabase, start_database
from learner.service import Learner
from llm.embedding.keeper import EmbeddingKeeper
from llm.embedding.service import Embeddings
from llm.memory.search import MessageSearch
from llm.memory.service import MemoryService
from llm.service import Models
from llm.usage import UsageBook
from persona.loader import Personas
from plugins.admin.ports import LanesStatus, SpoolStatus
from plugins.admin.token import AdminToken
from plugins.chat.jobs import Jobs
from plugins.chat.onebot import NapCatCalls
from plugins.chat.rules import is_enabled
from plugins.chat.service import Chat, Ground
from settings import Settings


@dataclass(slots=True)
class _Process:
    """What is set once before plugins are loaded, and what comes and goes with the server."""

    settings: Settings | None = None
    token: AdminToken | None = None
    runtime: Runtime | None = None
    failure: str | None = None


_process = _Process()


class Runtime:
    """The opened parts. Implements what the API sees."""

    def __init__(self, settings: Settings, running: RunningDatabase, find_bot: Callable[[int], Bot | None]) -> None:
        self.settings = settings
        self.started_at = datetime.now(UTC)
        self.usage = UsageBook(running.database, settings.zone)
        self.models = Models.from_settings(settings, self.usage)
        self.embeddings = Embeddings.from_settings(settings, running.database)
        self.keeper = EmbeddingKeeper(running.database, self.embeddings)
        self.memory = MemoryService(running.database, self.models, self.embeddings, written=self.keeper.poke)
        self.search = MessageSearch(running.database, self.embeddings, zone=settings.zone)
        self.learner = Learner.from_parts(running.database, self.models, self.memory, self.embeddings, settings)
        self.spool = Spool(settings.data_dir / "spool" / str(settings.port))
        self.chat = Chat(
            Ground(
                settings=settings,
                database=running.database,
                models=self.models,
                usage=self.usage,
                spool=self.spool,
                personas=Personas(settings.data_dir),
                onebot=NapCatCalls(find_bot),
                memory=self.memory,
                search=self.search,
            )
        )
        self._jobs = Jobs(at_once=1)
        self._running = running

    @property
    def database(self) -> Database:
        """The database, which may be away at the moment."""
        return self._running.database

    @classmethod
    async def open(cls, settings: Settings, find_bot: Callable[[int], Bot | None]) -> Runtime:
        """Bring everything up. Raises DatabaseProblem, SpoolProblem."""
        running = await start_database(settings)
        try:
            runtime = cls(settings, running, find_bot)
            await runtime.embeddings.open()
            await runtime.chat.start()
            runtime.keeper.start()
        except BaseException:
            await running.close()
            raise
        return runtime

    async def close(self) -> None:
        """Bring everything down, the database last."""
        await self._jobs.close()
        await self.learner.aclose()
        await self.chat.close()
        await self.keeper.aclose()
        await self.embeddings.aclose()
        self.spool.close()
        await self.models.aclose()
        await self.usage.aclose()
        await self._running.close()

    def spool_status(self) -> SpoolStatus:
        """Tell how much waits on disk."""
        return SpoolStatus(self.spool.pending, self.spool.size_bytes, self.chat.inbox.blocked)

    def lanes_status(self) -> LanesStatus:
        """Tell how busy the lanes are."""
        lanes = self.chat.lanes
        return LanesStatus(running=lanes.running, waiting=lanes.waiting, limit=lanes.limit)

    def enabled(self, conversation: Conversation) -> bool:
        """Tell whether the bot stores, learns and speaks there."""
        return is_enabled(conversation, self.settings)

    async def interrupt(self, turn_id: TurnId) -> bool:
        """Stop a turn that runs in this process."""
        return await self.chat.interrupt(turn_id)

    async def changed(self, conversation_id: ConversationId) -> None:
        """Learn that a conversation's settings changed."""
        await self.chat.changed(conversation_id)

    async def grown(self) -> None:
        """Learn that many memories came in at once."""
        self._jobs.start("照看向量索引", self.tend_indexes())
        try:
            await self.count_terms()
        except DatabaseUnavailable as error:
            logger.warning(f"数词频时数据库连不上，过几小时再数：{error}")

    async def tend_indexes(self) -> None:
        """Give big groups the index over their vectors. Raises DatabaseUnavailable."""
        space = self.embeddings.space
        await tend_indexes(self.database, space.id if space else None)

    async def count_terms(self) -> None:
        """Count anew how common words are. Raises DatabaseUnavailable."""
        async with self.database.connection() as conn:
            await count_terms(conn)


def configure(settings: Settings, token: AdminToken) -> None:
    """Set what plugins find when they are loaded."""
    _process.settings = settings
    _process.token = token


def get_settings() -> Settings:
    """Give the settings. Raises RuntimeError before ``configure``."""
    if _process.settings is None:
        raise RuntimeError("configure() was not called before the plugins were loaded")
    return _process.settings


def get_admin_token() -> str:
    """Give the admin token. Raises RuntimeError before ``configure``."""
    if _process.token is None:
        raise RuntimeError("configure() was not called before the plugins were loaded")
    return _process.token.value


def get_runtime() -> Runtime | None:
    """Give the running bot; None while it starts or stops."""
    return _process.runtime


async def open_runtime(find_bot: Callable[[int], Bot | None]) -> Runtime:
    """Open the bot with the configured settings. Raises DatabaseProblem, SpoolProblem."""
    runtime = await Runtime.open(get_settings(), find_bot)
    _process.runtime = runtime
    return runtime


async def close_runtime() -> None:
    """Close the bot, if it is open."""
    runtime, _process.runtime = _process.runtime, None
    if runtime is not None:
        await runtime.close()
        logger.info("已停止")


def fail_startup(reason: str) -> None:
    """Remember why the bot could not be opened; ``bot.py`` says so when the server has ended."""
    _process.failure = reason


def startup_failure() -> str | None:
    """Why the bot could not be opened; None: it was."""
    return _process.failure
