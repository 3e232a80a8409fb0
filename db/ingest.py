"""Storing messages: many at once, each once, in order of arrival, with the calls they make."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from psycopg.types.json import Jsonb

from db import message_index, withdraw
from db.models import ConversationId, MessageRow
from db.pool import Connection
from db.sightings import Known, KnownSeq, NewMessage, Stored, known_keys, known_seqs, twin


async def insert(conn: Connection, batch: Sequence[NewMessage], positions: Sequence[int]) -> list[MessageRow]:
    """Insert new messages at their positions; returns their rows in the same order.

    They can be found at once, and those worth a vector wait for it. A withdraw notice that came first marks its message at once.
    """
    if not batch:
        return []
    cur = await conn.execute(
        """
        WITH new AS (
            SELECT * FROM unnest(
                %(conversations)s::bigint[], %(positions)s::bigint[], %(seqs)s::bigint[], %(kinds)s::text[],
                %(senders)s::bigint[],
                %(names)s::text[], %(selves)s::boolean[], %(robots)s::boolean[], %(commands)s::boolean[], %(texts)s::text[],
                %(bodies)s::text[], %(quoted)s::bigint[], %(quoted_keys)s::bigint[], %(quote_names)s::text[],
                %(quote_texts)s::text[], %(segments)s::jsonb[], %(times)s::timestamptz[], %(turns)s::bigint[],
                %(backfilled)s::boolean[], %(accounts)s::bigint[], %(keys)s::bigint[], %(withdrawn)s::timestamptz[],
                %(withdrawers)s::bigint[], %(searches)s::text[], %(worth)s::boolean[]
            ) WITH ORDINALITY
              AS n(conversation_id, pos, real_seq, kind, sender_id, sender_name, is_self, is_robot, is_command, text, body,
                   quoted_id, quoted_key, quote_name, quote_text, segments, sent_at, turn_id, backfilled, account_id,
                   message_id, withdrawn_at, withdrawn_by, search, worth, place)
        ), stored AS (
            INSERT INTO messages (conversation_id, pos, real_seq, kind, sender_id, sender_name, is_self, is_robot, is_command,
                                  text, body, quoted_id, quoted_key, quote_name, quote_text, segments, sent_at, turn_id,
                                  backfilled, withdrawn_at, withdrawn_by, search)
            SELECT n.conversation_id, n.pos, n.real_seq, n.kind, n.sender_id, n.sender_name, n.is_self, n.is_robot, n.is_command,
                   n.text, n.body, n.quoted_id, n.quoted_key, n.quote_name, n.quote_text, n.segments, n.sent_at, n.turn_id,
                   n.backfilled, coalesce(n.withdrawn_at, w.withdrawn_at), coalesce(n.withdrawn_by, w.operator_id),
                   CASE WHEN coalesce(n.withdrawn_at, w.withdrawn_at) IS NULL THEN n.search ELSE '' END
            FROM new n
            LEFT JOIN early_withdrawals w ON w.account_id = n.account_id AND w.message_id = n.message_id
            ORDER BY n.place
            RETURNING id, conversation_id, pos, sender_id, withdrawn_at
        ), waiting AS (
            INSERT INTO message_vectors (message, conversation_id)
            SELECT s.id, s.conversation_id
            FROM stored s
            JOIN new n USING (conversation_id, pos)
            JOIN conversations c ON c.id = s.conversation_id AND c.learning
            WHERE n.worth AND s.withdrawn_at IS NULL
              AND NOT EXISTS (SELECT FROM unlearned u WHERE u.conversation_id = s.conversation_id AND u.user_id = s.sender_id)
        )
        SELECT id, conversation_id, pos FROM stored
        """,
        _columns(batch, positions),
    )
    found = {(conversation, pos): MessageRow(row) for row, conversation, pos in await cur.fetchall()}
    return [found[item.conversation_id, pos] for item, pos in zip(batch, positions, strict=True)]


def _columns(batch: Sequence[NewMessage], positions: Sequence[int]) -> dict[str, list[object]]:
    return {
        "conversations": [item.conversation_id for item in batch],
        "positions": list(positions),
        "seqs": [item.real_seq for item in batch],
        "kinds": [item.kind for item in batch],
        "senders": [item.sender_id for item in batch],
        "names": [item.sender_name for item in batch],
        "selves": [item.is_self for item in batch],
        "robots": [item.is_robot for item in batch],
        "commands": [item.is_command for item in batch],
        "texts": [item.text for item in batch],
        "bodies": [item.body for item in batch],
        "quoted": [item.quoted_id for item in batch],
        "quoted_keys": [item.quoted_key for item in batch],
        "quote_names": [item.quote_name for item in batch],
        "quote_texts": [item.quote_text for item in batch],
        "segments": [Jsonb(list(item.segments)) for item in batch],
        "times": [item.sent_at for item in batch],
        "turns": [item.turn_id for item in batch],
        "backfilled": [item.backfilled for item in batch],
        "accounts": [item.account_id for item in batch],
        "keys": [item.message_id for item in batch],
        "withdrawn": [item.withdrawn_at for item in batch],
        "withdrawers": [item.withdrawn_by for item in batch],
        "searches": [message_index.words(item) for item in batch],
        "worth": [message_index.wants_vector(item) for item in batch],
    }


async def add_keys(conn: Connection, batch: Sequence[NewMessage], rows: Sequence[MessageRow]) -> None:
    """Remember under which ids the accounts know these messages."""
    latest = {
        (item.account_id, item.message_id): row for item, row in zip(batch, rows, strict=True) if item.message_id is not None
    }
    if not latest:
        return
    keys = [(account, key, row) for (account, key), row in latest.items()]
    await conn.execute(
        """
        INSERT INTO message_keys (account_id, message_id, message)
        SELECT * FROM unnest(%(accounts)s::bigint[], %(keys)s::bigint[], %(rows)s::bigint[])
        ON CONFLICT (account_id, message_id) DO UPDATE SET message = excluded.message
        WHERE message_keys.message <> excluded.message
        """,
        {"accounts": [key[0] for key in keys], "keys": [key[1] for key in keys], "rows": [key[2] for key in keys]},
    )


async def complete(conn: Connection, rows: Sequence[MessageRow], batch: Sequence[NewMessage]) -> None:
    """Fill in what a second sight of a message knows and the first did not: its real_seq, its turn, whose it is."""
    await conn.execute(
        """
        UPDATE messages m
        SET real_seq = coalesce(m.real_seq, t.real_seq), turn_id = coalesce(m.turn_id, t.turn_id),
            is_self = m.is_self OR t.is_self, is_command = m.is_command OR t.is_command,
            search = CASE WHEN t.is_command THEN '' ELSE m.search END
        FROM unnest(%(rows)s::bigint[], %(seqs)s::bigint[], %(turns)s::bigint[], %(selves)s::boolean[], %(commands)s::boolean[])
             AS t(id, real_seq, turn_id, is_self, is_command)
        WHERE m.id = t.id
          AND ((m.real_seq IS NULL AND t.real_seq IS NOT NULL) OR (m.turn_id IS NULL AND t.turn_id IS NOT NULL)
               OR (t.is_self AND NOT m.is_self) OR (t.is_command AND NOT m.is_command))
        """,
        {
            "rows": list(rows),
            "seqs": [item.real_seq for item in batch],
            "turns": [item.turn_id for item in batch],
            "selves": [item.is_self for item in batch],
            "commands": [item.is_command for item in batch],
        },
    )


async def owe(conn: Connection, batch: Sequence[NewMessage], rows: Sequence[MessageRow]) -> None:
    """Write down the calls that these messages make. A message owes once, whoever reports it again.

    A message that was withdrawn before it came owes nothing.
    """
    calls = [(row, item.called_account, item.call) for item, row in zip(batch, rows, strict=True) if item.call is not None]
    if not calls:
        return
    await conn.execute(
        """
        INSERT INTO owed (message, conversation_id, account_id, pos, kind)
        SELECT m.id, m.conversation_id, c.account_id, m.pos, c.kind
        FROM unnest(%(rows)s::bigint[], %(accounts)s::bigint[], %(kinds)s::text[]) AS c(message, account_id, kind)
        JOIN messages m ON m.id = c.message
        WHERE m.withdrawn_at IS NULL AND NOT m.is_self
        ON CONFLICT (message) DO NOTHING
        """,
        {"rows": [call[0] for call in calls], "accounts": [call[1] for call in calls], "kinds": [call[2] for call in calls]},
    )


class _Places:
    """Where each message of a batch goes: to a known row, to an earlier one of the batch, or to a new position."""

    def __init__(self, by_key: dict[tuple[int, int], Known], by_seq: dict[tuple[int, ConversationId, int], KnownSeq]) -> None:
        self._by_key = by_key
        self._by_seq = by_seq
        self._keys: dict[tuple[int, int], int] = {}
        self._seqs: dict[tuple[ConversationId, int], int] = {}
        self.items: list[NewMessage] = []
        self.positions: dict[int, int] = {}
        self.known: dict[int, Known] = {}
        self.first: dict[int, int] = {}

    def untangle(self, item: NewMessage) -> NewMessage:
        """Take the real_seq from a message whose place another one has: one account gives two messages two ids.

        It should not happen; if it does, a message without order is better than a lost one.
        """
        if item.real_seq is None:
            return item
        stored = self._by_seq.get((item.account_id, item.conversation_id, item.real_seq))
        if stored is not None:
            same = stored.own_key in {None, item.message_id} or (stored.sender_id, stored.body) == (item.sender_id, item.body)
            return item if same else replace(item, real_seq=None)
        index = self._seqs.get((item.conversation_id, item.real_seq))
        other = self.items[index] if index is not None else item
        same = (
            other.account_id != item.account_id
            or other.message_id == item.message_id
            or (other.sender_id, other.body) == (item.sender_id, item.body)
        )
        return item if same else replace(item, real_seq=None)

    def look_up(self, item: NewMessage) -> Known | None:
        """Find a stored message that this is. Ids are short hashes: one that contradicts the order is another message."""
        if item.real_seq is not None:
            found = self._by_seq.get((item.account_id, item.conversation_id, item.real_seq))
            if found is not None:
                return Known(found.id, found.conversation_id, found.pos, found.real_seq)
        known = self._by_key.get((item.account_id, item.message_id)) if item.message_id is not None else None
        if known is None or known.conversation_id != item.conversation_id:
            return None
        return None if item.real_seq is not None and known.real_seq is not None else known

    def earlier(self, item: NewMessage) -> int | None:
        """Find an earlier message of the batch that this is."""
        if item.real_seq is not None and (index := self._seqs.get((item.conversation_id, item.real_seq))) is not None:
            return index
        index = self._keys.get((item.account_id, item.message_id)) if item.message_id is not None else None
        if index is None:
            return None
        other = self.items[index].real_seq
        return index if item.real_seq is None or other is None else None

    def taken(self, item: NewMessage) -> list[MessageRow]:
        """Which stored rows earlier messages of the batch are that this one cannot be."""
        others = ((known.id, self.items[index]) for index, known in self.known.items())
        return [row for row, other in others if _contradict(item, other)]

    def put(self, item: NewMessage, known: Known | None, pos: int) -> bool:
        """Give the next message its place; True when it took the position."""
        index = len(self.items)
        self.items.append(item)
        first = self.earlier(item) if known is None else None
        if known is not None:
            self.known[index] = known
        elif first is not None:
            self.first[index] = first
        else:
            self.positions[index] = pos
        place = index if first is None else first
        if item.real_seq is not None:
            self._seqs.setdefault((item.conversation_id, item.real_seq), place)
        if item.message_id is not None:
            self._keys.setdefault((item.account_id, item.message_id), place)
        return known is None and first is None


def _contradict(one: NewMessage, two: NewMessage) -> bool:
    """Tell whether two sights of the same words show two messages."""
    if one.real_seq is not None and two.real_seq is not None:
        return one.real_seq != two.real_seq
    same_account = one.account_id == two.account_id and None not in {one.message_id, two.message_id}
    return same_account and one.message_id != two.message_id


async def store(conn: Connection, batch: Sequence[NewMessage], last: dict[ConversationId, int]) -> list[Stored]:
    """Store a batch: new messages get the next positions, known ones only what they lacked.

    ``last`` holds each locked conversation's highest position and is advanced in place; the caller writes it back.
    """
    places = _Places(await known_keys(conn, batch), await known_seqs(conn, batch))
    for given in batch:
        item = places.untangle(given)
        known = places.look_up(item)
        if known is None and item.second_sight:
            known = await twin(conn, item, places.taken(item))
        if places.put(item, known, last[item.conversation_id] + 1):
            last[item.conversation_id] += 1
    fresh = list(places.positions)
    rows = await insert(conn, [places.items[index] for index in fresh], list(places.positions.values()))
    stored = {index: Stored(index, row, places.positions[index], True) for index, row in zip(fresh, rows, strict=True)}
    stored |= {index: Stored(index, known.id, known.pos, False) for index, known in places.known.items()}
    for index, first in places.first.items():
        stored[index] = Stored(index, stored[first].id, stored[first].pos, False)
    result = [stored[index] for index in range(len(batch))]
    await _link(conn, places.items, result)
    return result


async def _link(conn: Connection, batch: Sequence[NewMessage], stored: Sequence[Stored]) -> None:
    rows = [item.id for item in stored]
    await add_keys(conn, batch, rows)
    again = [item for item in stored if not item.fresh]
    if again:
        seen = [batch[item.index] for item in again]
        await complete(conn, [item.id for item in again], seen)
        await withdraw.catch_up(conn, [(item.account_id, item.message_id) for item in seen if item.message_id is not None])
    await owe(conn, batch, rows)
