"""The task ``terms``: a group's new terms, by counting. No model, no token.

Counting looks at a window of the newest messages, not at the whole history, and not for every few new ones: a batch that
passes a mark mines the window, any other batch only counts anew the terms that it holds. The marks lie closer in a young
group. So 50 new messages cost a few milliseconds, and a mined message costs the same whether its group is old or young.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from db import slang, slang_counts, slang_findings, slang_mining
from db.learned_models import LearnTask, SlangId
from db.models import ConversationId
from db.pool import Connection, Database
from db.slang_mining import Heard, Term
from db.slang_terms import find_terms, term_key
from learner.mining.mine import Mined, mine
from learner.mining.names import name_keys
from learner.mining.score import Elsewhere
from learner.mining.surface import surface
from learner.mining.text import TEXT_CHARS, Said
from learner.others import Others
from learner.own_names import own_names
from learner.task import Batch
from llm.types import CallContext
from persona.loader import Personas
from settings import Settings

logger = logging.getLogger(__name__)

SIZE = 5_000
WINDOW = 20_000
"""Messages that one mining looks at."""
MARKS = ((200, 10), (1_000, 50), (4_000, 200), (20_000, 500))
"""Up to a position, every so many positions a mark; beyond, the last of them."""
EVIDENCE = 10
"""Messages that a mining cites for a term."""


class TermsTask:
    """Finds new terms in what a group says, and counts the known ones."""

    name: LearnTask = "terms"
    size = SIZE
    after: LearnTask | None = None
    needs_model = False

    def __init__(self, database: Database, settings: Settings) -> None:
        self._database = database
        self._settings = settings
        self._personas = Personas(settings.data_dir)
        self._others = Others(database)

    async def infer(self, batch: Batch, call: CallContext) -> TermFindings:
        """Mine where the batch passes a mark; else only see which known terms it holds. Raises DatabaseUnavailable."""
        where = batch.conversation.id
        zone = self._settings.timezone
        full = passes_mark(batch.from_pos, batch.upto)
        async with self._database.connection() as conn:
            limit = WINDOW if full else max(1, batch.upto - batch.from_pos)
            heard = await slang_mining.window(conn, where, batch.upto, limit=limit, chars=TEXT_CHARS, zone=zone)
            names = await slang_mining.names(conn, where) if full else []
            known = await slang_mining.spellings(conn, where)
        said = [Said(item.message, item.speaker, item.day, item.text) for item in heard]
        terms: Sequence[Term] = ()
        if full and said:
            elsewhere = await self._others.without(where)
            names += own_names(self._personas, self._settings, batch.conversation)
            keys = [term_key(text) for _, text in known]
            terms = await asyncio.to_thread(_mine, said, elsewhere, name_keys(names), keys)
        fresh = _fresh(batch, heard)
        used = await asyncio.to_thread(_used, known, fresh) if known and fresh else {}
        return TermFindings(where, zone, full, tuple(terms), used)


@dataclass(frozen=True, slots=True)
class TermFindings:
    """Terms, where the window was mined, and in which messages of the batch known terms stand."""

    conversation_id: ConversationId
    zone: str
    mined: bool
    terms: tuple[Term, ...]
    used: Mapping[SlangId, Sequence[int]]

    async def store(self, conn: Connection) -> Mapping[str, int]:
        """Write it; gives the count of new ``terms``. Must run inside a transaction."""
        cited = {message for term in self.terms for message in term.messages}
        cited.update(message for messages in self.used.values() for message in messages)
        standing = await slang_findings.standing(conn, sorted(cited)) if cited else frozenset[int]()
        new, rows = await self._store_terms(conn, standing)
        states = await slang_findings.hold(conn, sorted({*rows, *self.used}))
        support = {**dict.fromkeys(states, ()), **self.used}
        for row, term in rows.items():
            support[row] = (*support.get(row, ()), *term)
        pairs = [
            (row, message)
            for row, messages in support.items()
            if states.get(row, "rejected") != "rejected"
            for message in sorted({*messages} & standing)[-EVIDENCE:]
        ]
        if pairs:
            await slang_findings.support(conn, pairs)
        if states:
            await slang_counts.recount(conn, list(states), zone=self.zone)
        if self.mined:
            await slang_mining.fade(conn, self.conversation_id, list(rows))
            await slang_mining.prune(conn, self.conversation_id)
        return {"terms": new} if new else {}

    async def _store_terms(self, conn: Connection, standing: frozenset[int]) -> tuple[int, dict[SlangId, tuple[int, ...]]]:
        """Write the mined terms that still have evidence; gives how many are new, and the evidence of each row."""
        terms = [term for term in self.terms if standing.intersection(term.messages)]
        if not terms:
            return 0, {}
        where = self.conversation_id
        keys = [key for term in terms for key in _keys(term)]
        known = await slang.spelled(conn, where, keys)
        unknown = [term for term in terms if not any(key in known for key in _keys(term))]
        new = await slang_mining.insert(conn, where, unknown)
        known = await slang.spelled(conn, where, keys)
        placed = [(row, term) for term in terms if (row := _row(term, known)) is not None]
        await slang_findings.hold(conn, sorted({*(row for row, _ in placed), *self.used}))
        await slang_mining.spell(conn, where, [(row, key, text) for row, term in placed for text, key in term.variants])
        await slang_mining.rate(conn, [(row, term.score) for row, term in placed])
        evidence: dict[SlangId, tuple[int, ...]] = {}
        for row, term in placed:
            evidence[row] = (*evidence.get(row, ()), *term.messages)
        return len(new), evidence


def passes_mark(from_pos: int, upto: int) -> bool:
    """Tell whether a mark lies beyond one position and up to another."""
    step = next((step for most, step in MARKS if upto <= most), MARKS[-1][1])
    return from_pos // step < upto // step


def _keys(term: Term) -> list[str]:
    return [term.key, *(key for _, key in term.variants)]


def _row(term: Term, known: Mapping[str, SlangId]) -> SlangId | None:
    return next((known[key] for key in _keys(term) if key in known), None)


def _mine(said: Sequence[Said], elsewhere: Elsewhere, names: frozenset[str], known: Sequence[str]) -> list[Term]:
    texts = {item.message: item.text for item in said}
    return [_term(found, texts) for found in mine(said, elsewhere=elsewhere, names=names, known=known)]


def _term(found: Mined, texts: Mapping[int, str]) -> Term:
    said = [texts[message] for message in found.messages]
    variants = [surface(text, said) for text in found.variants]
    return Term(
        surface(found.term, said),
        term_key(found.term),
        tuple((text, term_key(text)) for text in variants),
        round(found.score, 4),
        found.messages,
    )


def _fresh(batch: Batch, heard: Sequence[Heard]) -> list[Heard]:
    rows = {batch.rows[label] for label in batch.sources if label in batch.rows}
    return [item for item in heard if item.message in rows]


def _used(known: Sequence[tuple[SlangId, str]], fresh: Sequence[Heard]) -> dict[SlangId, list[int]]:
    """In which messages which terms stand. A first look at all of them together spares most."""
    whole = term_key("\n".join(item.text for item in fresh))
    here = [(row, text) for row, text in known if term_key(text) in whole]
    rows: dict[str, list[SlangId]] = {}
    for row, text in here:
        rows.setdefault(text, []).append(row)
    used: dict[SlangId, list[int]] = {}
    for item in fresh:
        for text in find_terms(list(rows), item.text):
            for row in rows[text]:
                used.setdefault(row, []).append(item.message)
    return used
