"""What a tool is: a pure declaration. Facts of the turn are handed in, never asked of the model."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, Generic, Literal, Protocol, TypeVar, cast

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, ValidationError

from agent.snapshot import Snapshot
from agent.tools.coerce import ArgumentsBroken, coerce_arguments, explain
from db.memory_models import MemoryId
from db.models import Json, Kind
from db.pool import Database
from llm.memory.search import MessageSearch
from llm.memory.service import MemoryService
from llm.types import CallContext

Effect = Literal["read", "write", "outward"]
Outcome = Literal["spoke", "quiet", "no_tool_call", "step_limit", "time_limit", "nothing_new"]
MAX_SPOKEN = 3
MAX_ACTS = 3
"""Nudges, reactions and withdrawals in one turn."""
LARGEST = 10**18 - 1
"""Of labels and other numbers that models name."""
_LABEL = re.compile(r"\s*#?\s*(\d{1,18})(?!\d)")


class Refused(Exception):
    """The tool will not do it; the text is the result that the model reads (Chinese)."""


class CannotSpeak(Exception):
    """Nothing can be sent here now (muted, offline, removed): the turn cannot do its work."""


class ToolArgs(BaseModel):
    """Arguments of a tool; unknown ones are ignored."""

    model_config = ConfigDict(extra="ignore", frozen=True, coerce_numbers_to_str=True)

    def identity(self) -> str:
        """The canonical text by which a repeat of the same call is known."""
        return self.model_dump_json()

    def ending(self) -> Outcome | None:
        """How the call ends the turn when it succeeds, if it does."""
        return None


class NoArgs(ToolArgs):
    """A tool without arguments."""


def _read_label(given: object) -> object:
    """Read ``#12``, ``"12"``, ``[12]`` or ``#12 小明`` as 12; empty texts, truth values and 0 as nothing."""
    value = given
    if isinstance(given, list) and len(items := cast("list[object]", given)) == 1:
        value = items[0]
    if isinstance(value, str):
        if value.strip().lower() in ("", "none", "null", "无", "0"):
            return None
        match = _LABEL.match(value)
        return int(match.group(1)) if match else value
    return None if value == 0 or isinstance(value, bool) else value


def _storable(number: int | None) -> int | None:
    if number is not None and not 0 < number <= LARGEST:
        raise ValueError("no such number")
    return number


Label = Annotated[int, BeforeValidator(_read_label), AfterValidator(_storable)]
OptionalLabel = Annotated[int | None, BeforeValidator(_read_label), AfterValidator(_storable)]


@dataclass(slots=True)
class Ledger:
    """What this turn has done so far."""

    shown: set[int]
    """Labels that the model has seen."""
    shown_pos: int
    """The last position put before the model."""
    oldest: int = 0
    """The lowest label of the history as the prompt shows it."""
    spoken: int = 0
    acts: int = 0
    said: list[str] = field(default_factory=list[str])
    memories: set[MemoryId] = field(default_factory=set[MemoryId])
    """Memories that the model has seen."""
    saved: set[MemoryId] = field(default_factory=set[MemoryId])
    """Memories that this turn made."""
    saves: int = 0
    felt: bool = False
    """The mood was moved."""
    done: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])


@dataclass(frozen=True, slots=True)
class ToolContext:
    """What a tool may use."""

    snapshot: Snapshot
    database: Database
    memory: MemoryService
    search: MessageSearch
    ledger: Ledger
    clock: Callable[[], datetime]
    call: CallContext
    """On whose account tools call models."""
    sensitive: bool
    """Whether the owner lets sensitive traits of members be known."""


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What the model reads. ``ends`` ends the turn after this reply's other calls, ``at_once`` before them."""

    text: str
    ok: bool = True
    ends: Outcome | None = None
    at_once: bool = False


@dataclass(frozen=True, slots=True)
class Prepared:
    """A call with valid arguments, ready to run."""

    identity: str
    arguments: dict[str, Json]
    ending: Outcome | None
    run: Callable[[ToolContext], Awaitable[ToolResult]]


class AnyTool(Protocol):
    """A tool whatever its arguments."""

    @property
    def name(self) -> str:
        """What the model calls it."""
        ...

    @property
    def effect(self) -> Effect:
        """Whether it reads, writes or is seen by others."""
        ...

    @property
    def kinds(self) -> frozenset[Kind]:
        """Where it is offered."""
        ...

    @property
    def repeatable(self) -> bool:
        """Whether the same call may give something new within a turn."""
        ...

    def declare(self) -> dict[str, Json]:
        """The OpenAI function declaration."""
        ...

    def prepare(self, raw: Json) -> Prepared:
        """Mend and validate arguments. Raises ArgumentsBroken."""
        ...


A = TypeVar("A", bound=ToolArgs)
GROUP_ONLY: frozenset[Kind] = frozenset({"group"})
PRIVATE_ONLY: frozenset[Kind] = frozenset({"private"})
EVERYWHERE: frozenset[Kind] = GROUP_ONLY | PRIVATE_ONLY


@dataclass(frozen=True, slots=True)
class Tool(Generic[A]):
    """A tool's declaration. ``repeatable``: the same call may give something new within a turn."""

    name: str
    description: str
    args: type[A]
    effect: Effect
    run: Callable[[ToolContext, A], Awaitable[ToolResult]]
    kinds: frozenset[Kind] = EVERYWHERE
    repeatable: bool = False

    def declare(self) -> dict[str, Json]:
        """The OpenAI function declaration, as short as it can be."""
        parameters = _slim(self.args.model_json_schema())
        return {
            "type": "function",
            "function": {"name": self.name, "description": self.description, "parameters": parameters},
        }

    def prepare(self, raw: Json) -> Prepared:
        """Mend and validate arguments. Raises ArgumentsBroken."""
        try:
            args = self.args.model_validate(coerce_arguments(raw, self.args))
        except ValidationError as error:
            raise ArgumentsBroken(explain(error, self.args)) from error
        return Prepared(
            identity=args.identity(),
            arguments=args.model_dump(mode="json"),
            ending=args.ending(),
            run=lambda ctx: self.run(ctx, args),
        )


_NOISE = ("title", "default", "additionalProperties", "minLength", "minimum", "maximum")


def _slim(schema: dict[str, Json]) -> dict[str, Json]:
    """Drop what models do not need from a pydantic schema: titles, defaults, docstrings, ``null`` alternatives."""
    properties = schema.get("properties")
    fields: dict[str, Json] = {}
    if isinstance(properties, dict):
        fields = {name: _slim_field(value) for name, value in properties.items() if isinstance(value, dict)}
    slim: dict[str, Json] = {"type": "object", "properties": fields}
    if required := schema.get("required"):
        slim["required"] = required
    return slim


def _slim_field(schema: dict[str, Json]) -> dict[str, Json]:
    slim = {key: value for key, value in schema.items() if key not in _NOISE}
    options = slim.pop("anyOf", None)
    if isinstance(options, list):
        real = [option for option in options if isinstance(option, dict) and option.get("type") != "null"]
        if len(real) == 1:
            slim = {**real[0], **slim}
    return slim
