"""The block of the topics that the snapshot touches."""

from __future__ import annotations

from agent.prompt.block import View


def topics(view: View) -> str:
    """Render the topics that the snapshot touches; empty without any."""
    return ""
