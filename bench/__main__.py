"""``python -m bench [--small] [name…]``: run benchmarks, print their tables, keep them in docs/benchmarks.md."""

from __future__ import annotations

import argparse
import asyncio
import os
from collections.abc import Coroutine
from typing import Protocol

from bench import (
    ingest,
    latency,
    learner_cost,
    mention,
    mining_quality,
    mining_speed,
    recall_quality,
    recall_short,
    recall_speed,
    replay,
    size,
)
from bench.report import Section, machine, stamp, write_page


class Benchmark(Protocol):
    """Runs once and tells what came of it."""

    def __call__(self, *, small: bool) -> Coroutine[None, None, Section]:
        """Run it; ``small``: only to see that it works, the numbers mean nothing."""
        ...


BENCHMARKS: dict[str, Benchmark] = {
    "ingest": ingest.run,
    "latency": latency.run,
    "learner-cost": learner_cost.run,
    "mention": mention.run,
    "mining-quality": mining_quality.run,
    "mining-speed": mining_speed.run,
    "recall-quality": recall_quality.run,
    "recall-short": recall_short.run,
    "recall-speed": recall_speed.run,
    "replay": replay.run,
    "size": size.run,
}


def main() -> None:
    """Run what the command line names, or everything."""
    parser = argparse.ArgumentParser(prog="python -m bench", description="跑基准，打印表格，结果写进 docs/benchmarks.md")
    parser.add_argument("name", nargs="*", help=f"跑哪些：{'、'.join(BENCHMARKS)}；不写就全跑")
    parser.add_argument("--small", action="store_true", help="小规模试跑，只打印，不写结果")
    options = parser.parse_args()
    names: list[str] = options.name or list(BENCHMARKS)
    for name in names:
        if name not in BENCHMARKS:
            parser.error(f"没有叫 {name} 的基准")
    print(machine())
    for name in names:
        load = os.getloadavg()[0]
        section = asyncio.run(BENCHMARKS[name](small=options.small))
        section = Section(section.name, section.title, f"{stamp(load)}\n\n{section.body}")
        print(f"\n## {section.title}\n\n{section.body}", flush=True)
        if not options.small:
            write_page([section])


if __name__ == "__main__":
    main()
