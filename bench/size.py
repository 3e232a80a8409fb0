"""How long a start takes until the bot is healthy, and how much memory it takes then."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.data.groups import Group
from bench.process import BARE, BOT_PY, NB_RUN, Process, bot_settings, scratch
from bench.report import Section, median, table, verdict

STARTS = 5
AIM_FIRST, AIM_WARM = 15.0, 5.0


@dataclass(frozen=True, slots=True)
class Start:
    """One start: seconds until healthy, MiB of the bot's process and of everything but the database."""

    seconds: float
    rss: float
    rss_with_launcher: float


@dataclass(frozen=True, slots=True)
class Way:
    """One way to start, in several folders: the first start in a new folder, and the next one there."""

    label: str
    first: list[Start]
    warm: list[Start]


async def run(*, small: bool) -> Section:
    """Start and stop, alternating the ways."""
    ways = [Way("`nb run`", [], []), Way("`python bot.py`", [], []), Way("基线：空机器人", [], [])]
    commands = (NB_RUN, BOT_PY, BARE)
    with scratch() as folder:
        for number in range(1 if small else STARTS):
            for index, (way, command) in enumerate(zip(ways, commands, strict=True)):
                data_dir = Path(folder) / f"{index}-{number}"
                way.first.append(await _start(command, data_dir))
                way.warm.append(await _start(command, data_dir))
    return Section("size", "启动与内存", _told(ways))


async def _start(command: Sequence[str], data_dir: Path) -> Start:
    async with Process(command, data_dir, bot_settings([Group(0)], BENCH_KIND="count")) as process:
        return Start(process.ready_seconds, process.rss(), process.rss_with_launcher())


def _told(ways: Sequence[Way]) -> str:
    rows = [
        [
            way.label,
            _seconds(way.first),
            _seconds(way.warm),
            f"{median([start.rss for start in way.warm]):.0f}",
            f"{median([start.rss_with_launcher for start in way.warm]):.0f}",
        ]
        for way in ways
    ]
    first, warm = (median([start.seconds for start in starts]) for starts in (ways[0].first, ways[0].warm))
    return "\n\n".join(
        (
            f"每种方式在 {len(ways[0].first)} 个新文件夹里各启动两次，三种方式轮流。"
            "从启动命令到 `/api/health` 第一次答 200；第一次启动要建数据库。括号里是最快和最慢。",
            table(["", "第一次，秒", "以后，秒", "机器人进程，MiB", "连同启动进程，MiB"], rows),
            f"目标（`nb run`）：第一次 ≤ {AIM_FIRST:.0f} 秒：{verdict(first <= AIM_FIRST)}（{first:.1f}）；"
            f"以后 ≤ {AIM_WARM:.0f} 秒：{verdict(warm <= AIM_WARM)}（{warm:.1f}）。回放之后的内存见“回放”。",
        )
    )


def _seconds(starts: Sequence[Start]) -> str:
    values = [start.seconds for start in starts]
    return f"{median(values):.1f}（{min(values):.1f}–{max(values):.1f}）"
