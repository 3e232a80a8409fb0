"""From the end of the debounce to the model request, with a database that is full."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

from bench import database
from bench.data.groups import Group, called
from bench.model import FakeModel, StayQuiet
from bench.napcat import FakeNapCat
from bench.process import BARE, BOT_PY, TOKEN, Process, bot_settings, scratch
from bench.report import Section, percentile, table, verdict

GROUPS = 20
STORED = 200_000
TURNS = 240
AIM_MS = 30.0
_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Passage:
    """One turn's way, milliseconds: from the event, from the commit of the message, from the turn's row to the request."""

    sent: float
    committed: float
    queued: float


async def run(*, small: bool) -> Section:
    """Fill the database, then call the bot again and again."""
    stored, turns = (4_000, 20) if small else (STORED, TURNS)
    with scratch() as folder:
        passages = await _bot(Path(folder) / "bot", stored, turns)
        plain = await _bare(Path(folder) / "bare", turns)
    return Section("latency", f"等安静结束 → 模型请求：库里有 {stored:,} 条消息", _told(passages, plain))


async def _bot(data_dir: Path, stored: int, turns: int) -> list[Passage]:
    groups = [Group(number) for number in range(GROUPS)]
    async with FakeModel(lambda _: StayQuiet()) as model, database.embedded(data_dir) as conn:
        await database.load_history(conn, groups, stored // GROUPS, seed=7)
        settings = bot_settings(groups, model, DEBOUNCE_SECONDS="0")
        async with Process(BOT_PY, data_dir, settings) as process, FakeNapCat(process.port, TOKEN, groups) as napcat:
            await napcat.caught_up()
            began, asked = await _call(napcat, model, groups, turns)
        times = await database.turn_times(conn)
    return [
        Passage((at - start) * 1000, (at - turn.committed) * 1000, (at - turn.queued) * 1000)
        for start, at, turn in zip(began, asked, times, strict=True)
    ]


async def _bare(data_dir: Path, turns: int) -> list[float]:
    groups = [Group(number) for number in range(GROUPS)]
    async with FakeModel(lambda _: StayQuiet()) as model:
        settings = bot_settings(groups, LOG_LEVEL="WARNING", BENCH_KIND="answer", BENCH_MODEL_URL=model.url)
        async with Process(BARE, data_dir, settings) as process, FakeNapCat(process.port, TOKEN, groups) as napcat:
            began, asked = await _call(napcat, model, groups, turns)
    return [(at - start) * 1000 for start, at in zip(began, asked, strict=True)]


async def _call(napcat: FakeNapCat, model: FakeModel, groups: Sequence[Group], turns: int) -> tuple[list[float], list[float]]:
    """Call the bot once at a time in one group after another; give when each event left and when its request came."""
    rng = Random(11)
    began: list[float] = []
    asked: list[float] = []
    for number in range(turns):
        group = groups[number % len(groups)]
        frame = json.dumps(group.message(group.speaker(rng), called(rng)), ensure_ascii=False)
        began.append(await napcat.send(frame))
        asked.append((await model.next_request(_SECONDS)).at)
        await asyncio.sleep(0.15)  # the turn's end is not part of the next one's beginning
    return began, asked


def _told(passages: Sequence[Passage], plain: Sequence[float]) -> str:
    ways = {
        "消息提交 → 请求到达": [passage.committed for passage in passages],
        "轮的行写入 → 请求到达": [passage.queued for passage in passages],
        "事件发出 → 请求到达": [passage.sent for passage in passages],
        "基线：空机器人收到 @ 就请求模型，事件发出 → 请求到达": plain,
    }
    rows = [
        [label, *(f"{percentile(values, percent):.1f}" for percent in (50, 95)), f"{max(values):.1f}"]
        for label, values in ways.items()
    ]
    worst = percentile([passage.committed for passage in passages], 95)
    return "\n\n".join(
        (
            f"{len(passages)} 轮，{GROUPS} 个群轮流，一次一轮，DEBOUNCE_SECONDS=0。时刻取自同一台机器的钟："
            "事件由假 NapCat 记，提交（track_commit_timestamp）和轮的行由数据库记，请求由假模型服务在读正文之前记。"
            "等安静在提交之后才开始、立刻结束，所以第一行是“等安静结束 → 请求”的上界（多了提交等磁盘的时间），第二行是下界。",
            table(["毫秒", "p50", "p95", "最大"], rows),
            f"目标 p95 ≤ {AIM_MS:.0f} 毫秒（按第一行）：{verdict(worst <= AIM_MS)}（{worst:.1f}）。",
        )
    )
