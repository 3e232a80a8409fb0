"""Queries of turns: each change of state is an UPDATE that names the state it expects."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from psycopg.errors import UniqueViolation
from psycopg.rows import class_row, scalar_row

from db.models import ConversationId, Trigger, TurnId, TurnStatus
from db.pool import Connection


@dataclass(frozen=True, slots=True)
class End:
    """How a running turn ends. ``shown_pos``: the last position that its model was shown."""

    status: TurnStatus
    outcome: str | None = None
    error: str | None = None
    shown_pos: int | None = None


@dataclass(frozen=True, slots=True)
class Live:
    """A turn that counts as running, and the process that said so."""

    id: TurnId
    conversation_id: ConversationId
    worker: str


async def queue(
    conn: Connection, conversation_id: ConversationId, *, account_id: int, trigger: Trigger, persona: str, from_pos: int
) -> TurnId:
    """Write down a turn that is about to run."""
    async with conn.cursor(row_factory=scalar_row) as cur:
        await cur.execute(
            """
            INSERT INTO turns (conversation_id, account_id, trigger, persona, from_pos)
            VALUES (%(conversation)s, %(account)s, %(trigger)s, %(persona)s, %(from_pos)s)
            RETURNING id
            """,
            {
                "conversation": conversation_id,
                "account": account_id,
                "trigger": trigger,
                "persona": persona,
                "from_pos": from_pos,
            },
        )
        value = await cur.fetchone()
        return TurnId(int(value or 0))


async def hurry(conn: Connection) -> None:
    """Let this transaction's commit not wait for the disk: after a power cut it may be missing, nothing is torn.

    For rows whose loss costs nothing: a turn that just began would be interrupted by the power cut anyway.
    """
    await conn.execute("SET LOCAL synchronous_commit TO off")


async def start(conn: Connection, turn_id: TurnId, *, worker: str, lease: float) -> bool:
    """queued → running with a lease of so many seconds; False when the conversation has a running turn already."""
    try:
        async with conn.transaction():
            cur = await conn.execute(
                """
                UPDATE turns
                SET status = 'running', started_at = now(), worker = %(worker)s,
                    lease_until = now() + %(lease)s * interval '1 second'
                WHERE id = %(id)s AND status = 'queued'
                """,
                {"id": turn_id, "worker": worker, "lease": lease},
            )
    except UniqueViolation:
        return False
    return cur.rowcount > 0


async def renew(conn: Connection, turn_id: TurnId, *, worker: str, lease: float) -> bool:
    """Extend the lease of an own running turn; False when the turn is no longer ours."""
    cur = await conn.execute(
        """
        UPDATE turns SET lease_until = now() + %(lease)s * interval '1 second'
        WHERE id = %(id)s AND status = 'running' AND worker = %(worker)s
        """,
        {"id": turn_id, "worker": worker, "lease": lease},
    )
    return cur.rowcount > 0


async def finish(conn: Connection, turn_id: TurnId, *, worker: str, end: End) -> bool:
    """running → an end, by the process that runs it; False when the turn is no longer ours."""
    cur = await conn.execute(
        """
        UPDATE turns
        SET status = %(status)s, outcome = %(outcome)s, error = %(error)s, shown_pos = %(shown)s, ended_at = now(),
            lease_until = NULL
        WHERE id = %(id)s AND status = 'running' AND worker = %(worker)s
        """,
        {
            "id": turn_id,
            "worker": worker,
            "status": end.status,
            "outcome": end.outcome,
            "error": end.error,
            "shown": end.shown_pos,
        },
    )
    return cur.rowcount > 0


async def drop(conn: Connection, turn_id: TurnId, *, error: str) -> bool:
    """queued → cancelled."""
    cur = await conn.execute(
        "UPDATE turns SET status = 'cancelled', error = %(error)s, ended_at = now() WHERE id = %(id)s AND status = 'queued'",
        {"id": turn_id, "error": error},
    )
    return cur.rowcount > 0


async def advance_watermark(conn: Connection, conversation_id: ConversationId, shown_pos: int) -> None:
    """Move the watermark over what a finished turn showed; it never moves back."""
    await conn.execute(
        """
        UPDATE conversations
        SET watermark = greatest(watermark, least(%(shown)s, last_pos)), updated_at = now()
        WHERE id = %(id)s
        """,
        {"id": conversation_id, "shown": shown_pos},
    )


async def running(conn: Connection) -> list[Live]:
    """List the turns that count as running, of every process."""
    async with conn.cursor(row_factory=class_row(Live)) as cur:
        await cur.execute(
            "SELECT id, conversation_id, coalesce(worker, '') AS worker FROM turns WHERE status = 'running' ORDER BY id"
        )
        return await cur.fetchall()


async def interrupt_lost(conn: Connection, *, dead_workers: Sequence[str]) -> dict[TurnId, ConversationId]:
    """running → interrupted for turns whose lease ran out or whose process is known to be gone."""
    cur = await conn.execute(
        """
        UPDATE turns
        SET status = 'interrupted', error = coalesce(error, '进程中断'), ended_at = now(), lease_until = NULL
        WHERE status = 'running' AND (lease_until < now() OR worker = ANY(%(dead)s))
        RETURNING id, conversation_id
        """,
        {"dead": list(dead_workers)},
    )
    return {TurnId(turn): ConversationId(conversation) for turn, conversation in await cur.fetchall()}


async def cancel_queued(conn: Connection, *, older_than: float) -> int:
    """queued → cancelled for turns that no process took up within so many seconds; returns how many."""
    cur = await conn.execute(
        """
        UPDATE turns SET status = 'cancelled', error = '进程中断', ended_at = now()
        WHERE status = 'queued' AND queued_at < now() - %(age)s * interval '1 second'
        """,
        {"age": older_than},
    )
    return cur.rowcount
