"""What the miner finds of slang that was planted, at each depth of review, against counting the words jieba does not know."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import rjieba

from bench.data import talk
from bench.data.chat import Lines, chat_lines
from bench.data.history import PLANTED, History, make_history
from bench.mining_rows import candidates, fresh_server, miner, opened, reject, store
from bench.report import Section, median, table, verdict
from db.pool import Database
from db.slang_terms import term_key

TITLE = "学习：黑话，找得准不准"
TUNED_ON = (1, 2, 3)
SEEDS = (11, 12, 13, 14, 15)
"""Held out: the weights were set on TUNED_ON."""
DEPTHS = (10, 20, 50, 100, 200)
RECALL, PRECISION = 0.9, 0.6
AT = 100


@dataclass(frozen=True, slots=True)
class Found:
    """One ranking: for each place, whether it is a planted term that did not come before; the kinds of wrong ones."""

    hits: tuple[bool, ...]
    decoys: int
    rejected: int

    def precision(self, depth: int) -> float:
        """The share of planted terms among the first."""
        looked = self.hits[:depth]
        return sum(looked) / len(looked) if looked else 0.0

    def recall(self, depth: int) -> float:
        """The share of the planted terms that are among the first."""
        return sum(self.hits[:depth]) / PLANTED


async def run(*, small: bool) -> Section:
    """Mine five histories that the weights were not set on, of made-up talk and of real talk, with and without other groups."""
    real = chat_lines()
    parts: list[str] = []
    for label, line in (("造的闲话", talk.line), ("真实聊天里的句子", _lines(real))):
        seeds = SEEDS[:1] if small else SEEDS
        histories = [make_history(seed, line=line) for seed in seeds]
        mined = [await _mined(history, others=True) for history in histories]
        alone = [await _mined(history, others=False) for history in histories]
        plain = [judge(history, unknown_words(history)) for history in histories]
        parts.append(_told(label, mined, alone, plain))
    return Section("mining-quality", TITLE, "\n\n".join([_intro(real), *parts]))


def _lines(lines: Lines) -> Callable[[random.Random], str]:
    return lambda rng: rng.choice(lines.texts)


async def _mined(history: History, *, others: bool) -> Found:
    """Store a history, let the learner mine it, and read the candidates as a moderator does."""
    async with fresh_server() as url, opened(url) as database:
        return judge(history, await _candidates(database, history, others=others))


async def _candidates(database: Database, history: History, *, others: bool) -> list[list[str]]:
    async with database.transaction() as conn:
        conversation = await store(conn, 0, history.people, history.messages)
        await reject(conn, conversation, history.rejected.spellings[0])
        for number, messages in enumerate(history.others if others else (), 1):
            people = tuple({sent.person.user_id: sent.person for sent in messages}.values())
            await store(conn, number, people, messages)
    learner = miner(database)
    await learner.run(conversation)
    await learner.aclose()
    async with database.connection() as conn:
        return await candidates(conn, conversation)


def unknown_words(history: History) -> list[list[str]]:
    """The plain way: the words that jieba cuts out but does not know, by how often they come."""
    counts: Counter[str] = Counter()
    for sent in history.messages:
        words: list[str] = rjieba.cut(sent.text)
        counts.update(word for word in words if len(word) > 1 and word.isalnum() and not rjieba.has_word(word))
    return [[term_key(word)] for word, _ in counts.most_common(max(DEPTHS))]


def judge(history: History, ranked: Sequence[Sequence[str]]) -> Found:
    """Mark each place: a spelling of a term that was found before is wrong too."""
    owners = {term_key(spelling): number for number, item in enumerate(history.planted) for spelling in item.spellings}
    decoys = {term_key(name) for name in history.decoys}
    gone = {term_key(spelling) for spelling in history.rejected.spellings}
    met: set[int] = set()
    hits: list[bool] = []
    for keys in ranked:
        new = {owners[key] for key in keys if key in owners} - met
        met |= new
        hits.append(bool(new))
    first = ranked[:AT]
    return Found(
        tuple(hits),
        sum(not decoys.isdisjoint(keys) for keys in first),
        sum(not gone.isdisjoint(keys) for keys in ranked),
    )


def _intro(real: Lines) -> str:
    return (
        "每次造一个群的一个月：20,000 条，30 人，60 个埋进去的词（各种写法，3 到 200 次），"
        "60 个像黑话而不是的（突然都在说的词、成员和外人的名字、"
        "游戏名、一个人的口头禅、复制的广告），一个被拒绝过又不断出现的词；旁边还有 8 个群，三成埋下的词别的群也用。"
        "存进真的数据库，由学习引擎跑 `terms` 这个任务，按分数从高到低看候选。朴素做法：结巴切出来而词典里没有的词，按次数。\n\n"
        f"五个种子（{SEEDS[0]} 到 {SEEDS[-1]}）都没有用来定权重（用的是 1 到 3）；"
        "写的是中位数，括号里是最低和最高。候选到不了那么深时按有的算。\n\n"
        f"“真实聊天里的句子”一节的闲话：{real.source}其中也有真的网络用语，没有算作对的。"
    )


def _told(label: str, mined: Sequence[Found], alone: Sequence[Found], plain: Sequence[Found]) -> str:
    head = ["看到第几个", "精确率", "召回率", "没有别的群：精确率", "召回率", "朴素做法：精确率", "召回率"]
    rows = [
        [
            str(depth),
            *(_spread([measure(found, depth) for found in way]) for way in (mined, alone, plain) for measure in _MEASURES),
        ]
        for depth in DEPTHS
    ]
    recall = median([found.recall(AT) for found in mined])
    precision = median([found.precision(AT) for found in mined])
    counts = _spread([len(found.hits) for found in mined], digits=0)
    decoys = _spread([found.decoys for found in mined], digits=0)
    return (
        f"### {label}\n\n{table(head, rows)}\n\n"
        f"目标，前 {AT} 个里召回率 ≥ {RECALL}：{verdict(recall >= RECALL)}（{recall:.2f}）；"
        f"精确率 ≥ {PRECISION}：{verdict(precision >= PRECISION)}（{precision:.2f}）。"
        f"一共 {counts} 个候选；前 {AT} 个里有 {decoys} 个是那 60 个像而不是的；"
        f"被拒绝的词回到候选里的：{sum(found.rejected for found in mined)} 次。"
    )


_MEASURES = (Found.precision, Found.recall)


def _spread(values: Sequence[float], *, digits: int = 2) -> str:
    return f"{median(values):.{digits}f}（{min(values):.{digits}f}–{max(values):.{digits}f}）"
