"""How many events a second go from one socket into PostgreSQL, beside a handler that does nothing."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from bench import database
from bench.data.burst import Burst, make_burst
from bench.data.groups import Group
from bench.napcat import FakeNapCat
from bench.process import BARE, BOT_PY, TOKEN, Process, bot_settings, scratch
from bench.report import Section, median, table, verdict
from db.pool import Connection

GROUPS = 20
ROUNDS = 5
AIM = 0.6
FLAT_MIB = 20.0
_LIMIT_SECONDS = 600.0
BASELINES = (("count", "WARNING"), ("count", "INFO"), ("frames", "INFO"))
"""What the bot is compared with, and at which log level; the bot's is INFO."""
_LABELS = {"count": "基线：空处理器", "frames": "下限：我们的适配器只数帧，不入库"}


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much is sent: events in each round, and in the long run."""

    round: int = 10_000
    long: int = 100_000


@dataclass(slots=True)
class Runner:
    """One program under test: how to send to it, and how to wait until it is through. ``rates``: events a second."""

    label: str
    napcat: FakeNapCat
    groups: list[Group]
    through: Callable[[Burst], Awaitable[None]]
    rates: list[float]

    async def burst(self, count: int, seed: int) -> Burst:
        """Send a burst as fast as it is taken, and time it until everything is through."""
        burst = make_burst(self.groups, count, seed)
        began = time.perf_counter()
        for frame in burst.frames:
            await self.napcat.send(frame)
        async with asyncio.timeout(_LIMIT_SECONDS):
            await self.through(burst)
        self.rates.append(count / (time.perf_counter() - began))
        return burst


async def run(*, small: bool) -> Section:
    """Run both parts."""
    sizes = Sizes(2_000, 10_000) if small else Sizes()
    with scratch() as folder:
        rates = await _rates(Path(folder), sizes)
        long = await _long(Path(folder), sizes)
    return Section("ingest", "入库：一个 WebSocket，20 个群", f"{rates}\n\n{long}")


async def _rates(folder: Path, sizes: Sizes) -> str:
    async with AsyncExitStack() as stack:
        bot = await stack.enter_async_context(_bot(folder / "bot"))
        runners = [bot.runner]
        for kind, level in BASELINES:
            runners.append(await stack.enter_async_context(_bare(folder / f"bare-{kind}-{level}", kind, level)))
        await bot.runner.napcat.caught_up()
        sent = 0
        for number in range(ROUNDS):
            for runner in runners:
                burst = await runner.burst(sizes.round, number)
                sent += burst.messages if runner is bot.runner else 0
        kept = await database.kept(bot.conn)
    return _rates_told(runners, sizes, sent, kept)


def _rates_told(runners: Sequence[Runner], sizes: Sizes, sent: int, kept: database.Kept) -> str:
    ours = runners[0].rates
    ratios = {
        runner.label: median([own / other for own, other in zip(ours, runner.rates, strict=True)]) for runner in runners[1:]
    }
    rows = [
        [runner.label, f"{median(runner.rates):,.0f}", f"{min(runner.rates):,.0f}–{max(runner.rates):,.0f}"] for runner in runners
    ]
    rows[0].append("")
    for row, ratio in zip(rows[1:], ratios.values(), strict=True):
        row.append(f"{ratio:.2f}")
    worst = min(ratio for label, ratio in ratios.items() if label.startswith(_LABELS["count"]))
    return "\n\n".join(
        (
            f"各 {ROUNDS} 轮，每轮 {sizes.round:,} 个事件（96% 是消息：文字、引用、@、表情、图片；其余是通知和心跳），"
            "四个进程轮流。"
            "从发出第一帧到全部处理完：机器人以最后一条消息查得到为准，基线以处理器数到最后一个为准。"
            "基线是同样的 NoneBot、同样的服务器设置、官方 OneBot V11 适配器和一个什么也不做的处理器。比值是各轮比值的中位数。",
            table(["", "事件/秒（中位数）", "最低–最高", "机器人 ÷ 它"], rows),
            f"目标 ≥ {AIM}：{verdict(worst >= AIM)}（{worst:.2f}）。"
            f"存下 {kept.messages:,} 条，发出 {sent:,} 条；顺序与到达不符的 {kept.out_of_order} 条。",
        )
    )


async def _long(folder: Path, sizes: Sizes) -> str:
    """One long burst, begun the moment the socket is open."""
    samples: list[float] = []
    async with _bot(folder / "long") as bot:
        sampler = asyncio.create_task(_sample(bot.process, samples))
        burst = await bot.runner.burst(sizes.long, 1000)
        sampler.cancel()
        kept = await database.kept(bot.conn)
    tenth = max(1, len(samples) // 10)
    start, middle, end = samples[tenth], median(samples[tenth:-1]), samples[-1]
    return "\n\n".join(
        (
            f"连上就发 {sizes.long:,} 个事件，不等补历史和刷新成员：{bot.runner.rates[0]:,.0f} 个/秒。",
            table(
                ["机器人进程的常驻内存", "发了十分之一时", "中位数", "最后", "最高"],
                [["MiB", f"{start:.0f}", f"{middle:.0f}", f"{end:.0f}", f"{max(samples):.0f}"]],
            ),
            f"内存走平（最后比十分之一时多不过 {FLAT_MIB:.0f} MiB）：{verdict(end - start <= FLAT_MIB)}。"
            f"存下 {kept.messages:,} 条，发出 {burst.messages:,} 条；顺序与到达不符的 {kept.out_of_order} 条。",
        )
    )


async def _sample(process: Process, samples: list[float]) -> None:
    while True:
        samples.append(process.rss())
        await asyncio.sleep(0.25)


@dataclass(frozen=True, slots=True)
class _Bot:
    process: Process
    conn: Connection
    runner: Runner


@asynccontextmanager
async def _bot(data_dir: Path) -> AsyncGenerator[_Bot]:
    groups = [Group(number) for number in range(GROUPS)]
    settings = bot_settings(groups)
    async with (
        Process(BOT_PY, data_dir, settings) as process,
        database.embedded(data_dir) as conn,
        FakeNapCat(process.port, TOKEN, groups) as napcat,
    ):

        async def through(burst: Burst) -> None:
            await database.wait_for(lambda: database.is_stored(conn, burst.last))

        yield _Bot(process, conn, Runner("机器人", napcat, groups, through, []))


@asynccontextmanager
async def _bare(data_dir: Path, kind: str, level: str) -> AsyncGenerator[Runner]:
    groups = [Group(number) for number in range(GROUPS)]
    settings = bot_settings(groups, LOG_LEVEL=level, BENCH_KIND=kind)
    async with (
        Process(BARE, data_dir, settings) as process,
        FakeNapCat(process.port, TOKEN, groups) as napcat,
        httpx.AsyncClient(timeout=_LIMIT_SECONDS) as client,
    ):
        expected = 1  # the hello after the connect

        async def through(burst: Burst) -> None:
            nonlocal expected
            expected += len(burst.frames)
            await client.get(f"{process.url}/api/health", params={"count_to": expected})

        yield Runner(f"{_LABELS[kind]}，日志 {level}", napcat, groups, through, [])
