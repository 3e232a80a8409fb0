"""What the bot is called in each conversation: BOT_NAMES, else the names of the persona that speaks there."""

from __future__ import annotations

import time
from dataclasses import dataclass

from nonebot.log import logger

from persona.loader import PersonaMissing, Personas
from plugins.chat.callnames import NameMatcher
from settings import Settings

FRESH_SECONDS = 5.0
_MATCHERS = 100


@dataclass(frozen=True, slots=True)
class _Read:
    names: tuple[str, ...]
    at: float


class CallNames:
    """Gives the matcher of a persona. Persona files are looked at every few seconds, not for every message."""

    def __init__(self, personas: Personas, settings: Settings) -> None:
        """Raises PersonaMissing when there is no usable persona as the settings name it."""
        self._personas = personas
        self._fixed = bool(settings.bot_names)
        self._default = tuple(settings.bot_names or personas.get(settings.persona).names)
        self._persona = settings.persona
        self._read: dict[str, _Read] = {}
        self._matchers: dict[tuple[str, ...], NameMatcher] = {}

    @property
    def own_name(self) -> str:
        """What the bot is called before QQ has told its nickname."""
        return self._default[0] if self._default else ""

    def of(self, persona: str | None) -> NameMatcher:
        """Give the matcher for a conversation with this persona; None: the settings' one."""
        names = self._default if self._fixed else self._names(persona or self._persona)
        matcher = self._matchers.get(names)
        if matcher is None:
            if len(self._matchers) >= _MATCHERS:
                self._matchers.clear()
            matcher = self._matchers[names] = NameMatcher(names)
        return matcher

    def _names(self, persona: str) -> tuple[str, ...]:
        now = time.monotonic()
        known = self._read.get(persona)
        if known is not None and now - known.at < FRESH_SECONDS:
            return known.names
        try:
            names = self._personas.get(persona).names
        except PersonaMissing as error:
            logger.warning(f"名字按默认人格的来：{error}")
            names = self._default
        if len(self._read) >= _MATCHERS:
            self._read.clear()
        self._read[persona] = _Read(names, now)
        return names
