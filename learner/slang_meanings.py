"""What a candidate means, inferred anew from fresh uses when it has been said often enough."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from zoneinfo import ZoneInfo

from db import slang, slang_counts, slang_learning, slang_lists
from db.models import ConversationId
from db.pool import Connection, Database
from db.searchtext import content_key
from db.slang_findings import Inferred
from db.slang_learning import Mined, passed
from db.slang_lists import UseLine
from db.slang_terms import needle, occurs, term_key
from learner.slang_asking import MEANING, MeaningAnswer, MeaningItem, Used, meaning_prompt
from learner.slang_findings import Confirmed
from learner.slang_rules import read_meaning
from llm.errors import ModelError, StructuredFailed
from llm.memory.merge import StructuredModels
from llm.types import CallContext

logger = logging.getLogger(__name__)

AT_ONCE = 8
"""Terms of one call."""
USES = 4
"""Newest messages that hold a term, each with what stands around it."""
LOOKED_AT = 12
REWORDED = "换了说法"


@dataclass(frozen=True, slots=True)
class Due:
    """A term whose meaning is due: the meaning it has or just got, and its newest uses with what stands around them."""

    key: str
    spellings: tuple[str, ...]
    meaning: str
    lines: tuple[UseLine, ...] = ()


class MeaningKeeper:
    """Infers the meanings that are due in a conversation, in one call."""

    def __init__(self, database: Database, models: StructuredModels, zone: ZoneInfo) -> None:
        self._database = database
        self._models = models
        self._zone = zone

    async def infer(
        self, conversation: ConversationId, mined: Sequence[Mined], confirmed: Sequence[Confirmed], call: CallContext
    ) -> tuple[Inferred, ...]:
        """Infer what is due among the candidates of a batch, those that were confirmed just now, and all others.

        A model that is away costs nothing: the terms stay due. One that gives nothing usable makes them wait for the next
        threshold, so that a term no model can explain is not asked about for ever. Raises DatabaseUnavailable.
        """
        async with self._database.connection() as conn:
            due = await _due(conn, conversation, mined, confirmed)
            due = await _with_uses(conn, conversation, due) if due else []
        asked = [Used(term.spellings[0], term.meaning, term.lines) for term in due if term.lines]
        if not asked:
            return tuple(_given_up(term) for term in due)
        try:
            answer = await self._models.structured(MEANING, MeaningAnswer, meaning_prompt(asked, self._zone), context=call)
        except StructuredFailed as error:
            logger.warning("会话 %s 的黑话释义没有可用的结果，等用得更多时再推断：%s", conversation, error)
            return tuple(_given_up(term) for term in due)
        except ModelError as error:
            logger.warning("会话 %s 的黑话释义没能推断，下次再来：%s", conversation, error)
            return ()
        items = {term_key(item.term): item for item in answer.items}
        return tuple(_inferred(term, items) for term in due)


async def _due(
    conn: Connection, conversation: ConversationId, mined: Sequence[Mined], confirmed: Sequence[Confirmed]
) -> list[Due]:
    """Find what is due by fresh counts, the most said first: of the batch's own terms, and of those counted before."""
    told = {item.key: item.meaning for item in confirmed}
    known = await slang.spelled(conn, conversation, list(told))
    earlier = await slang_learning.due(conn, conversation, limit=AT_ONCE)
    terms = {
        term.key: (Due(term.key, tuple(term.spellings), term.meaning or meaning), term.inferred_at)
        for term in (*mined, *earlier)
        if (meaning := _told(term, told)) or term.confidence is not None
    }
    new = [item for item in confirmed if item.key not in known]
    terms |= {item.key: (Due(item.key, (item.term,), item.meaning), 0) for item in new}
    counts = await slang_counts.occurrences(conn, conversation, [term.spellings for term, _ in terms.values()])
    ranked = sorted(zip(counts, terms.values(), strict=True), key=lambda item: -item[0])
    return [term for count, (term, inferred_at) in ranked if passed(inferred_at, count)][:AT_ONCE]


def _told(term: Mined, told: Mapping[str, str]) -> str:
    """The meaning that a candidate was confirmed with just now, under any spelling; empty: it was not."""
    return next((told[key] for key in map(term_key, term.spellings) if key in told), "")


async def _with_uses(conn: Connection, conversation: ConversationId, due: Sequence[Due]) -> list[Due]:
    """Read the newest uses of terms with what stands around them."""
    needles = [(no, text) for no, term in enumerate(due) for text in map(needle, term.spellings) if text]
    uses = await slang_learning.newest_uses(conn, conversation, needles, limit=LOOKED_AT)
    hits = [
        list(dict.fromkeys(use.message for use in uses if use.no == no and _stands(term, use.text)))[:USES]
        for no, term in enumerate(due)
    ]
    lines = await slang_lists.uses(conn, sorted({row for rows in hits for row in rows}))
    return [Due(term.key, term.spellings, term.meaning, _around(rows, lines)) for term, rows in zip(due, hits, strict=True)]


def _stands(term: Due, text: str) -> bool:
    return any(occurs(spelling, text) for spelling in term.spellings)


def _around(hits: Sequence[int], lines: Sequence[UseLine]) -> tuple[UseLine, ...]:
    """The lines of some hits, each once, in reading order; what is a hit itself is shown as one."""
    mine = [line for line in lines if line.hit in hits]
    best = {line.message: line for line in sorted(mine, key=lambda line: line.side == 0)}
    return tuple(sorted(best.values(), key=lambda line: line.pos))


def _inferred(term: Due, items: Mapping[str, MeaningItem]) -> Inferred:
    item = next((items[key] for key in map(term_key, term.spellings) if key in items), None)
    meaning = "" if item is None else read_meaning(item.meaning)
    if item is None or not meaning or not term.lines:
        return _given_up(term)
    same = not term.meaning or content_key(meaning) == content_key(term.meaning)
    return Inferred(
        key=term.key,
        meaning=meaning,
        meaning_plain=read_meaning(item.meaning_without_context),
        confidence=item.confidence,
        change="" if same else read_meaning(item.change) or REWORDED,
        sources=tuple(line.message for line in term.lines),
    )


def _given_up(term: Due) -> Inferred:
    return Inferred(term.key, "", "", 0.0, "", ())
