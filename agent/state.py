"""What a turn's graph carries from node to node."""

from __future__ import annotations

import operator
from typing import Annotated

from langchain_core.messages import BaseMessage
from typing_extensions import TypedDict

from agent.tools.declaration import Outcome
from agent.tools.execute import Call


class TurnState(TypedDict):
    """``exchange`` is what this turn added after its prompt; ``calls`` are those of the latest reply."""

    exchange: Annotated[list[BaseMessage], operator.add]
    calls: list[Call]
    model_calls: int
    tool_calls: int
    corrected: bool
    outcome: Outcome | None


def fresh_state() -> TurnState:
    """The state before the first model call."""
    return TurnState(exchange=[], calls=[], model_calls=0, tool_calls=0, corrected=False, outcome=None)
