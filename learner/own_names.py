"""What the bot is called in a conversation: no term, phrase or alias of the group."""

from __future__ import annotations

from db.models import Conversation
from persona.loader import PersonaMissing, Personas
from settings import Settings


def own_names(personas: Personas, settings: Settings, conversation: Conversation) -> tuple[str, ...]:
    """List the names that people call the bot by there."""
    try:
        persona = personas.get(conversation.persona or settings.persona).names
    except PersonaMissing:
        persona = ()
    return (*settings.bot_names, *persona)
