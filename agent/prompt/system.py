"""The blocks that stay the same from turn to turn: persona, rules, the conversation's own agreement."""

from __future__ import annotations

from agent.prompt.block import View
from agent.prompt.texts import template
from llm.hygiene import guard


def persona(view: View) -> str:
    """Who the bot is."""
    return view.snapshot.persona.text


def rules(view: View) -> str:
    """How to read the history and how to act."""
    names = "、".join(view.snapshot.names)
    return template(f"rules_{view.snapshot.request.conversation.kind}").replace("{names}", names)


def agreement(view: View) -> str:
    """What the owner wrote for this conversation alone."""
    text = view.snapshot.request.conversation.extra_prompt.strip()
    return f"# 这个会话的约定（主人写的）\n{guard(text)}" if text else ""
