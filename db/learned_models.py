"""The records of what the learner finds: frozen, plain, without behaviour beyond reading."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal, NewType

SlangId = NewType("SlangId", int)
ExpressionId = NewType("ExpressionId", int)
TraitId = NewType("TraitId", int)
TopicId = NewType("TopicId", int)
AuditId = NewType("AuditId", int)

LearnTask = Literal["terms", "topics", "memories", "slang", "expressions", "profiles"]
LEARN_TASKS: tuple[LearnTask, ...] = ("terms", "topics", "memories", "slang", "expressions", "profiles")
"""In the order in which one run works: memories are distilled from topics, slang looks at the mined terms."""

ReviewStatus = Literal["candidate", "approved", "rejected"]
"""Of slang and expressions."""
TraitKind = Literal["alias", "interest", "style", "relation", "fact"]
TRAIT_KINDS: tuple[TraitKind, ...] = ("alias", "interest", "style", "relation", "fact")
TargetKind = Literal["slang", "expression", "trait", "memory", "conversation"]


@dataclass(frozen=True, slots=True)
class KnownSlang:
    """An approved term that a prompt may show."""

    id: SlangId
    term: str
    meaning: str


@dataclass(frozen=True, slots=True)
class KnownExpression:
    """An approved expression that a prompt may show."""

    id: ExpressionId
    situation: str
    phrase: str


@dataclass(frozen=True, slots=True)
class KnownTopic:
    """A topic with its current summary, as a prompt may show it."""

    id: TopicId
    title: str
    gist: str
    participants: tuple[int, ...]
    open_loops: tuple[str, ...]
    last_at: datetime


@dataclass(frozen=True, slots=True)
class KnownTrait:
    """A trait of a member who is in the group, as a prompt may show it. ``no`` and ``name`` are the member's."""

    id: TraitId
    user_id: int
    kind: TraitKind
    content: str
    no: int
    name: str


@dataclass(frozen=True, slots=True)
class Learned:
    """What was learned and fits one snapshot, most fitting first."""

    slang: tuple[KnownSlang, ...] = ()
    expressions: tuple[KnownExpression, ...] = ()
    topics: tuple[KnownTopic, ...] = ()
    traits: tuple[KnownTrait, ...] = ()


@dataclass(frozen=True, slots=True)
class Target:
    """The row that an act of moderation was about."""

    kind: TargetKind
    id: int
