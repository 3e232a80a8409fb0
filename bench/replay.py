"""A group's day: what the requests cost, and how many of them a turn takes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench import brains, database
from bench.data.day import SEED, Said, make_day
from bench.data.groups import Group
from bench.database import Calls
from bench.model import FakeModel
from bench.napcat import FakeNapCat
from bench.prefix import Body, Prefix, as_sent, measure, read_body
from bench.process import NB_RUN, TOKEN, Process, bot_settings, scratch
from bench.report import Section, table, verdict
from db.models import Json
from db.pool import Connection
from plugins.chat.segments import read_segments, render

MESSAGES = 2_000
EVERY = 8
SPOKEN_SHARE = 1 / 3
WINDOW = 40
AIM_SHARE, AIM_NEW, AIM_COST, AIM_MIB = 0.85, 1_300, 2_700, 250
_SECONDS = 120.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the day left behind."""

    bodies: list[Body]
    calls: list[Calls]
    rss: float
    rss_with_launcher: float


async def run(*, small: bool) -> Section:
    """Play the day to the bot."""
    count = 160 if small else MESSAGES
    group = Group(0)
    day = make_day(group, count, every=EVERY)
    with scratch() as folder:
        outcome = await _play(Path(folder) / "bot", group, day)
    sliding = measure(list(_sliding(day, outcome.bodies[0])))
    return Section("replay", f"回放：一个群的一天，{count:,} 条消息", _told(day, outcome, sliding))


async def _play(data_dir: Path, group: Group, day: Sequence[Said]) -> Outcome:
    settings = {"DEBOUNCE_SECONDS": "0.05", "DEBOUNCE_MAX_SECONDS": "1"}
    async with (
        FakeModel(brains.speaks_sometimes(SEED, share=SPOKEN_SHARE)) as model,
        Process(NB_RUN, data_dir, bot_settings([group], model, **settings)) as process,
        database.embedded(data_dir) as conn,
        FakeNapCat(process.port, TOKEN, [group]) as napcat,
    ):
        await napcat.caught_up()
        for said in day:
            event = group.message(said.person, list(said.segments))
            await napcat.send(json.dumps(event, ensure_ascii=False))
            if said.calls:
                await asyncio.wait_for(_turn_over(conn, group.recent[-1]), _SECONDS)
        await asyncio.sleep(1)  # usage is written behind the turn's back
        return Outcome(
            [read_body(request.body) for request in model.requests],
            await database.calls_by_outcome(conn),
            process.rss(),
            process.rss_with_launcher(),
        )


async def _turn_over(conn: Connection, message_id: int) -> None:
    await database.wait_for(lambda: database.turn_ended(conn, message_id))


def _sliding(day: Sequence[Said], first: Body) -> list[str]:
    """The plain baseline: the same tools and system message, and one message with the last lines, a new one each turn."""
    messages = json.loads(first.messages)
    system = messages[0]
    lines = [f"{said.person.card or said.person.nickname}: {_read(said.segments)}" for said in day]
    requests: list[str] = []
    for end, said in enumerate(day, 1):
        if said.calls:
            history = {"role": "user", "content": "\n".join(lines[max(0, end - WINDOW) : end])}
            requests.append(first.tools + as_sent([system, history]))
    return requests


def _read(segments: Sequence[Json]) -> str:
    return render(read_segments(list(segments)).parts, lambda _: None).body


def _told(day: Sequence[Said], outcome: Outcome, sliding: Prefix) -> str:
    tools_first = measure([body.tools_first for body in outcome.bodies])
    messages_first = measure([body.messages_first for body in outcome.bodies])
    mean = sum(len(_read(said.segments)) for said in day) / len(day)
    ways = {
        "机器人，工具在前（发出的次序，模型服务也这样拼）": tools_first,
        "机器人，消息在前": messages_first,
        f"基线：同样的工具和系统消息，最近 {WINDOW} 条逐条滑动": sliding,
    }
    rows = [
        [
            label,
            f"{way.repeated + way.new:,.0f}",
            f"{way.repeated:,.0f}",
            f"{way.new:,.0f}",
            f"{way.share:.3f}",
            f"{way.cost:,.0f}",
            f"{way.tokens * 1000 / len(day):,.0f}",
        ]
        for label, way in ways.items()
    ]
    calls = [[item.outcome, f"{item.turns}", f"{item.calls}", f"{item.calls / item.turns:.2f}"] for item in outcome.calls]
    return "\n\n".join(
        (
            f"{len({said.person.user_id for said in day})} 个人，平均 {mean:.1f} 个字，每 {EVERY} 条 @ 一次机器人，"
            f"所以每 {EVERY} 条一轮；假模型即答，约三分之一的轮说话。机器人自己说的也在历史里。"
            "字符数按发出的 JSON（工具和消息）数；重复是与同群上一个请求的最长公共前缀。"
            "基线的窗口总是 40 条，也没有机器人自己的话；机器人的窗口是 40 到 79 条，所以请求更长。",
            table(["", "字符/请求", "重复", "新", "重复率", "新 + 0.2 × 重复", "词元/千条群消息"], rows),
            f"目标：重复率 ≥ {AIM_SHARE}：{verdict(tools_first.share >= AIM_SHARE)}（{tools_first.share:.3f}）；"
            f"新 ≤ {AIM_NEW:,}：{verdict(tools_first.new <= AIM_NEW)}（{tools_first.new:,.0f}）；"
            f"新 + 0.2 × 重复 ≤ {AIM_COST:,}：{verdict(tools_first.cost <= AIM_COST)}（{tools_first.cost:,.0f}）。"
            "词元按 `llm.tokens.estimate` 估，不计缓存。",
            table(["轮的结果", "轮", "模型调用", "每轮调用"], calls),
            f"目标每轮 1 次：{verdict(all(item.turns == item.calls for item in outcome.calls))}。",
            f"回放之后的常驻内存：机器人的 Python 进程 {outcome.rss:.0f} MiB，连同 `nb run` 的启动进程 "
            f"{outcome.rss_with_launcher:.0f} MiB。目标（机器人进程）≤ {AIM_MIB} MiB：{verdict(outcome.rss <= AIM_MIB)}。",
        )
    )
