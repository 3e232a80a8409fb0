"""How long the miner takes over many groups, how much memory it needs, and how long it holds up the event loop."""

from __future__ import annotations

import asyncio
import json
import random
import resource
import sys
import time
from dataclasses import asdict, dataclass

from bench.data.groups import Group
from bench.data.history import ordinary
from bench.mining_rows import fresh_server, miner, opened, store
from bench.report import Section, table, verdict
from db.models import ConversationId
from db.searchtext import search_text
from settings import ROOT

TITLE = "学习：黑话，时间与内存"
GROUPS = 40
SIZES = (50_000, 100_000, 200_000)
SECONDS, MIB = 60.0, 300.0
LINEAR = 1.3
"""Twice the messages may take so many times twice the seconds."""
TICK = 0.002


@dataclass(frozen=True, slots=True)
class Took:
    """What one process took for all groups. ``stall``: the longest that the event loop came late, ms; ``idle_mib`` before."""

    seconds: float
    cpu: float
    idle_mib: float
    peak_mib: float
    stall: float
    late: float
    terms: int


async def run(*, small: bool) -> Section:
    """Mine three sizes, each in a database and a process of its own."""
    sizes = [size // 50 for size in SIZES] if small else list(SIZES)
    took = [await _measured(size) for size in sizes]
    head = ["消息", "秒", "处理器，秒", "每千条，毫秒", "内存最高，MiB", "开始之前，MiB", "事件循环最长迟到，毫秒", "p99", "候选"]
    rows = [
        [
            f"{size:,}",
            f"{one.seconds:.1f}",
            f"{one.cpu:.1f}",
            f"{one.seconds / size * 1e6:.0f}",
            f"{one.peak_mib:.0f}",
            f"{one.idle_mib:.0f}",
            f"{one.stall:.0f}",
            f"{one.late:.1f}",
            f"{one.terms:,}",
        ]
        for size, one in zip(sizes, took, strict=True)
    ]
    growth = took[-1].seconds / took[-2].seconds
    body = (
        f"{GROUPS} 个群，消息平均分，造的闲话里混着黑话；每种大小用自己的数据库和新的进程，"
        "由学习引擎一个群一个群地跑 `terms` 直到没有新的：每批最多 5,000 条，每批数最近 20,000 条，"
        "写候选、依据，并在 SQL 里数次数。"
        "内存是机器人那样的一个 Python 进程，不含数据库。"
        "迟到：事件循环每 2 毫秒醒一次，晚了多少。\n\n"
        f"{table(head, rows)}\n\n"
        f"目标，最大的一种 ≤ {SECONDS:.0f} 秒：{verdict(took[-1].seconds <= SECONDS)}；≤ {MIB:.0f} MiB："
        f"{verdict(took[-1].peak_mib <= MIB)}；消息翻倍，时间是 {growth:.2f} 倍，线性：{verdict(growth <= 2 * LINEAR)}。"
    )
    return Section("mining-speed", TITLE, body)


async def _measured(size: int) -> Took:
    async with fresh_server() as url:
        async with opened(url) as database:
            for number in range(GROUPS):
                group = Group(number)
                async with database.transaction() as conn:
                    await store(conn, number, group.people, ordinary(number, size // GROUPS))
        worker = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "bench.mining_speed", url, cwd=ROOT, stdout=asyncio.subprocess.PIPE
        )
        out, _ = await worker.communicate()
        if worker.returncode:
            raise RuntimeError(f"mining ended with {worker.returncode}")
        return Took(**json.loads(out.splitlines()[-1]))


async def mine_all(url: str) -> Took:
    """Mine every group of a database, one after the other."""
    async with opened(url) as database:
        async with database.connection() as conn:
            cur = await conn.execute("SELECT id FROM conversations ORDER BY id")
            groups = [ConversationId(row) for (row,) in await cur.fetchall()]
        learner = miner(database)
        search_text("预热")  # a bot that is running has loaded the table of letters already
        idle = _peak_mib()
        late: list[float] = []
        watch = asyncio.create_task(_watch(late))
        began, cpu = time.perf_counter(), time.process_time()
        reports = [await learner.run(group) for group in groups]
        seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
        watch.cancel()
        await learner.aclose()
    late.sort()
    terms = sum(report.counts.get("terms", 0) for report in reports)
    return Took(seconds, cpu, idle, _peak_mib(), late[-1] * 1000, late[int(len(late) * 0.99)] * 1000, terms)


def _peak_mib() -> float:
    scale = 2**20 if sys.platform == "darwin" else 2**10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / scale


async def _watch(late: list[float]) -> None:
    """Note how late the event loop wakes."""
    while True:
        before = time.perf_counter()
        await asyncio.sleep(TICK)
        late.append(time.perf_counter() - before - TICK)


if __name__ == "__main__":
    random.seed(1)
    print(json.dumps(asdict(asyncio.run(mine_all(sys.argv[1])))))
