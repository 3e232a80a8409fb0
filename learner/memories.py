"""Memories: what is worth keeping of what was said, with evidence, through the same checks and merge as saveMemory."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from zoneinfo import ZoneInfo

from db import evidence, topics
from db.learned_models import LearnTask
from db.memory_models import MemoryId
from db.pool import Connection, Database
from db.searchtext import content_key
from db.topics import TitledMessages
from learner.claim_answers import MOST_CLAIMS, ClaimItem, ClaimsAnswer, read_subject
from learner.task import Batch, StaleFindings
from learner.transcript import instructions, transcript
from llm.hygiene import one_line
from llm.lines import full_clock, label
from llm.memory.claims import ClaimUnfit
from llm.memory.merge import StructuredModels
from llm.memory.save import Refused, SaveRequest
from llm.memory.service import MemoryService, Prepared, Raced
from llm.types import CallContext, Prompt
from settings import Settings

logger = logging.getLogger(__name__)

TASK = "memory_claims"
MOST_TOPICS = 20


class MemoriesTask:
    """Distils memories from batches whose topics are known."""

    def __init__(self, database: Database, models: StructuredModels, memory: MemoryService, settings: Settings) -> None:
        self._database = database
        self._models = models
        self._memory = memory
        self._zone = settings.zone

    @property
    def name(self) -> LearnTask:
        """Names the cursor."""
        return "memories"

    @property
    def size(self) -> int:
        """Fresh messages of one batch."""
        return 60

    @property
    def after(self) -> LearnTask | None:
        """Topics come first: they tell what belongs together."""
        return "topics"

    @property
    def needs_model(self) -> bool:
        """Without a model nothing can be told apart."""
        return True

    async def infer(self, batch: Batch, call: CallContext) -> MemoryFindings:
        """Find claims in a batch, and how each stands to what is remembered: one call, and one for each that is close to another.

        Raises ModelError, DatabaseUnavailable.
        """
        if not batch.sources:
            return MemoryFindings(self._memory, ())
        async with self._database.connection() as conn:
            titled = await topics.titled(conn, batch.conversation.id, sorted(batch.fresh), limit=MOST_TOPICS)
        prompt = [Prompt("system", instructions(TASK)), Prompt("user", question(batch, titled, self._zone))]
        answer = await self._models.structured(TASK, ClaimsAnswer, prompt, role="learner", context=call)
        return MemoryFindings(self._memory, tuple(await self._prepared(batch, answer.items, call)))

    async def _prepared(self, batch: Batch, items: Sequence[ClaimItem], call: CallContext) -> list[Prepared]:
        """Prepare the claims that are fit, each once, none on what another of them takes away."""
        prepared: list[Prepared] = []
        replaced: set[MemoryId] = set()
        for request in requests(batch, items):
            try:
                claim = await self._memory.prepare(request, call)
            except (ClaimUnfit, Refused) as refusal:
                logger.info("会话 %s 的一条记忆没有记：%s", batch.conversation.id, refusal)
                continue
            target = claim.decision.target
            if target is not None and target.id in replaced:
                claim = claim.alone()
            if claim.replaces is not None:
                replaced.add(claim.replaces)
            prepared.append(claim)
        return prepared


def question(batch: Batch, titled: Sequence[TitledMessages], zone: ZoneInfo) -> str:
    """The batch, from when it is, and which of its messages belong together."""
    days = [full_clock(line.sent_at, zone).rsplit(" ", 1)[0] for line in batch.lines]
    span = days[0] if days[0] == days[-1] else f"{days[0]} 到 {days[-1]}"
    threads = [f"「{one_line(topic.title)}」：{' '.join(label(pos) for pos in topic.positions)}" for topic in titled]
    return "\n".join([f"时间：{span}", *(["话题：", *threads] if threads else []), "聊天：", transcript(batch, zone)])


def requests(batch: Batch, items: Sequence[ClaimItem]) -> list[SaveRequest]:
    """Make save requests of what a model found: about people of the batch, on its sources, each once, at most MOST_CLAIMS."""
    speakers = [line for line in batch.lines if line.pos in batch.sources]
    found: dict[tuple[str, int, str], SaveRequest] = {}
    for item in items[:MOST_CLAIMS]:
        subject = read_subject(item.subject, speakers, batch.conversation)
        if subject is None:
            logger.info("会话 %s 的一条记忆没有记：不知道 %s 是谁", batch.conversation.id, one_line(item.subject)[:40])
            continue
        request = SaveRequest(batch.conversation.id, subject, item.kind, item.content, item.labels, batch.sources, "learner")
        found.setdefault((subject.kind, subject.user_id, content_key(item.content)), request)
    return list(found.values())


@dataclass(frozen=True, slots=True)
class MemoryFindings:
    """Claims, ready to be written. Call ``MemoryService.committed`` after the transaction."""

    memory: MemoryService
    claims: tuple[Prepared, ...]

    async def store(self, conn: Connection) -> Mapping[str, int]:
        """Write the claims whose evidence still stands; counts ``memories``, new ones only.

        Raises StaleFindings when a memory that a claim was compared to changed meanwhile.
        """
        labels = {pos for claim in self.claims for pos in claim.request.labels if pos in claim.request.shown}
        if self.claims:
            await evidence.hold(conn, self.claims[0].request.conversation_id, sorted(labels))
        new = 0
        for claim in self.claims:
            try:
                saved = await self.memory.write(conn, claim)
            except Refused as refusal:
                logger.info("会话 %s 的一条记忆没有记：%s", claim.request.conversation_id, refusal)
            except Raced as race:
                raise StaleFindings("旧的记忆在推断期间变了") from race
            else:
                new += saved.how != "same"
        return {"memories": new}
