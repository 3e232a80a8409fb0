"""The one door to memory for agent and learner: save a claim with evidence, recall what fits some words."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from db import evidence, memories
from db.evidence import Cited
from db.memory_models import Ask, Claim, Memory, MemoryId, Recalled, Scope, Vector, Wish
from db.models import MessageRow
from db.pool import Connection, Database
from db.recall import nearest, recall
from db.searchtext import content_key
from llm.embedding.service import Embeddings
from llm.errors import ContextTooLong, EmbeddingUnavailable, ModelError, ModelRefused, StructuredFailed
from llm.failures import AccountRefused, Unserved
from llm.memory.claims import ClaimUnfit, read_claim
from llm.memory.merge import Decision, StructuredModels, judge
from llm.memory.save import How, Refused, Saved, SaveRequest
from llm.types import CallContext

logger = logging.getLogger(__name__)

NEAREST = 5
NEAR_WORDS = 0.4
"""Word similarity from which two claims about one subject may say the same: shared names alone stay below."""
VECTOR_SECONDS = 2.0
ATTEMPTS = 3
"""A claim that lost a race is decided again, then written as new."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A claim with all that had to be asked for it, ready to be written.

    ``content`` is the claim's own text, cleaned; ``vector`` is that of the decision's text.
    """

    request: SaveRequest
    content: str
    decision: Decision
    vector: Vector | None

    @property
    def replaces(self) -> MemoryId | None:
        """The memory whose place it takes, if any."""
        target = self.decision.target
        return target.id if target is not None and self.decision.relation in ("refines", "supersedes") else None

    def alone(self) -> Prepared:
        """The same claim as a new one beside the others."""
        vector = self.vector if self.decision.content == self.content else None
        return replace(self, decision=Decision("new", self.content), vector=vector)


class Raced(Exception):
    """Another writer changed what this one counted on: nothing was written."""


class MemoryService:
    """Saves and recalls. One instance a process; ``written`` is called after new rows were committed."""

    def __init__(
        self,
        database: Database,
        models: StructuredModels,
        embeddings: Embeddings,
        *,
        written: Callable[[], None] = lambda: None,
    ) -> None:
        self._database = database
        self._models = models
        self._embeddings = embeddings
        self._written = written

    async def recall(self, texts: Sequence[str], scope: Scope, wish: Wish, *, within: float = 0.25) -> list[Recalled]:
        """Find the memories in scope that fit some questions; a vector that is late or missing costs its leg only.

        ``within``: seconds that the vectors may take. Raises DatabaseUnavailable.
        """
        asked = [text for text in texts if text.strip()]
        if not asked:
            return []
        vectors = await self._embeddings.queries(asked, within=within)
        asks = [Ask(text, vector) for text, vector in zip(asked, vectors, strict=True)]
        return await recall(self._database, asks, scope, wish)

    async def save(self, request: SaveRequest, context: CallContext) -> Saved:
        """Keep a claim: refused without evidence, merged with what says the same, never over an older text.

        Asks a model only where an older claim about the same subject is close. Raises DatabaseUnavailable.
        """
        try:
            content = read_claim(request.content, about_bot=request.subject.kind == "bot")
            return await self._save(request, content, context)
        except (ClaimUnfit, Refused) as refusal:
            return Saved(None, "refused", str(refusal))

    async def prepare(self, request: SaveRequest, context: CallContext) -> Prepared:
        """Check a claim and ask all that must be asked, without writing: for a caller that writes in its own transaction.

        Raises ClaimUnfit and Refused for a claim that cannot be kept, ModelError, DatabaseUnavailable.
        """
        content = read_claim(request.content, about_bot=request.subject.kind == "bot")
        async with self._database.transaction() as conn:
            await _evidence(conn, request)
            known = await _equal(conn, request, content)
        if known is not None:
            return Prepared(request, content, Decision("same", content, known), None)
        vector = await self._vector(content)
        try:
            decision = await self._decide(request, content, vector, context)
        except (AccountRefused, Unserved):
            raise
        except (StructuredFailed, ModelRefused, ContextTooLong) as failure:
            # What is refused may be an older claim's text: no reason to lose this one.
            decision = _undecided(content, failure)
        return Prepared(request, content, decision, vector if decision.content == content else None)

    async def write(self, conn: Connection, prepared: Prepared) -> Saved:
        """Write a claim. Must run inside a transaction; call ``committed`` after it.

        Raises Refused where it lost its evidence, Raced where it must be prepared anew: roll back then.
        """
        request, decision = prepared.request, prepared.decision
        messages = await _evidence(conn, request)
        equal = await _join_equal(conn, request, decision.content, messages)
        if equal is not None:
            return Saved(equal, "same")
        how = await _settle_old(conn, decision, messages)
        if how == "same" and decision.target is not None:
            return Saved(await _read(conn, decision.target.id), "same")
        claim = Claim(
            conversation_id=request.conversation_id,
            subject=request.subject,
            kind=request.kind,
            content=decision.content,
            source=request.source,
            evidence=messages,
            turn_id=request.turn_id,
        )
        row = await _insert(conn, claim, prepared.vector)
        if decision.target is not None and how in ("refines", "supersedes", "contradicts"):
            await memories.link(conn, decision.target.id, row, how)
        return Saved(await _read(conn, row), how)

    def committed(self) -> None:
        """Learn that claims which ``write`` wrote were committed."""
        self._written()

    async def _save(self, request: SaveRequest, content: str, context: CallContext) -> Saved:
        """Save a claim that is well formed. Raises Refused."""
        vector: Vector | None = None
        for attempt in range(1, ATTEMPTS + 1):
            known = await self._known(request, content)
            if known is not None:
                return Saved(known, "same")
            if attempt == 1:
                vector = await self._vector(content)
            decision = Decision("new", content)
            if attempt < ATTEMPTS:
                try:
                    decision = await self._decide(request, content, vector, context)
                except ModelError as failure:
                    decision = _undecided(content, failure)
            prepared = Prepared(request, content, decision, vector if decision.content == content else None)
            try:
                async with self._database.transaction() as conn:
                    saved = await self.write(conn, prepared)
            except Raced:
                continue
            self._written()
            return saved
        known = await self._known(request, content)
        if known is None:
            raise Refused("同时有别的改动，这次没有记下，请再试一次")
        return Saved(known, "same")

    async def _known(self, request: SaveRequest, content: str) -> Memory | None:
        """Add the evidence where the same words are there already. Raises Refused."""
        async with self._database.transaction() as conn:
            messages = await _evidence(conn, request)
            return await _join_equal(conn, request, content, messages)

    async def _vector(self, content: str) -> Vector | None:
        try:
            async with asyncio.timeout(VECTOR_SECONDS):
                [vector] = await self._embeddings.passages([content])
        except (EmbeddingUnavailable, TimeoutError) as error:
            logger.debug("新记忆暂时没有向量：%s", error)
            return None
        return vector

    async def _decide(self, request: SaveRequest, content: str, vector: Vector | None, context: CallContext) -> Decision:
        """Decide how a claim stands to the close ones. Raises ModelError."""
        scope = Scope((request.conversation_id,), subjects=(request.subject,))
        found = await nearest(self._database, Ask(content, vector), scope, limit=NEAREST)
        limit = self._embeddings.near
        close = [
            near.memory
            for near in found
            if near.similarity >= NEAR_WORDS or (limit is not None and near.cosine is not None and near.cosine >= limit)
        ]
        key = content_key(content)
        for memory in close:
            if content_key(memory.content) == key:  # written since it was looked for
                return Decision("same", content, memory)
        if not close:
            return Decision("new", content)
        return await judge(self._models, content, close, context)


def _undecided(content: str, failure: ModelError) -> Decision:
    logger.info("没能判断新记忆和旧记忆的关系，当作新的记下：%s", failure)
    return Decision("new", content)


async def _evidence(conn: Connection, request: SaveRequest) -> tuple[MessageRow, ...]:
    found = await evidence.check(conn, Cited(request.conversation_id, request.subject, request.labels, request.shown))
    if not found.messages:
        raise Refused(found.refusal)
    return found.messages


async def _equal(conn: Connection, request: SaveRequest, content: str) -> Memory | None:
    """Find the active memory of the same words; None: there is none. Raises Refused: a person archived them."""
    equal = await memories.find_exact(conn, request.conversation_id, request.subject, content)
    if equal is None and await memories.rejected(conn, request.conversation_id, request.subject, content):
        raise Refused("主人归档过这句话，不再记")
    return equal


async def _join_equal(conn: Connection, request: SaveRequest, content: str, messages: Sequence[MessageRow]) -> Memory | None:
    """Add the evidence to an active memory of the same words; None: there is none. Raises Refused: a person archived them."""
    equal = await _equal(conn, request, content)
    if equal is None or not await memories.add_evidence(conn, equal.id, messages):
        return None
    return equal


async def _settle_old(conn: Connection, decision: Decision, messages: Sequence[MessageRow]) -> How:
    """Do to the older claim what was decided; a locked one stays as it is. Raises Raced."""
    target, relation = decision.target, decision.relation
    if target is None:
        return "new"
    if not await memories.hold(conn, target):
        raise Raced
    if relation == "same" or (relation == "refines" and target.locked):
        await memories.add_evidence(conn, target.id, messages)
        return "same"
    if relation == "supersedes" and target.locked:
        return "contradicts"
    if relation in ("refines", "supersedes"):
        await memories.archive(conn, target.id, "refined" if relation == "refines" else "superseded")
    return relation


async def _insert(conn: Connection, claim: Claim, vector: Vector | None) -> MemoryId:
    row = await memories.insert(conn, claim, vector)
    if row is None:
        raise Raced
    return row


async def _read(conn: Connection, row: MemoryId) -> Memory:
    memory = await memories.get(conn, row)
    if memory is None:
        raise Raced
    return memory
