"""From an @ to the send call, with no debounce and a model that answers at once."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from random import Random

from bench import brains
from bench.data.groups import Group, called
from bench.model import FakeModel
from bench.napcat import FakeNapCat
from bench.process import BARE, BOT_PY, TOKEN, Process, bot_settings, scratch
from bench.report import Section, median, percentile, table, verdict

GROUPS = 20
MENTIONS = 200
AIM_MS = 60.0
_SECONDS = 30.0


async def run(*, small: bool) -> Section:
    """Call the bot, then the baseline."""
    mentions = 20 if small else MENTIONS
    with scratch() as folder:
        async with FakeModel(brains.speaks(seed=3)) as model:
            groups = [Group(number) for number in range(GROUPS)]
            settings = bot_settings(groups, model, DEBOUNCE_SECONDS="0")
            async with Process(BOT_PY, Path(folder) / "bot", settings) as process:
                ours = await _measure(process, groups, mentions)
            groups = [Group(number) for number in range(GROUPS)]
            settings = bot_settings(groups, LOG_LEVEL="WARNING", BENCH_KIND="answer", BENCH_MODEL_URL=model.url)
            async with Process(BARE, Path(folder) / "bare", settings) as process:
                plain = await _measure(process, groups, mentions)
    return Section("mention", "@ → 发送：模型即答，不等安静", _told(ours, plain))


async def _measure(process: Process, groups: Sequence[Group], mentions: int) -> list[float]:
    """Call once at a time, in one group after another, so that no group's pace limit counts. Milliseconds."""
    rng = Random(13)
    times: list[float] = []
    async with FakeNapCat(process.port, TOKEN, groups) as napcat:
        await asyncio.sleep(3)  # the greeting after a connect is over
        for number in range(mentions):
            group = groups[number % len(groups)]
            frame = json.dumps(group.message(group.speaker(rng), called(rng)), ensure_ascii=False)
            began = await napcat.send(frame)
            times.append((await napcat.next_sent(_SECONDS)).at * 1000 - began * 1000)
            await asyncio.sleep(0.15)
    return times


def _told(ours: Sequence[float], plain: Sequence[float]) -> str:
    ways = {"机器人": ours, "基线：空机器人收到 @ 就请求模型、发两个字": plain}
    rows = [
        [label, *(f"{percentile(values, percent):.1f}" for percent in (50, 95)), f"{max(values):.1f}"]
        for label, values in ways.items()
    ]
    return "\n\n".join(
        (
            f"各 {len(ours)} 次，{GROUPS} 个群轮流，一次一个，DEBOUNCE_SECONDS=0，TYPING_CHARS_PER_SECOND=0。"
            "从假 NapCat 发出事件到它收到 send 调用；中间有入库、一轮、一次真的 HTTP 模型请求、发件箱两行。",
            table(["毫秒", "p50", "p95", "最大"], rows),
            f"目标 p50 ≤ {AIM_MS:.0f} 毫秒：{verdict(median(ours) <= AIM_MS)}（{median(ours):.1f}）。",
        )
    )
