"""How a batch reads for the model: one line for each message, which nobody can forge. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from zoneinfo import ZoneInfo

from db.history import Line
from learner.task import Batch
from llm.lines import day_clock, render_line

LINE_CHARS = 300
GAP = timedelta(minutes=10)
CONTEXT_MARK = "（以上只是前文，不能当证据）"
_PROMPTS = Path(__file__).resolve().parent / "prompts"


@cache
def instructions(task: str) -> str:
    """What to do, in words: ``prompts/<task>.md``."""
    return (_PROMPTS / f"{task}.md").read_text(encoding="utf-8").strip()


def transcript(batch: Batch, zone: ZoneInfo) -> str:
    """Render a batch: what is only context first, then a mark, then the fresh lines; the time where some passed."""
    before = [line for line in batch.lines if line.pos not in batch.fresh]
    fresh = [line for line in batch.lines if line.pos in batch.fresh]
    head = [*_said(before, zone), CONTEXT_MARK] if before else []
    return "\n".join([*head, *_said(fresh, zone)])


def _said(lines: Sequence[Line], zone: ZoneInfo) -> Iterator[str]:
    """Render lines, a time of its own line before the first and wherever GAP passed: on each line it would cost a third."""
    told: datetime | None = None
    for line in lines:
        if told is None or line.sent_at - told >= GAP:
            told = line.sent_at
            yield f"（{day_clock(told, zone)}）"
        yield render_line(line, "", limit=LINE_CHARS)
