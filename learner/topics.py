"""Topics: which thread each message belongs to, and what every thread comes to."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from db import topics
from db.history import Line, lines_at
from db.learned_models import LearnTask, TopicId
from db.models import Conversation, ConversationId, MessageRow
from db.pool import Connection, Database
from db.topics import OpenTopic, Standing, Version
from learner.task import Batch, StaleFindings
from learner.topic_answers import AssignmentAnswer, Placed, SummaryAnswer, SummaryText, place, summaries
from learner.topic_texts import assignment_text, summary_text
from learner.transcript import instructions
from llm.errors import ContextTooLong, ModelRefused, StructuredFailed
from llm.failures import AccountRefused, Unserved
from llm.memory.merge import StructuredModels
from llm.types import CallContext, Prompt
from settings import Settings

logger = logging.getLogger(__name__)

ASSIGN, SUMMARISE = "topic_assignment", "topic_summary"
OPEN = 8
"""Latest topics that messages may be put into, and as many that are replied to."""
STALE = 3
"""Topics that one run summarises though nothing was said in them."""
OLDER = 60
"""Newest messages of a topic that its summary does not hold yet."""
ALONE = 4
"""Topics that are asked for one by one after an answer that left them out."""


@dataclass(frozen=True, slots=True)
class Thread:
    """A topic that this run touches. ``standing`` None: a new one. ``joined`` came in this batch.

    ``lines`` are what its summary adds, ``rows`` their row ids; ``summary`` None: it waits for one. ``given_up``: no
    answer could be had, so it waits for news.
    """

    standing: Standing | None
    joined: tuple[MessageRow, ...]
    lines: tuple[Line, ...]
    rows: tuple[MessageRow, ...]
    summary: SummaryText | None = None
    given_up: bool = False

    @property
    def done(self) -> bool:
        """Whether it wants nothing any more: its summary holds all it has, or none could be had."""
        return not self.lines or self.given_up


class TopicsTask:
    """Puts messages into topics and keeps the topics' summaries."""

    def __init__(self, database: Database, models: StructuredModels, settings: Settings) -> None:
        self._database = database
        self._models = models
        self._zone = settings.zone

    @property
    def name(self) -> LearnTask:
        """Names the cursor."""
        return "topics"

    @property
    def size(self) -> int:
        """Fresh messages of one batch."""
        return 50

    @property
    def after(self) -> LearnTask | None:
        """It comes first."""
        return None

    @property
    def needs_model(self) -> bool:
        """Without a model nothing can be told apart."""
        return True

    async def infer(self, batch: Batch, call: CallContext) -> TopicFindings:
        """Place the batch's sources, and summarise the topics that got any or lost one; at most two calls, as a rule.

        Raises ModelError, DatabaseUnavailable.
        """
        placed = await self._place(batch, call) if batch.sources else Placed({}, ())
        threads = await self._threads(batch, placed)
        return TopicFindings(batch.conversation.id, tuple(await self._summarised(threads, call)))

    async def mend(self, place: Conversation, call: CallContext) -> TopicFindings | None:
        """Summarise topics that wait for it though nothing new was said: those that lost a message. None: no topic waits.

        Raises ModelError, DatabaseUnavailable.
        """
        nothing = Batch(place, self.name, (), frozenset(), frozenset(), {}, 0, 0)
        threads = await self._threads(nothing, Placed({}, ()))
        return TopicFindings(place.id, tuple(await self._summarised(threads, call))) if threads else None

    async def _place(self, batch: Batch, call: CallContext) -> Placed:
        quoted = sorted({line.quoted_pos for line in batch.lines if line.quoted_pos is not None})
        async with self._database.connection() as conn:
            known = await topics.open_topics(conn, batch.conversation.id, quoted, limit=OPEN)
            earlier = await topics.topics_at(conn, batch.conversation.id, quoted)
        answer = await self._ask_places(batch, known, call)
        lines = [line for line in batch.lines if line.pos in batch.sources]
        return place(answer, lines, [topic.id for topic in known], earlier)

    async def _ask_places(self, batch: Batch, known: Sequence[OpenTopic], call: CallContext) -> AssignmentAnswer:
        prompt = [Prompt("system", instructions(ASSIGN)), Prompt("user", assignment_text(batch, known, self._zone))]
        return await self._models.structured(ASSIGN, AssignmentAnswer, prompt, role="learner", context=call)

    async def _threads(self, batch: Batch, placed: Placed) -> list[Thread]:
        """Gather what each touched topic's summary must take in."""
        where = batch.conversation.id
        async with self._database.connection() as conn:
            waiting = await topics.stale(conn, where, limit=STALE)
            ids = list(dict.fromkeys([*placed.known, *waiting]))
            standings = await topics.standings(conn, ids)
            older = await topics.unsummarised(conn, ids, limit=OLDER)
            lines = await lines_at(conn, where, [message.pos for message in older])
        by_pos = {line.pos: line for line in (*lines, *batch.lines)}
        rows = {**{message.pos: message.row for message in older}, **batch.rows}
        threads: list[Thread] = []
        for standing in standings:
            joined = placed.known.get(standing.id, ())
            before = [message.pos for message in older if message.topic == standing.id]
            threads.append(_thread(standing, joined, [*before, *joined], by_pos, rows))
        return threads + [_thread(None, joined, joined, by_pos, rows) for joined in placed.new]

    async def _summarised(self, threads: Sequence[Thread], call: CallContext) -> list[Thread]:
        """Ask for the summaries of all that have something new, then one by one for those that were left out."""
        asked = [thread for thread in threads if thread.lines]
        rest = [thread for thread in threads if not thread.lines]
        if not asked:
            return rest
        found = await self._ask_summaries(asked, call)
        answered = [replace(thread, summary=found[no]) for no, thread in enumerate(asked, 1) if no in found]
        missing = [thread for no, thread in enumerate(asked, 1) if no not in found]
        if len(asked) == 1:
            return [*rest, *answered, *(replace(thread, given_up=True) for thread in missing)]
        for thread in missing[:ALONE]:
            alone = (await self._ask_summaries([thread], call)).get(1)
            answered.append(replace(thread, summary=alone, given_up=alone is None))
        return [*rest, *answered, *missing[ALONE:]]

    async def _ask_summaries(self, asked: Sequence[Thread], call: CallContext) -> dict[int, SummaryText]:
        shown = summary_text([(thread.standing, thread.lines) for thread in asked], self._zone)
        prompt = [Prompt("system", instructions(SUMMARISE)), Prompt("user", shown)]
        try:
            answer = await self._models.structured(SUMMARISE, SummaryAnswer, prompt, role="learner", context=call)
        except (AccountRefused, Unserved):
            raise
        except (StructuredFailed, ModelRefused, ContextTooLong) as failure:
            # The messages may be from long ago: failing the batch for them would stop the cursor for ever.
            logger.info("会话 %s 的 %d 个话题没有得到摘要：%s", call.conversation_id, len(asked), failure)
            return {}
        return summaries(answer, len(asked))


def _thread(
    standing: Standing | None,
    joined: Sequence[int],
    positions: Sequence[int],
    by_pos: Mapping[int, Line],
    rows: Mapping[int, MessageRow],
) -> Thread:
    """Make a thread of positions, the newest of them where they are many."""
    held = sorted(pos for pos in set(positions) if pos in by_pos and pos in rows)[-OLDER:]
    return Thread(
        standing=standing,
        joined=tuple(rows[pos] for pos in joined),
        lines=tuple(by_pos[pos] for pos in held),
        rows=tuple(rows[pos] for pos in held),
    )


@dataclass(frozen=True, slots=True)
class TopicFindings:
    """Where messages belong, and the summaries, ready to be written."""

    conversation_id: ConversationId
    threads: tuple[Thread, ...]

    async def store(self, conn: Connection) -> Mapping[str, int]:
        """Write topics, their messages and new versions; counts ``topics``, ``topic_messages`` and ``summaries``.

        A message that was withdrawn meanwhile is left out; a version that would stand on it is not written, and its topic
        waits for another. Raises StaleFindings when a topic went, or a newer version came, since this run looked.
        """
        standing = await topics.hold_messages(conn, [row for thread in self.threads for row in (*thread.joined, *thread.rows)])
        ids = [thread.standing.id for thread in self.threads if thread.standing is not None]
        if len(await topics.hold(conn, ids)) < len(ids):
            raise StaleFindings("话题在推断期间没有了")
        placed: list[tuple[MessageRow, TopicId]] = []
        made: list[tuple[TopicId, Thread]] = []
        for thread in self.threads:
            joined = [row for row in thread.joined if row in standing]
            if thread.standing is None and not joined:
                continue
            known = None if thread.standing is None else thread.standing.id
            topic = await topics.create(conn, self.conversation_id, joined) if known is None else known
            placed += [(row, topic) for row in joined]
            made.append((topic, thread))
        if await topics.put(conn, placed) < len(placed):
            raise StaleFindings("消息在推断期间进了别的话题")
        await topics.refresh(conn, list({topic for _, topic in placed}))
        return {
            "topics": sum(thread.standing is None for _, thread in made),
            "topic_messages": len(placed),
            "summaries": await _write_versions(conn, made, standing),
        }


async def _write_versions(conn: Connection, made: Sequence[tuple[TopicId, Thread]], standing: set[MessageRow]) -> int:
    bases = [thread.standing.base for _, thread in made if thread.standing is not None and thread.standing.base is not None]
    in_use = await topics.bases_in_use(conn, bases)
    settled: list[TopicId] = []
    written = 0
    for topic, thread in made:
        base = None if thread.standing is None else thread.standing.base
        whole = standing.issuperset(thread.rows) and (base is None or base in in_use)
        if thread.summary is not None and whole:
            if not await topics.add_version(conn, _version(topic, thread, thread.summary)):
                raise StaleFindings("话题在推断期间有了更新的摘要")
            written += 1
        if whole and (thread.summary is not None or thread.done):
            settled.append(topic)
    await topics.settle(conn, settled)
    return written


def _version(topic: TopicId, thread: Thread, summary: SummaryText) -> Version:
    return Version(
        topic=topic,
        version=(thread.standing.version if thread.standing is not None else 0) + 1,
        base=None if thread.standing is None else thread.standing.base,
        rows=thread.rows,
        title=summary.title,
        gist=summary.gist,
        open_loops=summary.open_loops,
        keywords=summary.keywords,
    )
