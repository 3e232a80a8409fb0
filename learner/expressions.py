"""The task ``expressions``: how the group says things in which situation, each phrase letter for letter from what was said."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

from pydantic import BaseModel, Field

from db import evidence, expression_findings, slang_learning
from db.evidence import MOST, Cited
from db.expression_findings import Found, Near
from db.expressions import Pair, read_pair
from db.learned_models import LearnTask
from db.memory_models import GROUP, Vector
from db.pool import Connection, Database
from learner.fields import EACH, MOST_LABELS, Chinese, Confidence, Labels
from learner.own_names import own_names
from learner.phrases import holds_name, read_phrase, read_situation, stands
from learner.task import Batch
from learner.transcript import instructions, transcript
from llm.embedding.service import Embeddings
from llm.embedding.types import EmbeddingRefused
from llm.errors import EmbeddingUnavailable
from llm.memory.merge import StructuredModels
from llm.types import CallContext, Prompt
from persona.loader import Personas
from settings import Settings

logger = logging.getLogger(__name__)

TASK = "expressions"
SIZE = 120
MOST_ITEMS = 10
VECTOR_SECONDS = 2.0


class ExpressionItem(BaseModel):
    """One way of the group to say something."""

    situation: Annotated[Chinese, Field(description="什么情况下说，一个短语", min_length=1)]
    phrase: str = Field(description="怎么说，照原文；会变的部分写……", min_length=1)
    confidence: Annotated[Confidence, Field(description="0 到 1")]
    evidence: Annotated[Labels, EACH, Field(description="有这句话的消息编号")]


class ExpressionsAnswer(BaseModel):
    """The answer of ``expressions``."""

    items: Annotated[list[ExpressionItem], EACH]


@dataclass(frozen=True, slots=True)
class Seen:
    """An expression whose phrase code saw in the messages ``labels``."""

    pair: Pair
    confidence: float
    labels: tuple[int, ...]


class ExpressionsTask:
    """Finds expressions in batches of messages."""

    name: LearnTask = "expressions"
    size = SIZE
    after: LearnTask | None = None
    needs_model = True

    def __init__(self, database: Database, models: StructuredModels, embeddings: Embeddings, settings: Settings) -> None:
        self._database = database
        self._models = models
        self._embeddings = embeddings
        self._settings = settings
        self._personas = Personas(settings.data_dir)

    async def infer(self, batch: Batch, call: CallContext) -> ExpressionFindings:
        """Ask how the group says things. Raises ModelError, DatabaseUnavailable."""
        said = await self._said(batch)
        if not said:
            return ExpressionFindings(batch, (), {}, None)
        prompt = [Prompt("system", instructions(TASK)), Prompt("user", transcript(batch, self._settings.zone))]
        answer = await self._models.structured(TASK, ExpressionsAnswer, prompt, role="learner", context=call)
        seen = await self._without_names(batch, read_items(answer.items, said))
        vectors = await self._vectors(sorted({item.pair.situation for item in seen}))
        return ExpressionFindings(batch, tuple(seen), vectors, self._embeddings.near)

    async def _said(self, batch: Batch) -> dict[int, str]:
        """What was said in the messages that may be evidence, by label."""
        rows = {batch.rows[label]: label for label in batch.sources if label in batch.rows}
        if not rows:
            return {}
        async with self._database.connection() as conn:
            texts = await slang_learning.texts(conn, list(rows))
        return {label: texts[row] for row, label in rows.items() if row in texts}

    async def _without_names(self, batch: Batch, seen: Sequence[Seen]) -> list[Seen]:
        """Leave out what names somebody: an expression is the group's, not about one of them."""
        if not seen:
            return []
        text = "\n".join(f"{item.pair.situation}\n{item.pair.phrase}" for item in seen)
        async with self._database.connection() as conn:
            names = await expression_findings.names_in(conn, batch.conversation.id, text)
        names += own_names(self._personas, self._settings, batch.conversation)
        return [item for item in seen if not (holds_name(item.pair.situation, names) or holds_name(item.pair.phrase, names))]

    async def _vectors(self, situations: Sequence[str]) -> dict[str, Vector]:
        """Embed situations within a short time; what has no vector by then goes without."""
        if not situations:
            return {}
        try:
            async with asyncio.timeout(VECTOR_SECONDS):
                found = await self._embeddings.each_passage(situations)
        except (EmbeddingUnavailable, TimeoutError) as error:
            logger.debug("新的表达暂时没有向量：%s", error)
            return {}
        pairs = zip(situations, found, strict=True)
        return {situation: vector for situation, vector in pairs if not isinstance(vector, EmbeddingRefused)}


def read_items(items: Sequence[ExpressionItem], said: Mapping[int, str]) -> list[Seen]:
    """Keep what was really said in messages that may be evidence, each pair once; other labels are dropped."""
    seen: dict[str, Seen] = {}
    for item in items[:MOST_ITEMS]:
        situation, phrase = read_situation(item.situation), read_phrase(item.phrase)
        if situation is None or phrase is None:
            continue
        labels = [label for label in dict.fromkeys(item.evidence) if stands(phrase, said.get(label, ""))][:MOST_LABELS]
        pair = read_pair(situation, phrase)
        if labels:
            seen.setdefault(pair.key, Seen(pair, item.confidence, tuple(labels)))
    return list(seen.values())


@dataclass(frozen=True, slots=True)
class ExpressionFindings:
    """Expressions that were found, with the vectors of their situations where there are any."""

    batch: Batch
    seen: tuple[Seen, ...]
    vectors: Mapping[str, Vector]
    near: float | None

    async def store(self, conn: Connection) -> Mapping[str, int]:
        """Write them; near ones become one row. Counts ``expressions``, new ones only. Must run inside a transaction."""
        valid = await self._valid(conn)
        found: list[Found] = []
        for item in self.seen:
            messages = tuple(row for label in item.labels if (row := self.batch.rows[label]) in valid)
            if messages:
                found.append(Found(item.pair, item.confidence, self.vectors.get(item.pair.situation), messages))
        near = [await self._near(conn, one) for one in found]
        held = await expression_findings.hold(conn, [row.id for row in near if row is not None])
        new = 0
        for one, row in zip(found, near, strict=True):
            # What was new may be near to what was written just before.
            new += await self._write(conn, one, await self._near(conn, one) if row is None else held.get(row.id))
        return {"expressions": new} if new else {}

    async def _valid(self, conn: Connection) -> frozenset[int]:
        """The rows of cited messages that may be evidence now."""
        labels = sorted({label for item in self.seen for label in item.labels})
        if labels:
            await evidence.hold(conn, self.batch.conversation.id, labels)
        found: set[int] = set()
        for start in range(0, len(labels), MOST):
            cited = Cited(self.batch.conversation.id, GROUP, tuple(labels[start : start + MOST]), self.batch.sources)
            found.update((await evidence.check(conn, cited)).messages)
        return frozenset(found)

    async def _near(self, conn: Connection, found: Found) -> Near | None:
        return await expression_findings.near(conn, self.batch.conversation.id, found.pair, found.vector, self.near)

    async def _write(self, conn: Connection, found: Found, near: Near | None) -> bool:
        """Write one, on the row that is near; True where it is a new row. What a person rejected stays as it is."""
        where = self.batch.conversation.id
        if near is not None:
            if near.status != "rejected":
                await expression_findings.support(conn, near.id, found)
            return False
        row = await expression_findings.insert(conn, where, found)
        if row is None:
            return False
        await expression_findings.support(conn, row, found)
        return True
