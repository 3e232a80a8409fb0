"""How fast recall is, without embedding the question, and whether filters leave ten rows of ten; the plain recipe beside it."""

from __future__ import annotations

import asyncio
import random
import sys
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psycopg
from rich.console import Console
from rich.progress import Progress

from bench.data.chat import Lines, chat_lines, question
from bench.process import scratch
from bench.recall_load import FIRST_MEMBER, Loaded, Size, Text, a_vector, biggest_index, load, sizes, texts_of
from bench.recall_plain import Plain, build_plain
from bench.report import Section, median, percentile, table, verdict
from db.embedding_indexes import tend_indexes
from db.memory_import import ImportRow, import_many
from db.memory_models import GROUP, Ask, Scope, Subject, Wish
from db.migrate import migrate
from db.models import ConversationId
from db.pool import Connection, Database
from db.recall import recall
from db.search_terms import count_terms
from db.server import EmbeddedServer

CALLERS = (1, 8)
ASKED = 240
WANTED = 10
AIMS = {1: 20.0, 8: 50.0}
FILTER_QUESTIONS = 20
INSERTED, PIECE = 5_000, 500
OURS, PLAIN = "我们的", "朴素做法"


@dataclass(frozen=True, slots=True)
class Layout:
    """How many memories in how many groups; ``plain``: the plain recipe is measured there too."""

    label: str
    rows: int
    groups: int
    plain: bool


LAYOUTS = (
    Layout("10 万条，50 个群", 100_000, 50, plain=True),
    Layout("10 万条，一个群", 100_000, 1, plain=False),
    Layout("100 万条，500 个群", 1_000_000, 500, plain=False),
)
SMALL_LAYOUTS = (Layout("8 千条，5 个群", 8_000, 5, plain=True), Layout("2.1 万条，一个群", 21_000, 1, plain=False))

Asked = Callable[[Ask, Scope], Awaitable[int]]
"""Recalls once and tells how many rows came."""


@dataclass(slots=True)
class Findings:
    """What one layout showed. Times in milliseconds by who and how many callers; rows by filter and who."""

    layout: Layout
    loaded: Loaded
    times: dict[tuple[str, int], list[float]] = field(default_factory=dict[tuple[str, int], "list[float]"])
    rows: dict[tuple[str, str], list[int]] = field(default_factory=dict[tuple[str, str], "list[int]"])
    sizes: list[Size] = field(default_factory=list["Size"])
    index_seconds: float = 0.0
    insert_rate: float = 0.0


async def run(*, small: bool) -> Section:
    """Measure every layout in a database of its own."""
    said = _Said(lines := chat_lines(), texts_of(lines))
    findings: list[Findings] = []
    with Progress(console=Console(stderr=True), disable=not sys.stderr.isatty(), transient=True) as progress:
        for layout in SMALL_LAYOUTS if small else LAYOUTS:
            task = progress.add_task(layout.label, total=layout.rows)

            def tell(written: int, task: int = task) -> None:
                progress.update(task, completed=written)  # pyright: ignore[reportArgumentType]

            with scratch() as folder:
                findings.append(await _measure(Path(folder), layout, said, tell))
    return Section("recall-speed", "召回：速度与过滤", _told(findings, lines))


@asynccontextmanager
async def _opened(folder: Path) -> AsyncGenerator[tuple[Database, Connection]]:
    server = await asyncio.to_thread(EmbeddedServer.start, folder)
    try:
        await migrate(server.url)
        database = Database(server.url)
        await database.open()
        async with await psycopg.AsyncConnection.connect(server.url, autocommit=True) as conn:
            yield database, conn
        await database.close()
    finally:
        await asyncio.to_thread(server.stop)


@dataclass(frozen=True, slots=True)
class _Said:
    lines: Lines
    texts: Sequence[Text]


async def _measure(folder: Path, layout: Layout, said: _Said, tell: Callable[[int], None]) -> Findings:
    lines = said.lines
    async with _opened(folder) as (database, conn):
        found = Findings(layout, await load(conn, layout.rows, layout.groups, said.texts, tell))
        await count_terms(conn)
        began = time.perf_counter()
        await tend_indexes(database, 1)
        found.index_seconds = time.perf_counter() - began
        await _ask(found, OURS, _ours(database), lines)
        found.sizes = await sizes(conn, ["memories", "memories_text", await biggest_index(conn) or ""])
        if layout.plain:
            await build_plain(conn)
            await _ask(found, PLAIN, _plain(Plain(database)), lines)
            found.sizes += await sizes(conn, ["plain", "plain_text", "plain_vector"])
        found.insert_rate = await _insert(conn, layout, lines)
    return found


def _ours(database: Database) -> Asked:
    async def ask(question: Ask, scope: Scope) -> int:
        return len(await recall(database, [question], scope, Wish(WANTED)))

    return ask


def _plain(plain: Plain) -> Asked:
    async def ask(question: Ask, scope: Scope) -> int:
        return len(await plain.recall(question, scope, WANTED))

    return ask


async def _ask(found: Findings, who: str, ask: Asked, lines: Lines) -> None:
    """Warm up, then time it with one and with many callers, then count rows under filters."""
    groups = found.layout.groups
    await _timed(1, ASKED // 4, ask, lines, groups)
    for callers in CALLERS:
        found.times[who, callers] = await _timed(callers, ASKED, ask, lines, groups)
    rng = random.Random(3)
    for label, scope in _filters(groups):
        found.rows[label, who] = [await ask(Ask("", a_vector(rng)), scope) for _ in range(FILTER_QUESTIONS)]


async def _timed(callers: int, count: int, ask: Asked, lines: Lines, groups: int) -> list[float]:
    """Let callers ask one after the other, all at once; milliseconds of each recall."""

    async def caller(number: int) -> list[float]:
        rng = random.Random(number)
        times: list[float] = []
        for _ in range(count // callers):
            asked = Ask(question(lines, rng), a_vector(rng))
            scope = Scope((ConversationId(rng.randrange(groups) + 1),))
            began = time.perf_counter()
            await ask(asked, scope)
            times.append((time.perf_counter() - began) * 1000)
        return times

    return [ms for times in await asyncio.gather(*map(caller, range(callers))) for ms in times]


def _filters(groups: int) -> list[tuple[str, Scope]]:
    group = (ConversationId(1),)
    member = Subject("member", FIRST_MEMBER)
    share = f"{100 / groups:.2g}%"
    return [
        ("会话（全部）" if groups == 1 else f"会话（{share} 的行）", Scope(group)),
        ("会话、一个成员（其中 2%）", Scope(group, subjects=(member,))),
        ("会话、一种（其中 20%）", Scope(group, kinds=("goal",))),
        ("会话、已归档（其中 1%）", Scope(group, statuses=("archived",))),
    ]


async def _insert(conn: Connection, layout: Layout, lines: Lines) -> float:
    """Import memories into the full table; rows a second."""
    rng = random.Random(9)
    began = time.perf_counter()
    for start in range(0, INSERTED, PIECE):
        rows = [
            ImportRow(ConversationId(rng.randrange(layout.groups) + 1), GROUP, "fact", f"{rng.choice(lines.texts)}{number}")
            for number in range(start, start + PIECE)
        ]
        async with conn.transaction():
            await import_many(conn, rows)
    return INSERTED / (time.perf_counter() - began)


def _told(findings: Sequence[Findings], lines: Lines) -> str:
    worst = {callers: max(percentile(found.times[OURS, callers], 95) for found in findings) for callers in CALLERS}
    aims = "；".join(
        f"{callers} 个同时问，p95 ≤ {aim:.0f} 毫秒：{verdict(worst[callers] <= aim)}（最慢的一种 {worst[callers]:.1f}）"
        for callers, aim in AIMS.items()
    )
    full = all(min(rows) == WANTED for found in findings for (_, who), rows in found.rows.items() if who == OURS)
    return "\n\n".join(
        (
            f"{lines.source}每条记忆一个 384 维的随机方向（最难的向量：谁和谁都不近）。问题一半是两到四个字，一半是整句；"
            f"每次召回问一个问题，两路都走，取 {WANTED} 条，量的是从调用到拿到记忆，不含给问题算向量。"
            f"{PLAIN}：原文上的 gin_trgm_ops 和 `%`，全部向量一个 HNSW，都用默认设置，过滤写在 WHERE 里。",
            _speed(findings),
            f"目标：{aims}。",
            f"按向量要 10 条，各种过滤下得到几条（{FILTER_QUESTIONS} 个问题的平均，括号里是最少）：",
            _filtered(findings),
            f"{OURS}每一次都是 {WANTED} 条：{verdict(full)}。",
            _weights(findings),
        )
    )


def _speed(findings: Sequence[Findings]) -> str:
    rows: list[list[str]] = []
    for found in findings:
        for who in (OURS, PLAIN):
            if (who, CALLERS[0]) not in found.times:
                continue
            cells = [
                f"{value:.1f}"
                for callers in CALLERS
                for value in (median(found.times[who, callers]), percentile(found.times[who, callers], 95))
            ]
            rows.append([f"{found.layout.label}：{who}", *cells])
    return table(["毫秒", *(f"{callers} 个同时问，{what}" for callers in CALLERS for what in ("p50", "p95"))], rows)


def _filtered(findings: Sequence[Findings]) -> str:
    rows: list[list[str]] = []
    for found in findings:
        for label in dict.fromkeys(label for label, _ in found.rows):
            cells = [
                f"{sum(got) / len(got):.1f}（{min(got)}）" if (got := found.rows.get((label, who))) else ""
                for who in (OURS, PLAIN)
            ]
            rows.append([f"{found.layout.label}：{label}", *cells])
    return table(["", OURS, PLAIN], rows)


def _weights(findings: Sequence[Findings]) -> str:
    rows = [
        [
            found.layout.label,
            f"{found.layout.rows / found.loaded.copy_seconds:,.0f}",
            f"{found.loaded.index_seconds:.0f}",
            f"{found.index_seconds:.0f}",
            f"{found.insert_rate:,.0f}",
            "；".join(f"{size.name} {size.mib:.0f}" for size in found.sizes),
        ]
        for found in findings
    ]
    head = ["", "成批写入，行/秒", "建普通索引，秒", "建向量索引，秒", "带着索引导入，行/秒", "大小，MiB"]
    return table(head, rows)
