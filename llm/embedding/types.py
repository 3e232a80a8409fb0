"""What the parts of the embedding service hand to each other."""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

from llm.errors import EmbeddingUnavailable

TextKind = Literal["query", "passage"]
Values: TypeAlias = "array[float]"
"""A vector of unit length, in 32-bit floats."""
Outcome: TypeAlias = "Values | EmbeddingUnavailable"
"""What became of one text: its vector, or why there is none."""
State = Literal["off", "starting", "ok", "down"]

CANARY = "你好"
"""A text that every model takes: tells a text that is refused from a service that refuses everything."""
MAX_DIM = 16_000
"""The widest vector that the database stores."""


class EmbeddingRefused(EmbeddingUnavailable):
    """This text gets no vector, others do; asking again will not help."""


class ServiceAway(EmbeddingUnavailable):
    """No text gets a vector now. ``retry_after`` in seconds, when it is known to take that long."""

    def __init__(self, reason: str, *, retry_after: float | None = None) -> None:
        super().__init__(reason)
        self.retry_after = retry_after


class NoBackend(ServiceAway):
    """No text will get a vector until the bot is started anew with other settings or packages."""


class TextsRefused(Exception):
    """The service refused a request for what stands in it; the text is Chinese."""


@dataclass(frozen=True, slots=True)
class Space:
    """An embedding space's row: vectors of one model with one dimension."""

    id: int
    model: str
    dim: int


@dataclass(frozen=True, slots=True)
class Identity:
    """What a backend is. ``near``: the cosine from which two short claims may say the same; None: not known."""

    model: str
    dim: int
    near: float | None


@dataclass(frozen=True, slots=True)
class Limits:
    """What a backend takes at once: ``texts`` and ``chars`` of a batch, and how many batches in a row are ``fetched``.

    The first text of a batch always fits. Batches are small where a question would have to wait for one.
    """

    texts: int
    chars: int
    fetched: int = 1


@dataclass(frozen=True, slots=True)
class Counts:
    """How many rows there are, and how many of them have a vector of the current space."""

    memories_total: int = 0
    memories_done: int = 0
    messages_total: int = 0
    messages_done: int = 0

    @property
    def total(self) -> int:
        """All rows."""
        return self.memories_total + self.messages_total

    @property
    def done(self) -> int:
        """All rows with a vector of the current space."""
        return self.memories_done + self.messages_done


@dataclass(frozen=True, slots=True)
class EmbeddingStatus:
    """How the embedding service is and how far it got. ``dim`` is None until it is known. ``detail`` is Chinese."""

    state: State
    model: str
    dim: int | None
    memories_total: int
    memories_done: int
    messages_total: int
    messages_done: int
    detail: str


class Backend(Protocol):
    """Where vectors come from: a service, or a model in this process."""

    @property
    def model(self) -> str:
        """The model's name, as far as it is known before ``identify``."""
        ...

    @property
    def limits(self) -> Limits:
        """What it takes at once."""
        ...

    @property
    def local(self) -> bool:
        """Whether it works on this machine's processors, one batch at a time."""
        ...

    async def identify(self) -> Identity:
        """Get ready and tell what it is. Raises ServiceAway."""
        ...

    async def embed(self, kind: TextKind, texts: Sequence[str]) -> list[Values | None]:
        """Give one vector of unit length a text, in order; None where it gave none that is usable.

        ``texts`` are fit (see ``fit``) and not empty. Raises ServiceAway, TextsRefused.
        """
        ...

    async def reach(self) -> str | None:
        """Find out cheaply whether it answers; returns why not, in Chinese."""
        ...

    async def aclose(self) -> None:
        """Let go of everything."""
        ...


def fit(text: str, chars: int) -> str:
    """Make a text safe for any model: no NUL, no lone surrogates, no outer blanks, at most ``chars`` long; may be empty."""
    return text[: 2 * chars].replace("\x00", " ").encode("utf-8", "replace").decode().strip()[:chars]


def unit(raw: Sequence[float | None]) -> Values | None:
    """Bring a vector to unit length; None for one with a hole, without direction or not finite."""
    numbers = [value for value in raw if value is not None]
    if len(numbers) != len(raw):
        return None
    norm = math.hypot(*numbers)
    if not math.isfinite(norm) or norm < 1e-12:
        return None
    return array("f", [value / norm for value in numbers])
