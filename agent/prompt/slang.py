"""The block of the group's slang that the snapshot holds: one line each, as data that cannot forge a line or a notice."""

from __future__ import annotations

from agent.prompt.block import View
from db.learned_models import KnownSlang
from llm.hygiene import cut, one_line
from llm.tokens import estimate

MARKER = "【黑话】"
BUDGET = 350
TERM_CHARS = 40
MEANING_CHARS = 80


def slang(view: View) -> str:
    """Render the group's slang that the snapshot holds, most specific first, whole lines only; empty without any."""
    kept: list[str] = []
    for known in view.snapshot.learned.slang:
        line = slang_line(known)
        if estimate("\n".join([*kept, line])) > BUDGET:
            break
        kept.append(line)
    return "\n".join(kept)


def slang_line(known: KnownSlang) -> str:
    """Render ``【黑话】开黑：一起打游戏``, always one line."""
    return f"{MARKER}{one_line(known.term)[:TERM_CHARS]}：{cut(one_line(known.meaning), MEANING_CHARS)}"
