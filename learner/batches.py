"""Reads what a task learns next, as one batch."""

from __future__ import annotations

from dataclasses import dataclass

from db import learner, learner_batches
from db.history import lines_at
from db.learner_batches import Stretch
from db.models import Conversation
from db.pool import Database
from learner.task import Batch, Task
from learner.transcript import LINE_CHARS

CONTEXT = 10
"""Lines before a batch that were learned already."""
CHARS = 12_000
"""Of a batch for a model."""
RAW = 4
"""So many messages of any kind for each that may be evidence."""


@dataclass(frozen=True, slots=True)
class Reach:
    """How much a batch takes: at most ``sources`` messages that may be evidence.

    ``bare``: these and nothing else are shown, so that one which a model cannot answer is found. ``beyond``: from this
    position on instead of from the cursor.
    """

    sources: int
    bare: bool = False
    beyond: int | None = None


async def read_batch(database: Database, place: Conversation, task: Task, reach: Reach) -> Batch | None:
    """Read the next batch; None: nothing is left, or the task it comes after is not further. Raises DatabaseUnavailable."""
    async with database.connection() as conn:
        from_pos = await learner.cursor(conn, place.id, task.name) if reach.beyond is None else reach.beyond
        if task.after is None:
            upto = await learner_batches.end(conn, place.id)
        else:
            upto = await learner.cursor(conn, place.id, task.after)
        if upto <= from_pos:
            return None
        stretch = Stretch(
            conversation_id=place.id,
            task=task.name,
            after=from_pos,
            upto=upto,
            sources=reach.sources,
            chars=CHARS if task.needs_model else LINE_CHARS * RAW * reach.sources,
            rows=RAW * max(reach.sources, CONTEXT),
        )
        found = await learner_batches.read(conn, stretch, line_chars=LINE_CHARS)
        if not found:
            return None
        ahead = {item.pos: item.row for item in found if (item.source if reach.bare else item.shown)}
        past = [] if reach.bare else await learner_batches.before(conn, place.id, task.name, from_pos, limit=CONTEXT)
        rows = {**await learner_batches.rows_at(conn, place.id, past), **ahead}
        lines = await lines_at(conn, place.id, [*past, *ahead])
    standing = {line.pos for line in lines}
    return Batch(
        conversation=place,
        task=task.name,
        lines=tuple(lines),
        fresh=frozenset(standing.intersection(ahead)),
        sources=frozenset(item.pos for item in found if item.source and item.pos in standing),
        rows={pos: row for pos, row in rows.items() if pos in standing},
        from_pos=from_pos,
        upto=found[-1].pos,
    )
