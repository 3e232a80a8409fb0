"""How much of a request the group's previous request already held: what a model service can take from its cache."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import cast

from db.models import Json, JsonObject
from llm.tokens import estimate

CACHED_PRICE = 0.2
"""What a repeated character costs beside a new one, about."""


@dataclass(frozen=True, slots=True)
class Prefix:
    """Mean characters of a request: repeated from the previous request, and new. ``tokens``: of all requests together."""

    requests: int
    repeated: float
    new: float
    tokens: int

    @property
    def share(self) -> float:
        """The repeated share of all characters."""
        return self.repeated / (self.repeated + self.new)

    @property
    def cost(self) -> float:
        """New characters, and a fifth of the repeated ones."""
        return self.new + CACHED_PRICE * self.repeated


@dataclass(frozen=True, slots=True)
class Body:
    """What one request shows the model, as JSON texts without spaces between, as they are sent."""

    tools: str
    messages: str

    @property
    def tools_first(self) -> str:
        """As it is sent, and as model services put it together."""
        return self.tools + self.messages

    @property
    def messages_first(self) -> str:
        """The other way round, for comparison."""
        return self.messages + self.tools


def read_body(raw: bytes) -> Body:
    """Take tools and messages out of a request as it was sent. Raises KeyError, ValueError."""
    body = cast("JsonObject", json.loads(raw))
    return Body(as_sent(body["tools"]), as_sent(body["messages"]))


def as_sent(value: Json) -> str:
    """Write JSON as it goes over the wire."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def measure(requests: Sequence[str]) -> Prefix:
    """Compare each request with the one before it. The first has none and counts for tokens only."""
    repeated = [common(one, other) for one, other in pairwise(requests)]
    total = sum(len(request) for request in requests[1:])
    count = len(repeated)
    tokens = sum(estimate(request) for request in requests)
    return Prefix(len(requests), sum(repeated) / count, (total - sum(repeated)) / count, tokens)


def common(one: str, other: str) -> int:
    """Count the characters that two texts have in common at their beginning."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((index for index, (left, right) in pairs if left != right), min(len(one), len(other)))
