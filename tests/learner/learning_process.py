"""A process that learns and does nothing else: it is there to be killed. Arguments: database URL, model service, conversation."""

from __future__ import annotations

import asyncio
import sys

from db.models import ConversationId
from db.pool import Database
from learner.service import Learner
from llm.embedding import Embeddings
from llm.memory.service import MemoryService
from llm.service import Models
from llm.usage import UsageBook
from settings import load_settings
from tests.llm.embedding_world import ToyBackend


async def main(url: str, service: str, conversation: ConversationId) -> None:
    """Learn all of one conversation."""
    settings = load_settings({"llm_base_url": service, "llm_model": "fake-chat", "llm_api_key": "sk-test-0001"})
    database = Database(url)
    await database.open()
    models = Models.from_settings(settings, UsageBook(database, settings.zone))
    embeddings = Embeddings(database, ToyBackend())
    memory = MemoryService(database, models, embeddings)
    await Learner.from_parts(database, models, memory, embeddings, settings).run(conversation)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], ConversationId(int(sys.argv[3]))))
