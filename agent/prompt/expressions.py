"""The block of how the group says things, where it fits the snapshot: one line each, as data that cannot forge a line."""

from __future__ import annotations

from agent.prompt.block import View
from db.learned_models import KnownExpression
from llm.hygiene import cut, one_line
from llm.tokens import estimate

MARKER = "【表达】"
BUDGET = 150
CHARS = 40


def expressions(view: View) -> str:
    """Render how the group says things, where it fits the snapshot, whole lines only; empty without any."""
    kept: list[str] = []
    for known in view.snapshot.learned.expressions:
        line = expression_line(known)
        if estimate("\n".join([*kept, line])) > BUDGET:
            break
        kept.append(line)
    return "\n".join(kept)


def expression_line(known: KnownExpression) -> str:
    """Render ``【表达】有人说自己熬夜 → 又修仙呢``, always one line."""
    return f"{MARKER}{cut(one_line(known.situation), CHARS)} → {cut(one_line(known.phrase), CHARS)}"
