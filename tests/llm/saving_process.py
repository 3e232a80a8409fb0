"""A process that saves one claim and does nothing else: it is there to be killed. Arguments: database URL, conversation."""

from __future__ import annotations

import asyncio
import sys

from db.memory_models import Subject
from db.models import ConversationId
from db.pool import Database
from llm.embedding import Embeddings
from llm.memory.save import SaveRequest
from llm.memory.service import MemoryService
from llm.service import Models
from llm.types import CallContext
from llm.usage import UsageBook
from settings import load_settings
from tests.llm.embedding_world import ToyBackend


async def main(url: str, conversation: ConversationId) -> None:
    """Save what message 1 says about who said it."""
    settings = load_settings({})
    database = Database(url)
    await database.open()
    models = Models.from_settings(settings, UsageBook(database, settings.zone))
    memory = MemoryService(database, models, Embeddings(database, ToyBackend()))
    request = SaveRequest(
        conversation, Subject("member", 5000000011), "fact", "小明养猫", labels=(1,), shown=frozenset({1}), source="agent"
    )
    await memory.save(request, CallContext("memory_merge", conversation))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], ConversationId(int(sys.argv[2]))))
