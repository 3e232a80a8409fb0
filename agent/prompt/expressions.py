"""The block of how the group says things, where it fits the snapshot."""

from __future__ import annotations

from agent.prompt.block import View


def expressions(view: View) -> str:
    """Render how the group says things, where it fits the snapshot; empty without any."""
    return ""
