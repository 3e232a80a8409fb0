"""What the slang task found in a batch, and how it is written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from db import evidence, slang, slang_counts, slang_findings, slang_learning
from db.evidence import MOST, Cited
from db.learned_models import SlangId
from db.memory_models import GROUP
from db.pool import Connection
from db.slang_findings import Found, Inferred
from learner.task import Batch


@dataclass(frozen=True, slots=True)
class Confirmed:
    """A term that a model confirmed; ``labels`` are the messages in which code saw it stand."""

    term: str
    key: str
    meaning: str
    meaning_plain: str
    confidence: float
    labels: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class SlangFindings:
    """Terms that were confirmed or not, and meanings that were inferred. ``text``: what was said in the batch by people."""

    batch: Batch
    text: str
    confirmed: tuple[Confirmed, ...]
    denied: tuple[SlangId, ...]
    inferred: tuple[Inferred, ...]
    zone: str
    auto_approve: bool

    async def store(self, conn: Connection) -> Mapping[str, int]:
        """Write it; gives counts of new terms (``slang``), meanings and approvals. Must run inside a transaction."""
        where = self.batch.conversation.id
        valid = await self._valid(conn)
        sources = [message for meaning in self.inferred for message in meaning.sources]
        standing = await slang_findings.standing(conn, sources) if sources else frozenset[int]()
        new, meanings = await self._store_terms(conn, valid)
        if self.denied:
            await slang_findings.deny(conn, self.denied)
        rows = await slang.spelled(conn, where, [meaning.key for meaning in self.inferred])
        for meaning in self.inferred:
            if meaning.key in rows and standing.issuperset(meaning.sources):
                meanings += await slang_findings.infer(conn, rows[meaning.key], meaning)
        approved = await slang_findings.approve_sure(conn, where) if self.auto_approve else 0
        counts = {"slang": new, "slang_meanings": meanings, "slang_approved": approved}
        return {name: count for name, count in counts.items() if count}

    async def _valid(self, conn: Connection) -> frozenset[int]:
        """The rows of cited messages that may be evidence now."""
        labels = sorted({label for item in self.confirmed for label in item.labels})
        found: set[int] = set()
        for start in range(0, len(labels), MOST):
            cited = Cited(self.batch.conversation.id, GROUP, tuple(labels[start : start + MOST]), self.batch.sources)
            found.update((await evidence.check(conn, cited)).messages)
        return frozenset(found)

    async def _store_terms(self, conn: Connection, valid: frozenset[int]) -> tuple[int, int]:
        """Write confirmed terms and count anew what the batch holds; gives how many terms are new, how many meanings written."""
        where = self.batch.conversation.id
        found = [term for item in self.confirmed if (term := self._found(item, valid)) is not None]
        keys = [term.key for term in found]
        known = await slang.spelled(conn, where, keys)
        new = await slang_findings.insert(conn, where, [term for term in found if term.key not in known])
        rows = await slang.spelled(conn, where, keys)
        standing = await slang_learning.standing_in(conn, where, self.text)
        meant = await slang.spelled(conn, where, [meaning.key for meaning in self.inferred])
        states = await slang_findings.hold(conn, sorted({*rows.values(), *standing, *meant.values()}))
        usable = {row for row, status in states.items() if status != "rejected"}
        told = _by_row([(rows[term.key], term) for term in found if rows.get(term.key) in usable])
        await slang_findings.support(conn, [(row, message) for row, term in told for message in term.evidence])
        await slang_counts.recount(conn, sorted(usable), zone=self.zone)
        return len(new), await slang_findings.confirm(conn, told)

    def _found(self, item: Confirmed, valid: frozenset[int]) -> Found | None:
        """A term with the evidence that stands; its meaning only where all of it does that the model saw."""
        cited = [self.batch.rows[label] for label in item.labels]
        kept = tuple(row for row in cited if row in valid)
        if not kept:
            return None
        whole = len(kept) == len(cited)
        return Found(
            item.term, item.key, item.meaning if whole else "", item.meaning_plain if whole else "", item.confidence, kept
        )


def _by_row(told: Sequence[tuple[SlangId, Found]]) -> list[tuple[SlangId, Found]]:
    """Put together what was said of one row under several spellings: the first meaning, all evidence."""
    merged: dict[SlangId, Found] = {}
    for row, term in told:
        first = merged.get(row)
        extra = () if first is None else tuple(message for message in term.evidence if message not in first.evidence)
        merged[row] = term if first is None else replace(first, evidence=first.evidence + extra)
    return list(merged.items())
