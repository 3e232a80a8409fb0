"""From an @ to the send call, with no debounce and a model that answers at once."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from bench import brains
from bench.calling import GROUPS, Caller, bare_answering, running
from bench.data.groups import Group
from bench.model import FakeModel
from bench.process import BOT_PY, bot_settings, scratch
from bench.report import Section, median, percentile, table, verdict

MENTIONS = 200
AIM_MS = 60.0
_SECONDS = 30.0


async def run(*, small: bool) -> Section:
    """Call the bot and the baseline in turns."""
    with scratch() as folder:
        ours, plain = await _measure(Path(folder), 20 if small else MENTIONS)
    return Section("mention", "@ → 发送：模型即答，不等安静", _told(ours, plain))


async def _measure(folder: Path, mentions: int) -> tuple[list[float], list[float]]:
    """Milliseconds of the bot and of the baseline."""
    groups = [Group(number) for number in range(GROUPS)]
    async with FakeModel(brains.speaks(seed=3)) as model:
        settings = bot_settings(groups, model, DEBOUNCE_SECONDS="0")
        async with running(BOT_PY, folder / "bot", settings, groups) as bot, bare_answering(folder / "bare", model) as bare:
            await bot.napcat.caught_up()
            pairs = [(await _mention(bot), await _mention(bare)) for _ in range(mentions)]
    return [own for own, _ in pairs], [other for _, other in pairs]


async def _mention(caller: Caller) -> float:
    began = await caller.call()
    sent = await caller.napcat.next_sent(_SECONDS)
    await asyncio.sleep(0.15)
    return (sent.at - began) * 1000


def _told(ours: Sequence[float], plain: Sequence[float]) -> str:
    ways = {"机器人": ours, "基线：空机器人收到 @ 就请求模型、发两个字": plain}
    rows = [
        [label, *(f"{percentile(values, percent):.1f}" for percent in (50, 95)), f"{max(values):.1f}"]
        for label, values in ways.items()
    ]
    return "\n\n".join(
        (
            f"各 {len(ours)} 次，{GROUPS} 个群轮流，一次一个，与基线交替，DEBOUNCE_SECONDS=0，TYPING_CHARS_PER_SECOND=0。"
            "从假 NapCat 发出事件到它收到 send 调用；中间有入库、一轮、一次真的 HTTP 模型请求、发件箱两行。",
            table(["毫秒", "p50", "p95", "最大"], rows),
            f"目标 p50 ≤ {AIM_MS:.0f} 毫秒：{verdict(median(ours) <= AIM_MS)}（{median(ours):.1f}）。",
        )
    )
