"""What models answer about topics, and how that is read: ids are checked and mended, never trusted. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, TypeAlias

from pydantic import AfterValidator, BaseModel, BeforeValidator, Field

from db.history import Line
from db.learned_models import TopicId
from learner.fields import EACH, Chinese, Label
from llm.hygiene import one_line

MOST_NEW = 10
"""New topics of one batch."""
TITLE_CHARS = 40
GIST_CHARS = 300
LOOPS, LOOP_CHARS = 5, 60
KEYWORDS, KEYWORD_CHARS = 8, 20
_NONE = "0"
_REF = re.compile(r"(T|N|新|话题)?\s*(\d{1,4})", re.IGNORECASE)


def _ref(value: object) -> object:
    """Read how a topic is named: ``T1``, ``t 1``, ``话题1`` and 1 are a known one, ``N1`` and ``新1`` a new one."""
    if value is None or value == "":
        return _NONE
    text = str(value).strip() if isinstance(value, str | int) else value
    if not isinstance(text, str) or (match := _REF.fullmatch(text)) is None:
        return value
    number = int(match[2])
    new = (match[1] or "").upper() in {"N", "新"}
    return f"{'N' if new else 'T'}{number}" if number else _NONE


def _texts(value: object) -> object:
    """Read one text, or nothing, as a list."""
    if value is None:
        return []
    return [value] if isinstance(value, str) else value


def _filled(value: str) -> str:
    if not any(char.isalnum() for char in value):
        raise ValueError("不能是空的")
    return value


Ref: TypeAlias = Annotated[str, BeforeValidator(_ref)]
OneLine: TypeAlias = Annotated[str, AfterValidator(one_line)]
Texts: TypeAlias = Annotated[list[OneLine], EACH, BeforeValidator(_texts)]


class Assignment(BaseModel):
    """Where one message belongs."""

    message: Label = Field(description="消息编号")
    topic: Ref = Field(description="T1 等已有的话题，N1 等新话题，0 不属于话题")


class AssignmentAnswer(BaseModel):
    """The answer of ``topic_assignment``."""

    assignments: Annotated[list[Assignment], EACH] = Field(description="要分的消息，每条一项")


class SummaryItem(BaseModel):
    """The summary of one topic."""

    topic: Ref = Field(description="话题编号，如 T1")
    title: Annotated[OneLine, AfterValidator(_filled)] = Field(description="说的是什么事")
    gist: Annotated[Chinese, AfterValidator(one_line), AfterValidator(_filled)] = Field(description="谁说了什么、结果怎样")
    open_loops: Texts = Field(default_factory=list, description="还没说完的事")
    keywords: Texts = Field(default_factory=list, description="找它的词")


class SummaryAnswer(BaseModel):
    """The answer of ``topic_summary``."""

    topics: Annotated[list[SummaryItem], EACH] = Field(description="每个话题一项")


@dataclass(frozen=True, slots=True)
class SummaryText:
    """A summary in words: one line each, bounded."""

    title: str
    gist: str
    open_loops: tuple[str, ...]
    keywords: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Placed:
    """Where the messages of a batch belong (positions): in topics that are there, and in new ones."""

    known: Mapping[TopicId, tuple[int, ...]]
    new: tuple[tuple[int, ...], ...]


def place(answer: AssignmentAnswer, lines: Sequence[Line], known: Sequence[TopicId], earlier: Mapping[int, TopicId]) -> Placed:
    """Put each message into one topic at most.

    ``lines`` are those to be placed, in reading order; ``known`` the topics shown as T1, T2, …; ``earlier`` the topics of
    messages from before, by position. Of two answers the first counts. A message without a valid one goes where the
    message went that it replies to, else nowhere.
    """
    refs = {f"T{number}": topic for number, topic in enumerate(known, 1)}
    back = {topic: ref for ref, topic in refs.items()}
    wanted = {line.pos for line in lines}
    given: dict[int, str] = {}
    for item in answer.assignments:
        if item.message in wanted and _valid(item.topic, refs):
            given.setdefault(item.message, item.topic)
    chosen: dict[int, str] = {}
    for line in lines:
        ref = given.get(line.pos)
        if ref is None and line.quoted_pos is not None:
            ref = chosen.get(line.quoted_pos) or given.get(line.quoted_pos)
            ref = ref or back.get(earlier.get(line.quoted_pos, TopicId(0)))
        chosen[line.pos] = ref or _NONE
    return _grouped(chosen, refs)


def _valid(ref: str, refs: Collection[str]) -> bool:
    return ref == _NONE or ref in refs or re.fullmatch(r"N\d+", ref) is not None


def _grouped(chosen: Mapping[int, str], refs: Mapping[str, TopicId]) -> Placed:
    groups: dict[str, list[int]] = {}
    for pos, ref in chosen.items():
        if ref != _NONE:
            groups.setdefault(ref, []).append(pos)
    known = {refs[ref]: tuple(positions) for ref, positions in groups.items() if ref in refs}
    new = [tuple(positions) for ref, positions in groups.items() if ref not in refs]
    return Placed(known, tuple(new[:MOST_NEW]))


def summaries(answer: SummaryAnswer, asked: int) -> dict[int, SummaryText]:
    """Read the summaries of T1, T2, … by number; of two for one topic the first counts, others are left out."""
    found: dict[int, SummaryText] = {}
    for item in answer.topics:
        number = int(item.topic[1:] or 0) if re.fullmatch(r"T\d+", item.topic) else 0
        if 1 <= number <= asked:
            found.setdefault(number, _summary(item))
    return found


def _summary(item: SummaryItem) -> SummaryText:
    return SummaryText(
        title=item.title[:TITLE_CHARS],
        gist=item.gist[:GIST_CHARS],
        open_loops=_bounded(item.open_loops, LOOPS, LOOP_CHARS),
        keywords=_bounded(item.keywords, KEYWORDS, KEYWORD_CHARS),
    )


def _bounded(texts: Iterable[str], most: int, chars: int) -> tuple[str, ...]:
    return tuple(dict.fromkeys(text[:chars] for text in texts if any(char.isalnum() for char in text)))[:most]
