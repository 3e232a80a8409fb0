"""What one turn knows: the conversation at one instant, and the facts of the turn itself."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from agent.ports import TurnRequest
from agent.prompt.history import Chunk, split_chunks
from db.history import Line, SnapshotRows, read_snapshot
from db.learned_models import Learned
from db.memory_models import Memory
from db.mind import Mind, read_mind
from db.pool import Database
from llm.hygiene import plain_name
from persona.loader import Persona
from settings import Settings

OWN_RECENT = timedelta(minutes=2)


@dataclass(frozen=True, slots=True)
class Remembered:
    """A recalled memory, and whom it is about as the prompt says it: ``小明[3]``, ``群里``, ``你``."""

    memory: Memory
    about: str


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything that the prompt of a turn is made from. Immutable: what comes later is the tools' affair."""

    request: TurnRequest
    persona: Persona
    names: tuple[str, ...]
    rows: SnapshotRows
    chunks: tuple[Chunk, ...]
    now: datetime
    zone: ZoneInfo
    mind: Mind
    memories: tuple[Remembered, ...] = ()
    """What it brings to mind, best first."""
    learned: Learned = field(default_factory=Learned)
    """What the learner found and it touches."""

    @property
    def last_pos(self) -> int:
        """The highest position that the snapshot covers."""
        return self.rows.last_pos

    @property
    def owed(self) -> tuple[int, ...]:
        """The labels that wait for a reaction, oldest first."""
        return tuple(item.pos for item in self.rows.owed)

    @property
    def lines(self) -> tuple[Line, ...]:
        """All visible messages of the snapshot, the earlier owed ones first."""
        return self.rows.earlier + self.rows.lines

    @property
    def first_unread(self) -> int | None:
        """The lowest unread position that a person or robot wrote, if any."""
        unread = [line.pos for line in self.rows.lines if line.pos > self.rows.watermark and not line.is_self]
        return min(unread, default=None)

    @property
    def unread(self) -> tuple[Line, ...]:
        """The messages of others that no finished turn has shown, oldest first."""
        owed = set(self.owed)
        return tuple(line for line in self.lines if not line.is_self and (line.pos > self.rows.watermark or line.pos in owed))

    def people(self) -> dict[int, Line]:
        """The latest line of everybody but the bot who appears, by QQ number, latest speaker first."""
        latest = {line.sender_id: line for line in self.lines if not line.is_self}
        return dict(sorted(latest.items(), key=lambda item: -item[1].pos))

    def names_to_ids(self) -> dict[str, set[int]]:
        """QQ numbers by the name that the lines show."""
        found: dict[str, set[int]] = {}
        for line in self.lines:
            if not line.is_self:
                found.setdefault(plain_name(line.sender_name), set()).add(line.sender_id)
        return found


async def take_snapshot(
    database: Database, settings: Settings, request: TurnRequest, persona: Persona, now: datetime
) -> Snapshot:
    """Read the conversation once, consistently."""
    where = request.conversation.id
    async with database.connection() as conn:
        rows = await read_snapshot(conn, where, chunk=settings.context_messages, since=now - OWN_RECENT)
        present = {line.sender_id for line in rows.earlier + rows.lines if not line.is_self}
        mind = await read_mind(conn, where, sorted(present), now)
    return Snapshot(
        request=request,
        persona=persona,
        names=settings.bot_names or persona.names,
        rows=rows,
        chunks=tuple(split_chunks(rows.lines, settings.context_messages)),
        now=now,
        zone=settings.zone,
        mind=mind,
    )
