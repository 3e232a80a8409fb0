"""From the end of the debounce to the model request, with a database that is full."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench import database
from bench.calling import GROUPS, Caller, bare_answering, running
from bench.data.groups import Group
from bench.model import FakeModel, StayQuiet
from bench.process import BOT_PY, bot_settings, scratch
from bench.report import Section, percentile, table, verdict

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
    """Fill the database, then call the bot and the baseline in turns."""
    stored, turns = (4_000, 20) if small else (STORED, TURNS)
    with scratch() as folder:
        passages, plain = await _measure(Path(folder), stored, turns)
    return Section("latency", f"等安静结束 → 模型请求：库里有 {stored:,} 条消息", _told(passages, plain))


async def _measure(folder: Path, stored: int, turns: int) -> tuple[list[Passage], list[float]]:
    groups = [Group(number) for number in range(GROUPS)]
    async with FakeModel(lambda _: StayQuiet()) as model, database.embedded(folder / "bot") as conn:
        await database.load_history(conn, groups, stored // GROUPS, seed=7)
        settings = bot_settings(groups, model, DEBOUNCE_SECONDS="0")
        async with running(BOT_PY, folder / "bot", settings, groups) as bot, bare_answering(folder / "bare", model) as bare:
            await bot.napcat.caught_up()
            pairs = [(await _ask(bot, model), await _ask(bare, model)) for _ in range(turns)]
        times = await database.turn_times(conn)
    ours = [
        Passage((way.asked - way.sent) * 1000, (way.asked - turn.committed) * 1000, (way.asked - turn.queued) * 1000)
        for (way, _), turn in zip(pairs, times, strict=True)
    ]
    return ours, [(way.asked - way.sent) * 1000 for _, way in pairs]


@dataclass(frozen=True, slots=True)
class _Way:
    sent: float
    asked: float


async def _ask(caller: Caller, model: FakeModel) -> _Way:
    """Call once, and let the turn end: it is not part of the next one's beginning."""
    sent = await caller.call()
    request = await model.next_request(_SECONDS)
    await asyncio.sleep(0.15)
    return _Way(sent, request.at)


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
            f"{len(passages)} 轮，{GROUPS} 个群轮流，一次一轮，与基线交替，DEBOUNCE_SECONDS=0。时刻取自同一台机器的钟："
            "事件由假 NapCat 记，提交（track_commit_timestamp）和轮的行由数据库记，请求由假模型服务在读正文之前记。"
            "等安静在提交之后才开始、立刻结束，所以第一行是“等安静结束 → 请求”的上界（多了提交等磁盘的时间），第二行是下界。",
            table(["毫秒", "p50", "p95", "最大"], rows),
            f"目标 p95 ≤ {AIM_MS:.0f} 毫秒（按第一行）：{verdict(worst <= AIM_MS)}（{worst:.1f}）。",
        )
    )
