"""The block of what is known of the last speakers and of who is named: one line for each, which nobody can forge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from agent.prompt.block import View
from db.history import Line
from db.learned_models import KnownTrait, TraitKind
from llm.hygiene import cut, one_line, plain_name
from llm.lines import speaker
from llm.tokens import estimate

MARKER = "【画像】"
BUDGET = 350
CHARS = 60
KINDS: Mapping[TraitKind, str] = {"alias": "别名", "interest": "兴趣", "style": "说话", "relation": "关系", "fact": "情况"}


def profiles(view: View) -> str:
    """Render what is known of the last speakers and of who is named, whole lines only; empty without any."""
    people = view.snapshot.people()
    by_user: dict[int, list[KnownTrait]] = {}
    for known in view.snapshot.learned.traits:
        by_user.setdefault(known.user_id, []).append(known)
    kept: list[str] = []
    for user, found in by_user.items():
        line = profile_line(found, people.get(user))
        if estimate("\n".join([*kept, line])) > BUDGET:
            break
        kept.append(line)
    return "\n".join(kept)


def profile_line(found: Sequence[KnownTrait], seen: Line | None) -> str:
    """Render ``【画像】小明[3]：兴趣 爬山；说话 爱用反问``: one member's traits, named as the lines of the snapshot do."""
    tag = speaker(seen) if seen is not None else f"{plain_name(found[0].name)}[{found[0].no}]"
    return f"{MARKER}{tag}：{traits_told(found)}"


def traits_told(found: Sequence[KnownTrait]) -> str:
    """Tell traits on one line, those of one kind together."""
    by_kind: dict[TraitKind, list[str]] = {}
    for known in found:
        by_kind.setdefault(known.kind, []).append(cut(one_line(known.content), CHARS))
    return "；".join(f"{KINDS[kind]} {'，'.join(contents)}" for kind, contents in by_kind.items())
