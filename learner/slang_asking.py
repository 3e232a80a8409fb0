"""What models are asked about slang, and the shape of their answers. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated
from zoneinfo import ZoneInfo

from pydantic import BaseModel, Field

from db.slang_learning import Mined
from db.slang_lists import UseLine
from learner.fields import EACH, Chinese, Confidence, Labels
from learner.task import Batch
from learner.transcript import instructions, transcript
from llm.hygiene import cut, one_line, plain_name
from llm.lines import day_clock, label
from llm.types import Prompt

CANDIDATES = "slang_candidates"
MEANING = "slang_meaning"
TERM_CHARS = 20
USE_CHARS = 100
OLD_CHARS = 120


class SlangItem(BaseModel):
    """One term that the model takes for slang."""

    term: str = Field(description="词，照原文写")
    meaning: Annotated[Chinese, Field(description="在这个群里的意思，一句中文", min_length=1)]
    meaning_without_context: Annotated[Chinese, Field(description="只看字面的意思，一句中文")] = ""
    confidence: Annotated[Confidence, Field(description="0 到 1")]
    evidence: Annotated[Labels, EACH, Field(description="有这个词的消息编号")]


class SlangAnswer(BaseModel):
    """The answer of ``slang_candidates``."""

    items: Annotated[list[SlangItem], EACH]


class MeaningItem(BaseModel):
    """What one term means, inferred anew."""

    term: str = Field(description="词，照抄")
    meaning: Annotated[Chinese, Field(description="在这个群里的意思，一句中文", min_length=1)]
    meaning_without_context: Annotated[Chinese, Field(description="只看字面的意思，一句中文")] = ""
    confidence: Annotated[Confidence, Field(description="0 到 1")]
    change: str = Field("", description="意思怎么变了；没变则空")


class MeaningAnswer(BaseModel):
    """The answer of ``slang_meaning``."""

    items: Annotated[list[MeaningItem], EACH]


@dataclass(frozen=True, slots=True)
class Used:
    """A term whose meaning is to be inferred: its present meaning, and how it is used, in reading order."""

    term: str
    meaning: str
    lines: tuple[UseLine, ...]


def candidates_prompt(batch: Batch, mined: Sequence[Mined], zone: ZoneInfo) -> list[Prompt]:
    """Ask which terms of a batch are slang."""
    listed = [f"- {one_line(term.term)}（{term.occurrences} 次，{term.speakers} 人）" for term in mined]
    asked = ["候选词：", *(listed or ["（没有，自己找）"]), "", "聊天：", transcript(batch, zone)]
    return [Prompt("system", instructions(CANDIDATES)), Prompt("user", "\n".join(asked))]


def meaning_prompt(terms: Sequence[Used], zone: ZoneInfo) -> list[Prompt]:
    """Ask what some terms mean."""
    return [Prompt("system", instructions(MEANING)), Prompt("user", "\n\n".join(_term(term, zone) for term in terms))]


def _term(term: Used, zone: ZoneInfo) -> str:
    old = cut(one_line(term.meaning), OLD_CHARS) or "（还没有）"
    return "\n".join([f"词：{one_line(term.term)}", f"原来的理解：{old}", "用法：", *(_use(line, zone) for line in term.lines)])


def _use(line: UseLine, zone: ZoneInfo) -> str:
    said = cut(one_line(line.text) or "(空)", USE_CHARS)
    indent = "" if line.side == 0 else "  "
    return f"{indent}{label(line.pos)} {day_clock(line.sent_at, zone)} {plain_name(line.sender_name)}: {said}"
