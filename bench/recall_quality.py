"""How much of what was asked for recall finds: questions about Chinese sentences, each way of looking alone and fused."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from rich.console import Console
from rich.progress import Progress

from bench.recall_data import ASKED, DEPTH, Question, ReadingSet, Scores, absent, reading_set, score
from bench.recall_rows import Rows, stored
from bench.recall_vectors import embedded, query_vectors
from bench.report import Section, table, verdict
from db.fusion import PER_LEG, Place, fuse
from db.memory_models import Vector
from llm.embedding.local import E5, USE, Engine
from llm.errors import EmbeddingUnavailable

RAW_THRESHOLDS = (0.6, 0.15)
LEAST = (0.874, 0.782)
AIM = (0.90, 0.81)
NAMES = {E5: "e5", USE: "USE"}
TITLE = "召回：找得准不准"
_OURS_TEXT = "我们的文字一路"
_FUSED = "融合（文字 + e5），用户得到的"
_TRIED = """试过、没有留下的，在同样的句子上用 numpy 另算（各在 800 个问题上的差）：e5 的向量减去均值（nDCG −0.008 到 −0.011）
或白化（−0.02 到 −0.04）；问题也用 passage 前缀（−0.036）；用找到的前几句修正问题的向量（hit@5 −0.002 到 −0.009）；
只用结巴的词代替两字词（−0.009），加在旁边（+0.003）；加三字词（−0.003）；BM25 的词频饱和与长度（−0.014 到 −0.034）；
词挨得近加分（−0.001 到 0）；RRF 的 K 取 5、10、20（+0.001 到 +0.003）；每路 50 条（+0.002）；
问“几、多少、哪年”时给带数字的句子加分（+0.001）；e5 与 USE 一起（+0.001，要算两次向量）。
只按分数融合，不看名次（比现在的三种名次 nDCG +0.003，hit@5 −0.005）。
把以上全部交给一个在其余问题上训练的模型来排，也只有 hit@5 0.894、nDCG 0.815：再往上要靠更好的向量模型。"""


@dataclass(frozen=True, slots=True)
class Line:
    """One way of looking: on the questions of the reference figures, and on all others."""

    label: str
    asked: Scores
    held: Scores | None = None


async def run(*, small: bool) -> Section:
    """Store the sentences as memories and ask every question in every way."""
    reading = reading_set(small=small)
    if reading is None:
        return Section("recall-quality", TITLE, absent())
    async with stored(reading.sentences) as rows:
        with Progress(console=Console(stderr=True), disable=not sys.stderr.isatty(), transient=True) as progress:
            return Section("recall-quality", TITLE, _told(reading, await _lines(reading, rows, _Bars(progress))))


@dataclass(frozen=True, slots=True)
class _Bars:
    progress: Progress

    def bar(self, label: str, total: int) -> Callable[[int], None]:
        """Add a bar; what it returns moves it."""
        task = self.progress.add_task(label, total=total)

        def tell(done: int) -> None:
            self.progress.update(task, completed=min(done, total))

        return tell


async def _lines(reading: ReadingSet, rows: Rows, bars: _Bars) -> list[Line]:
    lines: list[Line] = []
    raw: list[list[int]] = []
    for threshold in RAW_THRESHOLDS:
        tell = bars.bar(f"pg_trgm，门槛 {threshold}", len(reading.asked))
        raw = []
        for done, question in enumerate(reading.asked, 1):
            raw.append(await rows.raw(question.text, threshold, PER_LEG))
            tell(done)
        lines.append(Line(f"原样的文字，pg_trgm，门槛 {threshold}", _score(raw, reading.asked)))
    lines.append(
        Line(
            _OURS_TEXT,
            _score(await _ask(rows, reading.asked), reading.asked),
            _held(await _ask(rows, reading.held), reading.held),
        )
    )
    for engine in NAMES:
        lines += await _with_vectors(reading, rows, bars, engine, raw)
    return lines


async def _with_vectors(reading: ReadingSet, rows: Rows, bars: _Bars, engine: Engine, raw: Sequence[Sequence[int]]) -> list[Line]:
    """Look by one model alone, beside raw text, and beside our text; nothing where the model cannot be loaded."""
    name = NAMES[engine]
    try:
        async with embedded(rows, engine, bars.bar(f"{name} 的向量", len(rows.ids))) as embeddings:
            asked = await query_vectors(embeddings, [question.text for question in reading.asked])
            held = await query_vectors(embeddings, [question.text for question in reading.held])
    except EmbeddingUnavailable as error:
        print(f"没有测 {name}：{error}", file=sys.stderr)
        return []
    alone = [await rows.ours("", vector, PER_LEG) for vector in asked]
    alone_held = [await rows.ours("", vector, DEPTH) for vector in held]
    plain = [_fused(words, near) for words, near in zip(raw, alone, strict=True)]
    label = _FUSED if engine is E5 else f"融合（文字 + {name}）"
    return [
        Line(f"{name} 的向量", _score(alone, reading.asked), _held(alone_held, reading.held)),
        Line(f"朴素做法：{name} + 原样的文字（门槛 {RAW_THRESHOLDS[-1]}），RRF", _score(plain, reading.asked)),
        Line(
            label,
            _score(await _ask(rows, reading.asked, asked), reading.asked),
            _held(await _ask(rows, reading.held, held), reading.held),
        ),
    ]


async def _ask(rows: Rows, questions: Sequence[Question], vectors: Sequence[Vector] = ()) -> list[list[int]]:
    """Ask with words and vectors; without vectors, with words only."""
    return [await rows.ours(question.text, vector, DEPTH) for question, vector in zip_longest(questions, vectors)]


def _fused(text: Sequence[int], near: Sequence[int]) -> list[int]:
    return [one.row for one in fuse(_places(text), _places(near))]


def _places(ranking: Sequence[int]) -> list[Place]:
    return [Place(row, rank) for rank, row in enumerate(ranking, 1)]


def _score(rankings: Sequence[Sequence[int]], questions: Sequence[Question]) -> Scores:
    return score(rankings, [question.relevant for question in questions])


def _held(rankings: Sequence[Sequence[int]], questions: Sequence[Question]) -> Scores | None:
    return _score(rankings, questions) if questions else None


def _told(reading: ReadingSet, lines: Sequence[Line]) -> str:
    parts = [
        f"CMRC 2018 的 {len(reading.sentences):,} 句各存成一条记忆，在一个群里，"
        f"经 `db.recall.recall` 问 {len(reading.asked)} 个问题（seed 0 打乱的前 {ASKED} 个，与参考数字是同一份）。"
        "相关的是本段里含有答案的句子。不算新旧与使用的加权。"
        f"“其余的”是另外 {len(reading.held):,} 个问题：权重不是按它们挑的，但挑的时候看得到它们的结果。",
        table(
            ["", "hit@1", "hit@5", "hit@10", "nDCG@10", "其余的 hit@5", "其余的 nDCG@10"],
            [[line.label, *_numbers(line.asked), *_held_numbers(line.held)] for line in lines],
        ),
    ]
    fused = [line.asked for line in lines if line.label == _FUSED]
    if fused:
        parts.append(f"至少 {_both(LEAST)}：{_reached(fused[0], LEAST)}。目标 {_both(AIM)}：{_reached(fused[0], AIM)}。")
    return "\n\n".join([*parts, _TRIED])


def _numbers(scores: Scores) -> list[str]:
    return [f"{value:.3f}" for value in (scores.hit1, scores.hit5, scores.hit10, scores.ndcg)]


def _held_numbers(scores: Scores | None) -> list[str]:
    return ["", ""] if scores is None else [f"{scores.hit5:.3f}", f"{scores.ndcg:.3f}"]


def _both(aim: tuple[float, float]) -> str:
    return f"hit@5 {aim[0]:.3f} 与 nDCG@10 {aim[1]:.3f}"


def _reached(scores: Scores, aim: tuple[float, float]) -> str:
    return verdict(scores.hit5 >= aim[0] and scores.ndcg >= aim[1])
