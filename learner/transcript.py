"""How a batch reads for the model: one line for each message, which nobody can forge. Pure."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from zoneinfo import ZoneInfo

from db.history import Line
from learner.task import Batch
from llm.lines import day_clock, render_line

LINE_CHARS = 300
CONTEXT_MARK = "（以上只是前文，不能当证据）"
_PROMPTS = Path(__file__).resolve().parent / "prompts"


@cache
def instructions(task: str) -> str:
    """What to do, in words: ``prompts/<task>.md``."""
    return (_PROMPTS / f"{task}.md").read_text(encoding="utf-8").strip()


def transcript(batch: Batch, zone: ZoneInfo) -> str:
    """Render a batch: what is only context first, then a mark, then the fresh lines."""
    before = [line for line in batch.lines if line.pos not in batch.fresh]
    fresh = [line for line in batch.lines if line.pos in batch.fresh]
    head = [*(_line(line, zone) for line in before), CONTEXT_MARK] if before else []
    return "\n".join([*head, *(_line(line, zone) for line in fresh)])


def _line(line: Line, zone: ZoneInfo) -> str:
    return render_line(line, day_clock(line.sent_at, zone), limit=LINE_CHARS)
