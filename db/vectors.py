"""Vectors as PostgreSQL takes them, and when they have an index."""

from __future__ import annotations

from collections.abc import Sequence

from db.models import ConversationId

HNSW_ROWS = 20_000
"""Vectors of one conversation and space up to which every one is compared; above, an index finds the nearest."""
HNSW_DROP_ROWS = 15_000
"""Below so many the index goes again."""
HNSW_DIM = 4_000
"""The largest dimension that pgvector indexes as halfvec."""
HNSW_M = 16
HNSW_EF_CONSTRUCTION = 64
HNSW_EF_SEARCH = 64
"""How many candidates a search in the index keeps at a time: twice what a leg gives. 100 costs twice the time of 64."""
HNSW_SCAN_TUPLES = 20_000
"""Rows that a filtered search in the index visits before it gives up."""
INDEX_SETTINGS = {
    "hnsw.iterative_scan": "relaxed_order",
    "hnsw.ef_search": str(HNSW_EF_SEARCH),
    "hnsw.max_scan_tuples": str(HNSW_SCAN_TUPLES),
}
"""How every connection searches an index over vectors: on, until enough rows fit the filters."""


def vector_literal(values: Sequence[float]) -> str:
    """Write a vector as text for ``%(v)s::halfvec``."""
    return f"[{','.join(f'{value:.7g}' for value in values)}]"


def hnsw_name(conversation_id: ConversationId, space_id: int) -> str:
    """Name the index over one conversation's memories in one space."""
    return f"memories_hnsw_{conversation_id}_{space_id}"
