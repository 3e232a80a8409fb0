"""What an import of messages does beside storing them: it links quotes, and keeps what came in from calling for a turn."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

from db.forget import NOBODY
from db.models import ConversationId, MessageRow
from db.pool import Connection


@dataclass(frozen=True, slots=True)
class Quote:
    """A message and the one it quotes, with whom and what it quotes of it; None: as it is stored."""

    message: MessageRow
    quoted: MessageRow
    name: str | None
    text: str | None


async def link_quotes(conn: Connection, quotes: Sequence[Quote]) -> None:
    """Say which message each quotes, where that is not known yet; nothing is quoted of a withdrawn one."""
    if not quotes:
        return
    await conn.execute(
        """
        UPDATE messages m
        SET quoted_id = o.id,
            quote_name = CASE WHEN m.quote_name IS NULL THEN NULL
                              WHEN o.sender_name = %(nobody)s THEN ''
                              ELSE coalesce(q.name, m.quote_name) END,
            quote_text = CASE WHEN o.withdrawn_at IS NULL THEN coalesce(q.text, m.quote_text) END
        FROM unnest(%(messages)s::bigint[], %(quoted)s::bigint[], %(names)s::text[], %(texts)s::text[])
             AS q(message, quoted, name, text)
        JOIN messages o ON o.id = q.quoted
        WHERE m.id = q.message AND m.quoted_id IS NULL AND m.id <> o.id
        """,
        {
            "messages": [quote.message for quote in quotes],
            "quoted": [quote.quoted for quote in quotes],
            "names": [quote.name for quote in quotes],
            "texts": [quote.text for quote in quotes],
            "nobody": NOBODY,
        },
    )


async def forgotten(
    conn: Connection, senders: Collection[tuple[ConversationId, int]]
) -> dict[tuple[ConversationId, int], datetime]:
    """Tell which senders, (conversation, user), had themselves forgotten: when the newest of what was emptied was said."""
    if not senders:
        return {}
    asked = list(senders)
    cur = await conn.execute(
        """
        SELECT m.conversation_id, m.sender_id, max(m.sent_at)
        FROM unnest(%(conversations)s::bigint[], %(users)s::bigint[]) AS a(conversation_id, user_id)
        JOIN messages m ON m.conversation_id = a.conversation_id AND m.sender_id = a.user_id
        WHERE m.sender_name = %(nobody)s AND m.body = '' AND m.withdrawn_at IS NOT NULL
        GROUP BY m.conversation_id, m.sender_id
        """,
        {"conversations": [item[0] for item in asked], "users": [item[1] for item in asked], "nobody": NOBODY},
    )
    return {(conversation, user): upto for conversation, user, upto in await cur.fetchall()}


async def mark_read(conn: Connection, conversation_id: ConversationId, *, before: int, upto: int) -> None:
    """Let the positions ``before < pos <= upto`` be no news to turns; what was unread before stays so.

    The conversation's row must be locked.
    """
    await conn.execute(
        """
        UPDATE conversations
        SET watermark = CASE WHEN watermark >= %(before)s THEN %(upto)s ELSE watermark END,
            diced_pos = CASE WHEN greatest(watermark, diced_pos) >= %(before)s THEN %(upto)s ELSE diced_pos END
        WHERE id = %(id)s
        """,
        {"id": conversation_id, "before": before, "upto": upto},
    )


async def homes(conn: Connection, keys: Sequence[tuple[int, int]]) -> dict[tuple[int, int], ConversationId]:
    """Tell in which conversation the messages are that are known under some ids, (account, message id)."""
    cur = await conn.execute(
        """
        SELECT k.account_id, k.message_id, m.conversation_id
        FROM unnest(%(accounts)s::bigint[], %(keys)s::bigint[]) AS a (account_id, message_id)
        JOIN message_keys k USING (account_id, message_id)
        JOIN messages m ON m.id = k.message
        """,
        {"accounts": [account for account, _ in keys], "keys": [key for _, key in keys]},
    )
    return {(account, key): ConversationId(row) for account, key, row in await cur.fetchall()}
