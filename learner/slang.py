"""The task ``slang``: a model sees the mined terms in their context, confirms, adds and explains; code believes nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from db import slang_learning
from db.learned_models import LearnTask
from db.pool import Database
from db.slang_learning import Mined
from db.slang_terms import occurs, term_key
from learner.fields import MOST_LABELS
from learner.own_names import own_names
from learner.slang_asking import CANDIDATES, SlangAnswer, SlangItem, candidates_prompt
from learner.slang_findings import Confirmed, SlangFindings
from learner.slang_meanings import MeaningKeeper
from learner.slang_rules import is_number, name_keys, read_meaning, read_term
from learner.task import Batch
from llm.memory.merge import StructuredModels
from llm.types import CallContext
from persona.loader import Personas
from settings import Settings

SIZE = 100
SHOWN_TERMS = 25
MOST_ITEMS = 30


class SlangTask:
    """Finds slang in batches of messages, and infers again what candidates mean when they are used more."""

    name: LearnTask = "slang"
    size = SIZE
    after: LearnTask | None = "terms"
    needs_model = True

    def __init__(self, database: Database, models: StructuredModels, settings: Settings) -> None:
        self._database = database
        self._models = models
        self._settings = settings
        self._personas = Personas(settings.data_dir)
        self._meanings = MeaningKeeper(database, models, settings.zone)

    async def infer(self, batch: Batch, call: CallContext) -> SlangFindings:
        """Ask which terms of a batch are slang, and what those mean that are due. Raises ModelError, DatabaseUnavailable."""
        said = await self._said(batch)
        mined = await self._mined(batch, said) if said else []
        confirmed: list[Confirmed] = []
        denied: list[Mined] = []
        if said:
            shown = mined[:SHOWN_TERMS]
            prompt = candidates_prompt(batch, shown, self._settings.zone)
            answer = await self._models.structured(CANDIDATES, SlangAnswer, prompt, context=call)
            returned = {term_key(item.term) for item in answer.items}
            denied = [term for term in shown if returned.isdisjoint(map(term_key, term.spellings))]
            confirmed = await self._without_names(batch, read_items(answer.items, said, mined))
        meant = await self._meanings.infer(batch.conversation.id, mined, confirmed, call)
        return SlangFindings(
            batch=batch,
            text="\n".join(said.values()),
            confirmed=tuple(confirmed),
            denied=tuple(term.id for term in denied),
            inferred=meant,
            zone=self._settings.timezone,
            auto_approve=self._settings.slang_auto_approve,
        )

    async def _said(self, batch: Batch) -> dict[int, str]:
        """What was said in the messages that may be evidence, by label."""
        rows = {batch.rows[label]: label for label in batch.sources if label in batch.rows}
        async with self._database.connection() as conn:
            texts = await slang_learning.texts(conn, list(rows))
        return {label: texts[row] for row, label in rows.items() if row in texts}

    async def _mined(self, batch: Batch, said: Mapping[int, str]) -> list[Mined]:
        """The candidates that stand in what was said, as words."""
        text = "\n".join(said.values())
        async with self._database.connection() as conn:
            narrowed = await slang_learning.candidates_in(conn, batch.conversation.id, text)
        return [term for term in narrowed if any(occurs(spelling, text) for spelling in term.spellings)]

    async def _without_names(self, batch: Batch, found: Sequence[Confirmed]) -> list[Confirmed]:
        """Leave out what is the name of a member or of the bot."""
        if not found:
            return []
        async with self._database.connection() as conn:
            names = await slang_learning.names_like(conn, batch.conversation.id, [item.term for item in found])
        taken = name_keys([*names, *own_names(self._personas, self._settings, batch.conversation)])
        return [item for item in found if item.key not in taken]


def read_items(items: Sequence[SlangItem], said: Mapping[int, str], mined: Sequence[Mined]) -> list[Confirmed]:
    """Keep what is a term and stands letter for letter in messages that may be evidence; other labels are dropped."""
    numbers = {term_key(spelling) for term in mined for spelling in term.spellings}
    found: dict[str, Confirmed] = {}
    for item in items[:MOST_ITEMS]:
        term, meaning = read_term(item.term), read_meaning(item.meaning)
        if term is None or not meaning:
            continue
        key = term_key(term)
        labels = [label for label in dict.fromkeys(item.evidence) if occurs(term, said.get(label, ""))][:MOST_LABELS]
        if not labels or key in found or (is_number(key) and key not in numbers):
            continue
        plain = read_meaning(item.meaning_without_context)
        found[key] = Confirmed(term, key, meaning, plain, item.confidence, tuple(labels))
    return list(found.values())
