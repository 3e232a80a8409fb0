"""What the API needs from the running bot. The runtime implements this; nothing here knows the chat plugin."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from db.models import Conversation, ConversationId, TurnId
from db.pool import Database
from learner.service import Learner
from llm.embedding.keeper import EmbeddingKeeper
from llm.embedding.service import Embeddings
from llm.memory.search import MessageSearch
from llm.memory.service import MemoryService
from settings import Settings


@dataclass(frozen=True, slots=True)
class SpoolStatus:
    """Frames that wait on disk for the database: how many, how big, and whether new ones are turned away."""

    pending: int
    bytes: int
    full: bool


@dataclass(frozen=True, slots=True)
class LanesStatus:
    """Turns over all conversations: running now, waiting for a place, and how many may run at once."""

    running: int
    waiting: int
    limit: int


class ProbeResult(Protocol):
    """How the model service answered a cheap question."""

    @property
    def ok(self) -> bool:
        """True when it answered as a model service does."""
        ...


class ModelsHealth(Protocol):
    """The models, as far as their health goes."""

    async def probe(self) -> ProbeResult:
        """Tell whether the chat model answers, from its last calls or a cheap question; may be a minute old."""
        ...


class RuntimeView(Protocol):
    """The running bot, as the API sees it."""

    @property
    def settings(self) -> Settings:
        """The settings it started with."""
        ...

    @property
    def database(self) -> Database:
        """The database, which may be away at the moment."""
        ...

    @property
    def models(self) -> ModelsHealth:
        """The models in use."""
        ...

    @property
    def embeddings(self) -> Embeddings:
        """The embedding model, which may be off or away."""
        ...

    @property
    def keeper(self) -> EmbeddingKeeper:
        """What gives new rows their vectors."""
        ...

    @property
    def memory(self) -> MemoryService:
        """Memories and their recall."""
        ...

    @property
    def search(self) -> MessageSearch:
        """The search over what was said."""
        ...

    @property
    def learner(self) -> Learner:
        """What learns in the background."""
        ...

    @property
    def started_at(self) -> datetime:
        """When the bot started (UTC)."""
        ...

    def spool_status(self) -> SpoolStatus:
        """Tell how much waits on disk."""
        ...

    def lanes_status(self) -> LanesStatus:
        """Tell how busy the lanes are."""
        ...

    def enabled(self, conversation: Conversation) -> bool:
        """Tell whether the bot stores, learns and speaks there: the conversation's own word, else the settings'."""
        ...

    async def interrupt(self, turn_id: TurnId) -> bool:
        """Stop a turn that waits or runs. False: it is not alive (any more)."""
        ...

    async def grown(self) -> None:
        """Learn that many memories came in at once: words are counted anew, indexes tended in the background."""
        ...

    async def changed(self, conversation_id: ConversationId) -> None:
        """Learn that a conversation's settings changed; called after the commit."""
        ...
