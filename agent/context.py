"""What a turn's graph works with: fixed for the turn, injected into every node."""

from __future__ import annotations

from dataclasses import dataclass

from agent.asking import Asker
from agent.recorder import TurnRecorder
from agent.tools.declaration import ToolContext
from agent.tools.registry import Toolbox


@dataclass(frozen=True, slots=True)
class TurnContext:
    """The turn's tools, its way to the model, its record and its limit of model calls."""

    asker: Asker
    toolbox: Toolbox
    recorder: TurnRecorder
    tools: ToolContext
    max_model_calls: int
    must_act: bool
    """Somebody waits for a reaction: prose without a call gets one correction."""
