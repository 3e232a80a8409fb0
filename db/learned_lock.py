"""One lock for each conversation over everything learned there: storing, withdrawing and forgetting take turns.

Each of them locks messages and rows that others derived from them, in an order of its own. A withdrawal that lost a deadlock
against the learner would look like a database that is away.
"""

from __future__ import annotations

from collections.abc import Sequence

from db.models import ConversationId
from db.pool import Connection


async def hold(conn: Connection, conversation_id: ConversationId) -> None:
    """Keep others from changing what was learned in a conversation until the commit. Take it before any row."""
    await conn.execute(
        "SELECT pg_advisory_xact_lock(hashtextextended('learned', %(conversation)s::bigint))", {"conversation": conversation_id}
    )


async def hold_of(conn: Connection, keys: Sequence[tuple[int, int]]) -> None:
    """The same for the conversations of some messages, (account, message id); unknown ones do not count."""
    await conn.execute(
        """
        SELECT pg_advisory_xact_lock(hashtextextended('learned', c.conversation_id))
        FROM (SELECT DISTINCT m.conversation_id
              FROM unnest(%(accounts)s::bigint[], %(keys)s::bigint[]) AS a (account_id, message_id)
              JOIN message_keys k USING (account_id, message_id)
              JOIN messages m ON m.id = k.message
              ORDER BY m.conversation_id) AS c
        """,
        {"accounts": [key[0] for key in keys], "keys": [key[1] for key in keys]},
    )


async def hold_of_withdrawn(conn: Connection, keys: Sequence[tuple[int, int]]) -> None:
    """The same for those of the messages whose withdrawal was noticed before they were known."""
    await conn.execute(
        """
        SELECT pg_advisory_xact_lock(hashtextextended('learned', c.conversation_id))
        FROM (SELECT DISTINCT m.conversation_id
              FROM unnest(%(accounts)s::bigint[], %(keys)s::bigint[]) AS a (account_id, message_id)
              JOIN early_withdrawals w USING (account_id, message_id)
              JOIN message_keys k USING (account_id, message_id)
              JOIN messages m ON m.id = k.message AND m.withdrawn_at IS NULL
              ORDER BY m.conversation_id) AS c
        """,
        {"accounts": [key[0] for key in keys], "keys": [key[1] for key in keys]},
    )
