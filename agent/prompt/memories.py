"""The block of recalled memories: one line each, as data that cannot forge a line or a notice."""

from __future__ import annotations

from datetime import datetime
from zoneinfo import ZoneInfo

from agent.prompt.block import View
from agent.snapshot import Remembered, Snapshot
from db.memory_models import MemoryId
from llm.hygiene import cut, one_line
from llm.tokens import estimate

MARKER = "【记得】"
BUDGET = 350
CONTENT_CHARS = 120


def memories(view: View) -> str:
    """What the conversation brings to mind, best first."""
    return "\n".join(memory_line(item, view.snapshot.zone) for item in fitting(view.snapshot))


def fitting(snapshot: Snapshot) -> tuple[Remembered, ...]:
    """The recalled memories whose whole lines fit into the budget."""
    kept: list[Remembered] = []
    text = ""
    for item in snapshot.memories:
        text += memory_line(item, snapshot.zone) + "\n"
        if estimate(text) > BUDGET:
            break
        kept.append(item)
    return tuple(kept)


def memory_line(item: Remembered, zone: ZoneInfo) -> str:
    """Render ``【记得】m12 小明[3]：喜欢猫（2026-10-02）``, always one line."""
    content = cut(one_line(item.memory.content), CONTENT_CHARS)
    return f"{MARKER}{memory_label(item.memory.id)} {item.about}：{content}（{day(item.memory.created_at, zone)}）"


def memory_label(memory_id: MemoryId) -> str:
    """The name of a memory for the model: ``m12``."""
    return f"m{memory_id}"


def day(moment: datetime, zone: ZoneInfo) -> str:
    """Local date."""
    return f"{moment.astimezone(zone):%Y-%m-%d}"
