"""Asks a model how a new claim stands to the old ones that are close to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal, Protocol, TypeVar

from pydantic import BaseModel, Field

from db.memory_models import Memory
from llm.memory.claims import ClaimUnfit, read_claim
from llm.types import CallContext, ModelRole, Prompt

TASK = "memory_merge"
_PROMPTS = Path(__file__).resolve().parent / "prompts"
T = TypeVar("T", bound=BaseModel)

Verdict = Literal["new", "same", "refines", "supersedes", "contradicts"]


class MergeAnswer(BaseModel):
    """The model's answer. ``which`` counts the old memories from 1; 0: none."""

    relation: Verdict
    which: int = Field(ge=0)
    text: str = ""


@dataclass(frozen=True, slots=True)
class Decision:
    """What to do with a claim. ``target`` is None for a new one; ``content`` is what is written."""

    relation: Verdict
    content: str
    target: Memory | None = None


class StructuredModels(Protocol):
    """The models, as far as structured calls go."""

    async def structured(
        self, task: str, schema: type[T], prompt: Sequence[Prompt], *, role: ModelRole = "learner", context: CallContext
    ) -> T:
        """Ask for one instance of a schema. Raises ModelError."""
        ...


@cache
def instructions() -> str:
    """The task in words."""
    return (_PROMPTS / f"{TASK}.md").read_text(encoding="utf-8").strip()


def question(content: str, close: Sequence[Memory]) -> str:
    """Put the claim and the old memories on lines of their own: each is one line, so none can pass for another."""
    old = [f"{no}. {_line(memory.content)}（{memory.updated_at:%Y-%m-%d}）" for no, memory in enumerate(close, 1)]
    return "\n".join([f"新的说法：{_line(content)}", "旧记忆：", *old])


def _line(text: str) -> str:
    return " ".join(text.split())


async def judge(models: StructuredModels, content: str, close: Sequence[Memory], context: CallContext) -> Decision:
    """Decide how a claim stands to close memories of the same subject. Raises ModelError."""
    prompt = [Prompt("system", instructions()), Prompt("user", question(content, close))]
    answer = await models.structured(TASK, MergeAnswer, prompt, context=context)
    if answer.relation == "new" or not 1 <= answer.which <= len(close):
        return Decision("new", content)
    target = close[answer.which - 1]
    if answer.relation != "refines":
        return Decision(answer.relation, content, target)
    return Decision("refines", _merged(answer.text, content, about_bot=target.subject_kind == "bot"), target)


def _merged(text: str, content: str, *, about_bot: bool) -> str:
    """Take the merged text where it is a fit claim; else the new claim's own."""
    try:
        return read_claim(text, about_bot=about_bot)
    except ClaimUnfit:
        return content
