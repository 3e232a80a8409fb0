"""Public Chinese text for measuring recall: questions about sentences, chat lines, and how rankings are scored."""

from __future__ import annotations

import math
import os
import random
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, TypeAdapter

from settings import ROOT

READING = "cmrc2018_dev.json"
TALKS = ("LCCC-base_valid.json", "LCCC-base_test.json")
ASKED = 800
DEPTH = 10
_END = re.compile(r"(?<=[。！？；\n])")


@dataclass(frozen=True, slots=True)
class Question:
    """A question, and the numbers of the sentences that answer it."""

    text: str
    relevant: frozenset[int]


@dataclass(frozen=True, slots=True)
class ReadingSet:
    """Sentences, the questions that reference figures are for, and all others."""

    sentences: Sequence[str]
    asked: Sequence[Question]
    held: Sequence[Question]


@dataclass(frozen=True, slots=True)
class Scores:
    """Parts of the questions with an answer among the first 1, 5 and 10, and the mean nDCG of the first 10."""

    hit1: float
    hit5: float
    hit10: float
    ndcg: float


class _Answer(BaseModel):
    text: str


class _Asked(BaseModel):
    question: str
    answers: list[_Answer]


class _Paragraph(BaseModel):
    context: str
    qas: list[_Asked]


class _Article(BaseModel):
    paragraphs: list[_Paragraph]


class _Corpus(BaseModel):
    data: list[_Article]


def folder() -> Path:
    """Where the texts are looked for: RECALL_DATA, or beside the project."""
    return Path(os.environ.get("RECALL_DATA") or ROOT.parent / "shared" / "recall")


def absent() -> str:
    """Say in one line that there is nothing to measure with."""
    return f"没有测：{folder()} 里没有 {READING} 与 {'、'.join(TALKS)}（用 RECALL_DATA 指定文件夹）。"


def reading_set(*, small: bool = False) -> ReadingSet | None:
    """Cut CMRC's paragraphs into sentences and shuffle the questions that one answers; None: the file is absent."""
    path = folder() / READING
    if not path.exists():
        return None
    paragraphs = [
        paragraph for article in _Corpus.model_validate_json(path.read_bytes()).data for paragraph in article.paragraphs
    ]
    sentences: list[str] = []
    questions: list[Question] = []
    for paragraph in paragraphs[:60] if small else paragraphs:
        first = len(sentences)
        sentences += [sentence for part in _END.split(paragraph.context) if (sentence := part.strip())]
        own = list(enumerate(sentences[first:], first))
        questions += [question for asked in paragraph.qas if (question := _question(asked, own)).relevant]
    random.seed(0)
    random.shuffle(questions)
    return ReadingSet(sentences, questions[:ASKED], questions[ASKED:])


def _question(asked: _Asked, sentences: Sequence[tuple[int, str]]) -> Question:
    answers = {answer.text for answer in asked.answers}
    return Question(asked.question, frozenset(no for no, sentence in sentences if any(answer in sentence for answer in answers)))


def chat_pool(count: int) -> list[str] | None:
    """Draw that many different chat lines of 4 to 60 characters, always the same; None: the files are absent."""
    paths = [folder() / name for name in TALKS]
    if not all(path.exists() for path in paths):
        return None
    lines = sorted({line for path in paths for line in _lines(path) if 4 <= len(line) <= 60})
    return random.Random(0).sample(lines, min(count, len(lines)))


def _lines(path: Path) -> Iterator[str]:
    for talk in TypeAdapter(list[list[str]]).validate_json(path.read_bytes()):
        yield from ("".join(turn.split()) for turn in talk)


def score(rankings: Sequence[Sequence[int]], answers: Sequence[Collection[int]]) -> Scores:
    """Score one ranking a question, best first, against the numbers that answer it."""
    total = len(rankings)
    marks = [[no in right for no in ranking[:DEPTH]] for ranking, right in zip(rankings, answers, strict=True)]
    ndcg = sum(_gain(mark) / _gain([True] * min(DEPTH, len(right))) for mark, right in zip(marks, answers, strict=True))
    hit1, hit5, hit10 = (sum(any(mark[:depth]) for mark in marks) / total for depth in (1, 5, DEPTH))
    return Scores(hit1, hit5, hit10, ndcg / total)


def _gain(marks: Sequence[bool]) -> float:
    return sum(1 / math.log2(place + 2) for place, right in enumerate(marks) if right)
