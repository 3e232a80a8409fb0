"""The records of memory and recall: frozen, plain, without behaviour beyond reading."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, NewType

from db.models import ConversationId, MessageRow, TurnId

MemoryId = NewType("MemoryId", int)

SubjectKind = Literal["member", "group", "bot"]
MemoryKind = Literal["fact", "preference", "constraint", "goal", "event"]
MemoryStatus = Literal["active", "archived"]
MemorySource = Literal["agent", "learner", "person", "import"]
ArchivedWhy = Literal["refined", "superseded", "withdrawn", "agent", "person"]
Relation = Literal["refines", "supersedes", "contradicts"]

MEMORY_KINDS: tuple[MemoryKind, ...] = ("fact", "preference", "constraint", "goal", "event")
CONTENT_CHARS = 500


@dataclass(frozen=True, slots=True)
class Subject:
    """Whom a claim is about. ``user_id`` is a member's QQ number, 0 for the group and the bot."""

    kind: SubjectKind
    user_id: int = 0


GROUP = Subject("group")
BOT = Subject("bot")


@dataclass(frozen=True, slots=True)
class Vector:
    """An embedding and the space it lives in. ``values`` has unit length."""

    space_id: int
    values: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Memory:
    """A memory's row, without its vector."""

    id: MemoryId
    conversation_id: ConversationId
    subject_kind: SubjectKind
    subject_id: int
    kind: MemoryKind
    content: str
    status: MemoryStatus
    archived_why: str | None
    archived_at: datetime | None
    locked: bool
    source: MemorySource
    turn_id: TurnId | None
    version: int
    uses: int
    used_at: datetime | None
    created_at: datetime
    updated_at: datetime

    @property
    def subject(self) -> Subject:
        """Whom it is about."""
        return Subject(self.subject_kind, self.subject_id)


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim on its way in: checked for form and evidence already."""

    conversation_id: ConversationId
    subject: Subject
    kind: MemoryKind
    content: str
    source: MemorySource
    evidence: tuple[MessageRow, ...] = ()
    turn_id: TurnId | None = None


@dataclass(frozen=True, slots=True)
class Scope:
    """Where recall looks: filters inside both legs. None means: any.

    ``conversation_ids`` holds one id, or several that the owner linked. Claims whose evidence was withdrawn are for the
    owner's eyes: they are left out, archived as they are, unless ``withdrawn`` is set.
    """

    conversation_ids: tuple[ConversationId, ...]
    subjects: tuple[Subject, ...] | None = None
    kinds: tuple[MemoryKind, ...] | None = None
    statuses: tuple[MemoryStatus, ...] = ("active",)
    withdrawn: bool = False


@dataclass(frozen=True, slots=True)
class Ask:
    """One question to recall: its words, and their vector where there is one."""

    text: str
    vector: Vector | None = None


@dataclass(frozen=True, slots=True)
class Recalled:
    """A memory that recall found. Ranks count from 1 and are the best over all asks; None: that leg did not find it."""

    memory: Memory
    score: float
    vector_rank: int | None
    text_rank: int | None


@dataclass(frozen=True, slots=True)
class Wish:
    """How recall chooses among what it found.

    ``prior``: freshness and use weigh in. ``each_first``: the subject ids of present members, each of whom gets one
    memory before anybody gets a second.
    """

    limit: int
    offset: int = 0
    prior: bool = True
    each_first: Sequence[int] = field(default_factory=tuple)
