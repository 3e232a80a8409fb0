"""The block of the group's slang that the snapshot holds."""

from __future__ import annotations

from agent.prompt.block import View


def slang(view: View) -> str:
    """Render the group's slang that the snapshot holds; empty without any."""
    return ""
