"""Embeddings: texts to vectors, by a service or by a model in this process, and the vectors of stored rows."""

from llm.embedding.keeper import EmbeddingKeeper
from llm.embedding.service import Embeddings
from llm.embedding.types import EmbeddingStatus, Space

__all__ = ["EmbeddingKeeper", "EmbeddingStatus", "Embeddings", "Space"]
