"""All tools, in the order in which every request declares them."""

from __future__ import annotations

import json
from collections.abc import Sequence

from agent.tools.acts import REACT, WITHDRAW
from agent.tools.declaration import AnyTool
from agent.tools.feelings import INTIMACY, MOOD
from agent.tools.forgetting import FORGET
from agent.tools.group import ESSENCE_LIST, MEMBER_INFO, NOTICE_LIST, POKE
from agent.tools.memory import ARCHIVE, SAVE, SEARCH
from agent.tools.messages import SEARCH_MESSAGES
from agent.tools.note import NOTE
from agent.tools.reading import NEW, RECENT
from agent.tools.slang import LOOK_UP_SLANG
from agent.tools.speak import PRIVATE_SPEAK, SPEAK, STAY_QUIET
from db.models import Json, Kind

TOOLS: Sequence[AnyTool] = (
    SPEAK,
    PRIVATE_SPEAK,
    STAY_QUIET,
    RECENT,
    NEW,
    MEMBER_INFO,
    NOTICE_LIST,
    ESSENCE_LIST,
    POKE,
    REACT,
    WITHDRAW,
    SEARCH,
    SEARCH_MESSAGES,
    LOOK_UP_SLANG,
    SAVE,
    ARCHIVE,
    NOTE,
    MOOD,
    INTIMACY,
    FORGET,
)


class Toolbox:
    """The tools of one kind of conversation, with their declarations as sent."""

    def __init__(self, kind: Kind, tools: Sequence[AnyTool] = TOOLS) -> None:
        chosen = [tool for tool in tools if kind in tool.kinds]
        self._by_name = {tool.name: tool for tool in chosen}
        self.declarations: tuple[dict[str, Json], ...] = tuple(tool.declare() for tool in chosen)
        self.declared_text = json.dumps(self.declarations, ensure_ascii=False, separators=(",", ":"))

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the tools, in order."""
        return tuple(self._by_name)

    def find(self, name: str) -> AnyTool | None:
        """Find a tool by name, whatever its case, separators and namespace (``functions.speak``)."""
        plain = _plain(name.rpartition(".")[2])
        return next((tool for known, tool in self._by_name.items() if _plain(known) == plain), None)


def toolboxes() -> dict[Kind, Toolbox]:
    """Make the tools of each kind of conversation."""
    return {"group": Toolbox("group"), "private": Toolbox("private")}


def _plain(name: str) -> str:
    return name.replace("_", "").replace("-", "").strip().lower()
