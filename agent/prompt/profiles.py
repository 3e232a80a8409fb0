"""The block of what is known of the last speakers and of who is named."""

from __future__ import annotations

from agent.prompt.block import View


def profiles(view: View) -> str:
    """Render what is known of the last speakers and of who is named; empty without any."""
    return ""
