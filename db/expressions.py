"""Expression rows: how a group says things in which situation."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from psycopg.rows import class_row

from db.learned_models import ExpressionId, ReviewStatus
from db.models import ConversationId
from db.pool import Connection
from db.searchtext import content_key, search_text

SITUATION_CHARS = 100
PHRASE_CHARS = 100
NOTE_CHARS = 500

ExpressionSource = Literal["model", "person"]

EXPRESSION_ROWS = """
    SELECT x.id, x.conversation_id, x.situation, x.phrase, x.pair_key, x.note, x.status, x.locked, x.decided_by, x.source,
           x.confidence, x.merged_into, x.first_seen, x.last_seen, x.version, x.created_at, x.updated_at,
           (SELECT count(*) FROM expression_evidence e JOIN messages m ON m.id = e.message
            WHERE e.expression_id = x.id AND m.withdrawn_at IS NULL) AS evidence
    FROM (SELECT * FROM expressions WHERE phrase_key <> '') AS x
"""
"""What an Expression is read from, up to its WHERE. Rows whose words were forgotten are nobody's to see."""


@dataclass(frozen=True, slots=True)
class Expression:
    """An expression's row, without its vector, and how many standing messages support it."""

    id: ExpressionId
    conversation_id: ConversationId
    situation: str
    phrase: str
    pair_key: str
    note: str
    status: ReviewStatus
    locked: bool
    decided_by: str | None
    source: ExpressionSource
    confidence: float | None
    merged_into: ExpressionId | None
    first_seen: datetime | None
    last_seen: datetime | None
    version: int
    created_at: datetime
    updated_at: datetime
    evidence: int


@dataclass(frozen=True, slots=True)
class Pair:
    """A situation and a phrase with all that is derived from them."""

    situation: str
    phrase: str
    key: str
    phrase_key: str
    search: str
    phrase_search: str


def read_pair(situation: str, phrase: str) -> Pair:
    """Derive what the columns hold. Pairs that say the same, letter for letter, have one key."""
    phrase_key = content_key(phrase)
    key = f"{content_key(situation)} → {phrase_key}"
    return Pair(situation, phrase, key, phrase_key, search_text(situation), search_text(phrase))


async def get(conn: Connection, expression_id: ExpressionId) -> Expression | None:
    """Read one row; None: there is none."""
    async with conn.cursor(row_factory=class_row(Expression)) as cur:
        await cur.execute(f"{EXPRESSION_ROWS} WHERE x.id = %(id)s", {"id": expression_id})
        return await cur.fetchone()


async def hold(conn: Connection, expression_id: ExpressionId) -> Expression | None:
    """Read one row and keep others from changing it until the commit."""
    await conn.execute("SELECT FROM expressions WHERE id = %(id)s FOR NO KEY UPDATE", {"id": expression_id})
    return await get(conn, expression_id)


async def with_key(conn: Connection, conversation_id: ConversationId, key: str) -> Expression | None:
    """Read the row of a pair; None: there is none."""
    async with conn.cursor(row_factory=class_row(Expression)) as cur:
        await cur.execute(
            f"{EXPRESSION_ROWS} WHERE x.conversation_id = %(conversation)s AND x.pair_key = %(key)s",
            {"conversation": conversation_id, "key": key},
        )
        return await cur.fetchone()
