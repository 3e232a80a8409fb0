"""Short questions, as people type them: a word, a name, a version, a date, in lines of a chat where it is known to stand."""

from __future__ import annotations

import random
import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import rjieba
from rich.console import Console
from rich.progress import Progress

from bench.recall_data import absent, chat_pool, score
from bench.recall_rows import Rows, stored
from bench.recall_vectors import embedded, query_vectors
from bench.report import Section, table, verdict
from db.memory_models import Vector
from llm.embedding.local import E5
from llm.errors import EmbeddingUnavailable

POOL = 10_000
WORDS, LATIN = 170, 30
EACH = 10
FEW = 5
"""A word stands in at most so many lines: a list of five can hold them all."""
RAW_THRESHOLD = 0.6
AIM, RAW_AIM = 0.95, 0.5
TITLE = "召回：短问题"

_WORD = re.compile(r"[\u4e00-\u9fff]{2,4}")
_LATIN = re.compile(r"[a-z0-9]{2,12}")
_FRAMES = (
    "昨天{}那边怎么样了",
    "我觉得{}还是可以的",
    "群里没人提过{}吗",
    "上次聊到{}就没下文了",
    "他说{}比想的要麻烦",
    "刚才又看见{}了哈哈",
    "等我弄完{}再来找你们",
    "别忘了{}这回事",
    "要不这周末聊聊{}吧",
    "听说{}改了，谁去看看",
)


@dataclass(frozen=True, slots=True)
class Made:
    """A kind of word that chats hold: how it stands in the lines, and how it is asked for."""

    name: str
    pairs: tuple[tuple[str, str], ...]


def _same(name: str, words: str) -> Made:
    return Made(name, tuple((word, word) for word in words.split()))


def _pairs(name: str, words: str) -> Made:
    return Made(name, tuple((stood, asked) for stood, _, asked in (pair.partition("=") for pair in words.split())))


# As they stand in a line = as somebody asks for them.
MADE = (
    _same("名字", "小明 老蔡 阿璇 柚子酱 二狗子 欧阳夏 陈皮糖 大壮 诗诗 老K头"),
    _same("网络用语", "yyds xswl awsl zqsg dbq u1s1 nbcs emo了 绝绝子 蚌埠住了"),
    _same("版本与型号", "v2.3 v10.0.1 rtx4090 iphone15 ps5 b站 3.14 h264 cn2线路 t恤"),
    _same("日期", "三月五号 12月25日 3月8号 农历十九 正月初七 周四晚八点 2019年冬 廿三 9点40 零六年"),
    _pairs(
        "简繁",
        "颱風假=台风假 鐵觀音=铁观音 發酵麵團=发酵面团 學測=学测 體檢單=体检单 "
        "龍捲風=龙卷风 雞排飯=鸡排饭 貓砂盆=猫砂盆 國慶煙花=国庆烟花 臺燈=台灯",
    ),
    _pairs(
        "全角与大小写",
        "ＯＰＰＯ=oppo ＫＴＶ包厢=ktv ＶＩＰ卡=vip卡 GitHub=github MacBook=macbook "
        "ＣＰＵ温度=cpu LOL手游=lol手游 Ｖ８引擎=v8 WiFi密码=wifi密码 ＩＫＥＡ=ikea",
    ),
    _same("一个字", "鲲 榴 鳄 獾 鳕 囍 犇 砼 鬣 瓯"),
    _same("夹在长词里", "螺蛳粉 密室逃脱 剧本杀 飞盘 露营车 咖啡渣 蓝牙音箱 猪脚饭 羊蝎子 陶艺课"),
    _same("两个词", "会员卡续费 驾照换证 宠物托运 学区划分 公积金提取 体测补考 相亲角 停车月卡 暖气报修 快递柜超时"),
    _same("字母夹中文", "a股 t台 k歌 u盘 x光 n刷 s码 w座 o记 q弹"),
)


@dataclass(frozen=True, slots=True)
class Short:
    """A short question of a kind, and the places of the lines that hold it."""

    kind: str
    text: str
    right: frozenset[int]


@dataclass(frozen=True, slots=True)
class ShortSet:
    """Lines and what is asked about them."""

    lines: Sequence[str]
    questions: Sequence[Short]


def short_set(pool: Sequence[str]) -> ShortSet:
    """Hide made-up lines in a pool and choose words that stand in few lines; always the same for the same pool."""
    rng = random.Random(1)
    hidden = [
        (made.name, _FRAMES[no % len(_FRAMES)].format(stood), asked)
        for made in MADE
        for no, (stood, asked) in enumerate(made.pairs)
    ]
    lines = [*pool, *(line for _, line, _ in hidden)]
    rng.shuffle(lines)
    places = {line: place for place, line in enumerate(lines)}
    questions = [Short(kind, asked, _holding(asked, lines) | {places[line]}) for kind, line, asked in hidden]
    questions += _chosen("聊天里的词", WORDS, _words(lines), lines, rng)
    questions += _chosen("聊天里的字母数字", LATIN, _latin(lines), lines, rng)
    return ShortSet(lines, questions)


def _words(lines: Sequence[str]) -> set[str]:
    return {word for line in lines for word in rjieba.cut(line) if _WORD.fullmatch(word)}


def _latin(lines: Sequence[str]) -> set[str]:
    return {found[0] for line in lines for found in _LATIN.finditer(line)}


def _holding(word: str, lines: Sequence[str]) -> frozenset[int]:
    return frozenset(place for place, line in enumerate(lines) if word in line)


def _chosen(kind: str, count: int, words: Iterable[str], lines: Sequence[str], rng: random.Random) -> list[Short]:
    """Draw words that stand in one to FEW lines, letter for letter."""
    drawn = sorted(words)
    rng.shuffle(drawn)
    chosen: list[Short] = []
    for word in drawn:
        right = _holding(word, lines)
        if 1 <= len(right) <= FEW:
            chosen.append(Short(kind, word, right))
        if len(chosen) == count:
            break
    return chosen


Rankings = list[list[int]]


async def run(*, small: bool) -> Section:
    """Store the lines as memories and ask."""
    pool = chat_pool(500 if small else POOL)
    if pool is None:
        return Section("recall-short", TITLE, absent())
    asked = short_set(pool)
    async with stored(asked.lines) as rows:
        found = {
            f"原样的文字，pg_trgm，门槛 {RAW_THRESHOLD}": [
                await rows.raw(question.text, RAW_THRESHOLD, 10) for question in asked.questions
            ],
            "我们的文字一路": [await rows.ours(question.text, None, 10) for question in asked.questions],
            **await _with_vectors(rows, asked),
        }
    return Section("recall-short", TITLE, _told(asked, found))


async def _with_vectors(rows: Rows, asked: ShortSet) -> dict[str, Rankings]:
    """Ask by vectors alone and fused; nothing where the model cannot be loaded."""
    console = Console(stderr=True)
    try:
        with Progress(console=console, disable=not sys.stderr.isatty(), transient=True) as progress:
            task = progress.add_task("e5 的向量", total=len(rows.ids))
            async with embedded(rows, E5, lambda done: progress.update(task, completed=done)) as embeddings:
                vectors = await query_vectors(embeddings, [question.text for question in asked.questions])
    except EmbeddingUnavailable as error:
        print(f"没有测 e5：{error}", file=sys.stderr)
        return {}
    return {
        "e5 的向量": await _asked(rows, [""] * len(vectors), vectors),
        "融合，用户得到的": await _asked(rows, [question.text for question in asked.questions], vectors),
    }


async def _asked(rows: Rows, texts: Sequence[str], vectors: Sequence[Vector]) -> Rankings:
    return [await rows.ours(text, vector, 10) for text, vector in zip(texts, vectors, strict=True)]


def _told(asked: ShortSet, found: dict[str, Rankings]) -> str:
    answers = [question.right for question in asked.questions]
    scores = {label: score(rankings, answers) for label, rankings in found.items()}
    labels = list(found)
    ours, raw = scores[labels[-1]].hit5, scores[labels[0]].hit5
    return "\n\n".join(
        (
            f"{len(asked.lines):,} 句聊天（LCCC 公开语料，其中 {sum(len(made.pairs) for made in MADE)} 句是造的，藏在里面），"
            f"{len(asked.questions)} 个短问题，答案是含有它的句子：从语料里挑的词原样出现在 1 到 {FEW} 句里，"
            "其余是造的句子里的词，问的写法可能与句子里的不同（简繁、全角、大小写）。",
            table(
                ["", "hit@1", "hit@5", "hit@10", "nDCG@10"],
                [
                    [label, *(f"{value:.3f}" for value in (one.hit1, one.hit5, one.hit10, one.ndcg))]
                    for label, one in scores.items()
                ],
            ),
            f"目标 hit@5 ≥ {AIM}，而原样的 pg_trgm < {RAW_AIM}：{verdict(ours >= AIM and raw < RAW_AIM)}"
            f"（{ours:.3f}，{raw:.3f}）。分种类的 hit@5：",
            table(["", "问题", *labels], _by_kind(asked, found)),
        )
    )


def _by_kind(asked: ShortSet, found: dict[str, Rankings]) -> list[list[str]]:
    kinds: defaultdict[str, list[int]] = defaultdict(list)
    for no, question in enumerate(asked.questions):
        kinds[question.kind].append(no)
    return [
        [
            kind,
            str(len(numbers)),
            *(
                f"{score([ranking[no] for no in numbers], [asked.questions[no].right for no in numbers]).hit5:.2f}"
                for ranking in found.values()
            ),
        ]
        for kind, numbers in kinds.items()
    ]
