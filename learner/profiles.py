"""The task ``profiles``: what is to be known of members, each trait from their own words, as a diff against what is known."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from db import evidence, slang_learning, trait_names, traits
from db.evidence import Cited
from db.history import Line
from db.learned_models import LearnTask, TraitId, TraitKind
from db.memory_models import Subject
from db.pool import Connection, Database
from db.traits import NewTrait, Trait, enough_evidence
from learner.fields import MOST_LABELS
from learner.own_names import own_names
from learner.profile_answers import MemberItem, ProfilesAnswer, TraitItem
from learner.profile_rules import alias_fits, read_content, settle_names, tags
from learner.sensitive import sensitive_area
from learner.task import Batch
from learner.transcript import instructions, transcript
from llm.hygiene import cut, one_line
from llm.lines import speaker
from llm.memory.merge import StructuredModels
from llm.types import CallContext, Prompt
from persona.loader import Personas
from settings import Settings

logger = logging.getLogger(__name__)

TASK = "member_profiles"
SIZE = 150
SHOWN_TRAITS = 20
"""Traits of one member that the model is shown."""
TRAIT_CHARS = 80
MOST_ADDED = 10
"""Traits that one batch adds to one member."""
KINDS: Mapping[TraitKind, str] = {"alias": "别名", "interest": "兴趣", "style": "说话", "relation": "关系", "fact": "情况"}


@dataclass(frozen=True, slots=True)
class Wanted:
    """A trait that a model found, fit in form. ``labels`` are messages of the member that may be evidence."""

    kind: TraitKind
    content: str
    sensitive: bool
    labels: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Diff:
    """What changes in one member's profile; ``drop`` are current traits that the model was shown."""

    user_id: int
    add: tuple[Wanted, ...]
    drop: tuple[Trait, ...]


class ProfilesTask:
    """Finds what changes in the profiles of those who speak in a batch."""

    name: LearnTask = "profiles"
    size = SIZE
    after: LearnTask | None = None
    needs_model = True

    def __init__(self, database: Database, models: StructuredModels, settings: Settings) -> None:
        self._database = database
        self._models = models
        self._settings = settings
        self._personas = Personas(settings.data_dir)

    async def infer(self, batch: Batch, call: CallContext) -> ProfileFindings:
        """Ask what is new about the people of a group who speak in a batch. Raises ModelError, DatabaseUnavailable."""
        people = _people(batch)
        known: list[Trait] = []
        if people:
            async with self._database.connection() as conn:
                may = await traits.learnable(conn, batch.conversation.id, list(people))
                people = {user: line for user, line in people.items() if user in may}
                known = await traits.current(conn, batch.conversation.id, list(people), each=SHOWN_TRAITS)
        known = [trait for trait in known if self._settings.profile_sensitive or not trait.sensitive]
        if not people:
            return ProfileFindings(batch, (), sensitive=self._settings.profile_sensitive)
        asked = f"{members_told(people, known)}\n\n聊天：\n{transcript(batch, self._settings.zone)}"
        prompt = [Prompt("system", instructions(TASK)), Prompt("user", asked)]
        answer = await self._models.structured(TASK, ProfilesAnswer, prompt, role="learner", context=call)
        diffs = [self._diff(batch, user, items, known) for user, items in _by_member(answer.members, people).items()]
        settled = await self._settled(batch, diffs)
        return ProfileFindings(batch, tuple(settled), sensitive=self._settings.profile_sensitive)

    def _diff(self, batch: Batch, user: int, items: Sequence[MemberItem], known: Sequence[Trait]) -> Diff:
        """Keep what is fit in form, trait by trait."""
        own = frozenset(line.pos for line in batch.lines if line.pos in batch.sources and line.sender_id == user)
        added = [item for member in items for item in member.add][:MOST_ADDED]
        wanted = [one for item in added if (one := self._wanted(item, own)) is not None]
        ids = {number for member in items for number in member.drop}
        drop = tuple(trait for trait in known if trait.user_id == user and trait.id in ids and not trait.locked)
        return Diff(user, tuple(wanted), drop)

    def _wanted(self, item: TraitItem, own: frozenset[int]) -> Wanted | None:
        content = read_content(item.kind, item.content)
        if content is None:
            return None
        labels = tuple(label for label in dict.fromkeys(item.evidence) if label in own)[:MOST_LABELS]
        sensitive = sensitive_area(content) is not None
        if len(labels) < enough_evidence(item.kind) or (sensitive and not self._settings.profile_sensitive):
            return None
        return Wanted(item.kind, content, sensitive, labels)

    async def _settled(self, batch: Batch, diffs: Sequence[Diff]) -> list[Diff]:
        """Resolve whom traits name, and leave out what names nobody for certain."""
        contents = [one.content for diff in diffs for one in diff.add]
        if not contents:
            return list(diffs)
        cited = [batch.rows[label] for diff in diffs for one in diff.add for label in one.labels]
        where = batch.conversation.id
        async with self._database.connection() as conn:
            named = await trait_names.named(conn, where, contents)
            numbered = await trait_names.numbered(conn, where, [no for content in contents for no in tags(content)])
            own = [*await trait_names.own(conn), *own_names(self._personas, self._settings, batch.conversation)]
            said = await slang_learning.texts(conn, cited)
        by_no = {item.no: item for item in numbered}
        settled: list[Diff] = []
        for diff in diffs:
            kept: list[Wanted] = []
            for one in diff.add:
                texts = [said[row] for label in one.labels if (row := batch.rows[label]) in said]
                if one.kind == "alias":
                    if alias_fits(one.content, diff.user_id, texts, named, own):
                        kept.append(one)
                elif (content := settle_names(one.kind, one.content, diff.user_id, named, by_no)) is not None:
                    kept.append(Wanted(one.kind, content, one.sensitive, one.labels))
            settled.append(Diff(diff.user_id, tuple(kept), diff.drop))
        return settled


def _people(batch: Batch) -> dict[int, Line]:
    """The latest source of each person, in the order in which they first speak; none outside of groups."""
    if batch.conversation.kind != "group":
        return {}
    return {line.sender_id: line for line in batch.lines if line.pos in batch.sources}


def _by_member(items: Iterable[MemberItem], people: Mapping[int, Line]) -> dict[int, list[MemberItem]]:
    """Put together what is said of each person of the batch, by QQ number or short number; of others, nothing."""
    by_no = {line.member_no: user for user, line in people.items() if line.member_no is not None}
    found: dict[int, list[MemberItem]] = {}
    for item in items:
        user = item.user_id if item.user_id in people else by_no.get(item.user_id)
        if user is not None:
            found.setdefault(user, []).append(item)
    return found


def members_told(people: Mapping[int, Line], known: Sequence[Trait]) -> str:
    """List the members with what is known of each, every trait with its number."""
    told = ["成员："]
    for user, line in people.items():
        told.append(f"{speaker(line)} = user_id {user}")
        told += [
            f"  {trait.id} {KINDS[trait.kind]}：{cut(one_line(trait.content), TRAIT_CHARS)}"
            for trait in known
            if trait.user_id == user
        ]
    return "\n".join(told)


@dataclass(frozen=True, slots=True)
class ProfileFindings:
    """Changes of profiles. ``sensitive``: whether the owner lets sensitive traits be known."""

    batch: Batch
    diffs: tuple[Diff, ...]
    sensitive: bool

    async def store(self, conn: Connection) -> Mapping[str, int]:
        """Write them, trait by trait, on evidence that still stands; counts ``traits`` and ``traits_dropped``.

        Must run inside a transaction.
        """
        where = self.batch.conversation.id
        labels = sorted({label for diff in self.diffs for one in diff.add for label in one.labels})
        if labels:
            await evidence.hold(conn, where, labels)
        users = [diff.user_id for diff in self.diffs]
        may = await traits.learnable(conn, where, users) if users else frozenset[int]()
        await traits.hold_members(conn, where, users)
        new = dropped = 0
        for diff in self.diffs:
            if diff.user_id in may:
                saved = [row for one in diff.add if (row := await self._save(conn, diff.user_id, one)) is not None]
                new += sum(is_new for _, is_new in saved)
                dropped += await self._drop(conn, diff, {row for row, _ in saved})
        if not self.sensitive:
            dropped += await traits.drop_sensitive(conn, where)
        counts = {"traits": new, "traits_dropped": dropped}
        return {name: count for name, count in counts.items() if count}

    async def _save(self, conn: Connection, user: int, one: Wanted) -> tuple[TraitId, bool] | None:
        """Write one trait; None: its evidence does not stand any more, or a person took it away earlier."""
        where = self.batch.conversation.id
        found = await evidence.check(conn, Cited(where, Subject("member", user), one.labels, self.batch.sources))
        if len(found.messages) < enough_evidence(one.kind) or await traits.refused(conn, where, user, one.content):
            logger.debug("会话 %s 的一点画像没有记：%s", where, found.refusal or "依据不够，或人删过")
            return None
        return await traits.save(conn, where, NewTrait(user, one.kind, one.content, one.sensitive, found.messages))

    async def _drop(self, conn: Connection, diff: Diff, saved: set[TraitId]) -> int:
        """Drop what no longer holds; what was just said again stays."""
        kinds = {one.kind for one in diff.add}
        where = self.batch.conversation.id
        gone = [trait for trait in diff.drop if trait.id not in saved]
        changed = [trait.id for trait in gone if trait.kind in kinds]
        contradicted = [trait.id for trait in gone if trait.kind not in kinds]
        return await traits.drop(conn, where, diff.user_id, changed, "changed") + await traits.drop(
            conn, where, diff.user_id, contradicted, "contradicted"
        )
