"""What a candidate means, inferred anew from fresh uses when it has been said often enough."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from zoneinfo import ZoneInfo

from db import slang_learning, slang_lists
from db.learned_models import SlangId
from db.models import ConversationId
from db.pool import Database
from db.searchtext import content_key, search_text
from db.slang_findings import Inferred
from db.slang_learning import Mined
from db.slang_lists import UseLine
from db.slang_terms import occurs, term_key
from learner.slang_asking import MEANING, MeaningAnswer, MeaningItem, Used, meaning_prompt
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


class MeaningKeeper:
    """Infers the meanings that are due in a conversation, in one call."""

    def __init__(self, database: Database, models: StructuredModels, zone: ZoneInfo) -> None:
        self._database = database
        self._models = models
        self._zone = zone

    async def infer(self, conversation: ConversationId, told: Mapping[SlangId, str], call: CallContext) -> tuple[Inferred, ...]:
        """Infer what is due. ``told``: candidates that were confirmed just now, with their meaning. Raises DatabaseUnavailable.

        A model that is away costs nothing: the terms stay due. One that gives nothing usable makes them wait for the next
        threshold, so that a term no model can explain is not asked about for ever.
        """
        due, used = await self._due(conversation, told)
        asked = [Used(term.term, term.meaning or told.get(term.id, ""), used[term.id]) for term in due if used[term.id]]
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
        return tuple(_inferred(term, items, told.get(term.id, ""), used[term.id]) for term in due)

    async def _due(
        self, conversation: ConversationId, told: Mapping[SlangId, str]
    ) -> tuple[list[Mined], dict[SlangId, tuple[UseLine, ...]]]:
        """Read the terms that are due, and their newest uses with what stands around them."""
        async with self._database.connection() as conn:
            due = await slang_learning.due(conn, conversation, list(told), limit=AT_ONCE)
            needles = [(term.id, search_text(spelling)) for term in due for spelling in term.spellings]
            uses = await slang_learning.newest_uses(conn, conversation, needles, limit=LOOKED_AT) if due else []
            hits = {term.id: _standing(term, uses) for term in due}
            lines = await slang_lists.uses(conn, sorted({row for rows in hits.values() for row in rows})) if due else []
        return due, {row: _around(rows, lines) for row, rows in hits.items()}


def _standing(term: Mined, uses: Sequence[slang_learning.Use]) -> list[int]:
    """The newest messages in which a term stands as a word."""
    rows = [
        use.message for use in uses if use.slang_id == term.id and any(occurs(spelling, use.text) for spelling in term.spellings)
    ]
    return list(dict.fromkeys(rows))[:USES]


def _around(hits: Sequence[int], lines: Sequence[UseLine]) -> tuple[UseLine, ...]:
    """The lines of some hits, each once, in reading order; what is a hit itself is shown as one."""
    mine = [line for line in lines if line.hit in hits]
    best = {line.message: line for line in sorted(mine, key=lambda line: line.side == 0)}
    return tuple(sorted(best.values(), key=lambda line: line.pos))


def _inferred(term: Mined, items: Mapping[str, MeaningItem], told: str, lines: Sequence[UseLine]) -> Inferred:
    item = next((items[key] for key in map(term_key, term.spellings) if key in items), None)
    meaning = "" if item is None else read_meaning(item.meaning)
    if item is None or not meaning or not lines:
        return _given_up(term)
    old = term.meaning or told
    same = not old or content_key(meaning) == content_key(old)
    return Inferred(
        id=term.id,
        meaning=meaning,
        meaning_plain=read_meaning(item.meaning_without_context),
        confidence=item.confidence,
        change="" if same else read_meaning(item.change) or REWORDED,
        sources=tuple(line.message for line in lines),
    )


def _given_up(term: Mined) -> Inferred:
    return Inferred(term.id, "", "", 0.0, "", ())
