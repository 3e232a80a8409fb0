"""Queries of the outbox: every message has a row before it leaves, and exactly one end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from psycopg.rows import class_row, scalar_row
from psycopg.types.json import Jsonb

from db.models import ConversationId, JsonObject, MessageRow, OutboxId, SendReason, SendStatus, TurnId
from db.pool import Connection


@dataclass(frozen=True, slots=True)
class NewSend:
    """A message that wants to leave. ``text`` is what a reader will see."""

    conversation_id: ConversationId
    account_id: int
    turn_id: TurnId | None
    segments: tuple[JsonObject, ...]
    text: str


@dataclass(frozen=True, slots=True)
class OwnMessage:
    """An own message that may be withdrawn, under the id its account knows."""

    message_id: int
    sent_at: datetime


@dataclass(frozen=True, slots=True)
class Unsettled:
    """A send of which nobody knows whether it arrived."""

    id: OutboxId
    conversation_id: ConversationId
    account_id: int
    turn_id: TurnId | None
    text: str
    created_at: datetime


async def put(conn: Connection, send: NewSend) -> OutboxId:
    """Write the message down before it leaves."""
    async with conn.cursor(row_factory=scalar_row) as cur:
        await cur.execute(
            """
            INSERT INTO outbox (conversation_id, account_id, turn_id, segments, text)
            VALUES (%(conversation)s, %(account)s, %(turn)s, %(segments)s, %(text)s)
            RETURNING id
            """,
            {
                "conversation": send.conversation_id,
                "account": send.account_id,
                "turn": send.turn_id,
                "segments": Jsonb(list(send.segments)),
                "text": send.text,
            },
        )
        value = await cur.fetchone()
        return OutboxId(int(value or 0))


async def leave(conn: Connection, outbox_id: OutboxId) -> bool:
    """waiting → sending, just before the socket gets it; False when it was cancelled meanwhile."""
    cur = await conn.execute(
        "UPDATE outbox SET status = 'sending', left_at = now() WHERE id = %(id)s AND status = 'waiting'", {"id": outbox_id}
    )
    return cur.rowcount > 0


async def sent(conn: Connection, outbox_id: OutboxId, *, message_id: int, message: MessageRow) -> None:
    """sending or unknown → sent: QQ gave it an id."""
    await conn.execute(
        """
        UPDATE outbox
        SET status = 'sent', message_id = %(key)s, message = %(message)s, reason = NULL, settled_at = now()
        WHERE id = %(id)s AND status IN ('sending', 'unknown')
        """,
        {"id": outbox_id, "key": message_id, "message": message},
    )


async def failed(conn: Connection, outbox_id: OutboxId, *, status: SendStatus, reason: SendReason, detail: str) -> None:
    """sending (or unknown, after its turn was stopped) → refused or unknown, with what NapCat said."""
    await conn.execute(
        """
        UPDATE outbox
        SET status = %(status)s, reason = %(reason)s, detail = %(detail)s,
            settled_at = CASE WHEN %(status)s = 'unknown' THEN NULL ELSE now() END
        WHERE id = %(id)s AND status IN ('sending', 'unknown')
        """,
        {"id": outbox_id, "status": status, "reason": reason, "detail": detail},
    )


async def cancel(conn: Connection, outbox_id: OutboxId, *, detail: str) -> None:
    """waiting → cancelled."""
    await conn.execute(
        """
        UPDATE outbox SET status = 'cancelled', detail = %(detail)s, settled_at = now()
        WHERE id = %(id)s AND status = 'waiting'
        """,
        {"id": outbox_id, "detail": detail},
    )


async def cancel_waiting(conn: Connection, conversation_id: ConversationId, *, detail: str, account_id: int | None = None) -> int:
    """Cancel everything in a conversation that has not left, or what one account wanted to say; returns how many."""
    cur = await conn.execute(
        """
        UPDATE outbox SET status = 'cancelled', detail = %(detail)s, settled_at = now()
        WHERE conversation_id = %(id)s AND status = 'waiting'
          AND (%(account)s::bigint IS NULL OR account_id = %(account)s)
        """,
        {"id": conversation_id, "detail": detail, "account": account_id},
    )
    return cur.rowcount


async def refuse_waiting(
    conn: Connection, conversation_id: ConversationId, account_id: int, *, reason: SendReason, detail: str
) -> int:
    """waiting → refused for what an account has not sent in a conversation, because QQ would refuse it; returns how many."""
    cur = await conn.execute(
        """
        UPDATE outbox SET status = 'refused', reason = %(reason)s, detail = %(detail)s, settled_at = now()
        WHERE conversation_id = %(id)s AND account_id = %(account)s AND status = 'waiting'
        """,
        {"id": conversation_id, "account": account_id, "reason": reason, "detail": detail},
    )
    return cur.rowcount


async def hold_back(conn: Connection, outbox_id: OutboxId, *, reason: SendReason, detail: str) -> None:
    """waiting → refused: it is known that it would not arrive."""
    await conn.execute(
        """
        UPDATE outbox SET status = 'refused', reason = %(reason)s, detail = %(detail)s, settled_at = now()
        WHERE id = %(id)s AND status = 'waiting'
        """,
        {"id": outbox_id, "reason": reason, "detail": detail},
    )


async def held_back(conn: Connection, outbox_id: OutboxId) -> SendReason | None:
    """Tell why a message was refused before it left; None: it was not."""
    async with conn.cursor(row_factory=class_row(_HeldBack)) as cur:
        await cur.execute(
            "SELECT reason FROM outbox WHERE id = %(id)s AND status = 'refused' AND left_at IS NULL", {"id": outbox_id}
        )
        row = await cur.fetchone()
        return None if row is None else row.reason


@dataclass(frozen=True, slots=True)
class _HeldBack:
    reason: SendReason | None


async def cancel_turn(conn: Connection, turn_id: TurnId, *, detail: str) -> int:
    """Cancel what a turn wanted to say and has not left; returns how many."""
    cur = await conn.execute(
        """
        UPDATE outbox SET status = 'cancelled', detail = %(detail)s, settled_at = now()
        WHERE turn_id = %(turn)s AND status = 'waiting'
        """,
        {"turn": turn_id, "detail": detail},
    )
    return cur.rowcount


async def abandon(conn: Connection, *, turns: Sequence[str]) -> None:
    """After a crash: what was leaving is unknown, what was waiting is cancelled. ``turns`` are states of ended turns."""
    await conn.execute(
        """
        UPDATE outbox o
        SET status = CASE WHEN o.status = 'sending' THEN 'unknown' ELSE 'cancelled' END,
            reason = CASE WHEN o.status = 'sending' THEN 'unconfirmed' END,
            detail = '进程中断'
        WHERE o.status IN ('waiting', 'sending') AND o.created_at < now() - interval '5 minutes'
           OR o.status IN ('waiting', 'sending')
              AND EXISTS (SELECT FROM turns t WHERE t.id = o.turn_id AND t.status = ANY(%(turns)s))
        """,
        {"turns": list(turns)},
    )


async def settle_seen(conn: Connection, message: MessageRow) -> int:
    """Settle as sent the oldest unconfirmed send that this stored own message is; returns how many."""
    cur = await conn.execute(
        """
        UPDATE outbox o
        SET status = 'sent', message = m.id, reason = NULL, settled_at = now(),
            message_id = (SELECT k.message_id FROM message_keys k WHERE k.message = m.id AND k.account_id = o.account_id)
        FROM messages m
        WHERE m.id = %(message)s AND m.is_self
          AND o.id = (SELECT u.id FROM outbox u
                      WHERE u.conversation_id = m.conversation_id AND u.account_id = m.sender_id AND u.status = 'unknown'
                        AND translate(u.text, E' \\n\\t', '') = translate(m.body, E' \\n\\t', '')
                        AND m.sent_at BETWEEN u.created_at - interval '1 minute' AND u.created_at + interval '10 minutes'
                        AND NOT EXISTS (SELECT FROM outbox d WHERE d.message = m.id)
                      ORDER BY u.id
                      LIMIT 1)
        """,
        {"message": message},
    )
    return cur.rowcount


async def settle_stored(conn: Connection, *, only: OutboxId | None = None) -> list[int]:
    """Settle as sent the unconfirmed sends whose message was stored before they became unconfirmed; returns its positions.

    Of several with the same words one is settled at a time, the oldest first.
    """
    async with conn.cursor(row_factory=scalar_row) as cur:
        await cur.execute(
            """
            UPDATE outbox o
            SET status = 'sent', message = pair.message, reason = NULL, settled_at = now(),
                message_id = (SELECT k.message_id FROM message_keys k
                              WHERE k.message = pair.message AND k.account_id = o.account_id)
            FROM (SELECT DISTINCT ON (u.conversation_id, u.account_id, translate(u.text, E' \\n\\t', ''))
                         u.id, m.id AS message, m.pos
                  FROM outbox u
                  JOIN messages m ON m.conversation_id = u.conversation_id AND m.sender_id = u.account_id AND m.is_self
                                 AND translate(m.body, E' \\n\\t', '') = translate(u.text, E' \\n\\t', '')
                                 AND m.sent_at BETWEEN u.created_at - interval '1 minute'
                                                   AND u.created_at + interval '10 minutes'
                  WHERE u.status = 'unknown' AND u.created_at > now() - interval '1 hour'
                    AND (%(only)s::bigint IS NULL OR u.id = %(only)s)
                    AND NOT EXISTS (SELECT FROM outbox d WHERE d.message = m.id)
                  ORDER BY u.conversation_id, u.account_id, translate(u.text, E' \\n\\t', ''), u.id, m.pos) AS pair
            WHERE o.id = pair.id AND o.status = 'unknown'
            RETURNING pair.pos
            """,
            {"only": only},
        )
        return [int(pos) for pos in await cur.fetchall()]


async def unsettled(conn: Connection, *, younger_than: float) -> list[Unsettled]:
    """List sends whose fate is unknown, not older than so many seconds."""
    async with conn.cursor(row_factory=class_row(Unsettled)) as cur:
        await cur.execute(
            """
            SELECT id, conversation_id, account_id, turn_id, text, created_at
            FROM outbox
            WHERE status = 'unknown' AND created_at > now() - %(age)s * interval '1 second'
            ORDER BY id
            """,
            {"age": younger_than},
        )
        return await cur.fetchall()


async def key_of(conn: Connection, conversation_id: ConversationId, pos: int, account_id: int) -> int | None:
    """Find the id under which an account knows the message with this label."""
    async with conn.cursor(row_factory=scalar_row) as cur:
        await cur.execute(
            """
            SELECT k.message_id
            FROM messages m
            JOIN message_keys k ON k.message = m.id
            WHERE m.conversation_id = %(conversation)s AND m.pos = %(pos)s AND k.account_id = %(account)s
              AND m.withdrawn_at IS NULL
            """,
            {"conversation": conversation_id, "pos": pos, "account": account_id},
        )
        value = await cur.fetchone()
        return None if value is None else int(value)


async def names(conn: Connection, conversation_id: ConversationId, users: Sequence[int]) -> dict[int, str]:
    """Read what members are called: card, else nickname; those without either are left out."""
    cur = await conn.execute(
        """
        SELECT user_id, coalesce(nullif(card, ''), nullif(nickname, ''))
        FROM members
        WHERE conversation_id = %(id)s AND user_id = ANY(%(users)s) AND (card <> '' OR nickname <> '')
        """,
        {"id": conversation_id, "users": list(users)},
    )
    return {int(user): str(name) for user, name in await cur.fetchall()}


async def own_message(conn: Connection, conversation_id: ConversationId, pos: int, account_id: int) -> OwnMessage | None:
    """Find an own message of this account by its label; None when it is not one, or is withdrawn."""
    async with conn.cursor(row_factory=class_row(OwnMessage)) as cur:
        await cur.execute(
            """
            SELECT k.message_id, m.sent_at
            FROM messages m
            JOIN message_keys k ON k.message = m.id AND k.account_id = %(account)s
            WHERE m.conversation_id = %(conversation)s AND m.pos = %(pos)s AND m.sender_id = %(account)s
              AND m.withdrawn_at IS NULL
            """,
            {"conversation": conversation_id, "pos": pos, "account": account_id},
        )
        return await cur.fetchone()
