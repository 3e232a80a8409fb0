"""Queries of model calls, on real PostgreSQL."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from db.models import ConversationId, ModelCall
from db.pool import Connection, Database
from db.usage import UsageKey, UsageQuery, UsageRow, calls_since, record_calls, usage_summary

SHANGHAI = ZoneInfo("Asia/Shanghai")
NOON = datetime(2026, 3, 1, 4, tzinfo=UTC)  # 12:00 in Shanghai
WEEK = UsageQuery(NOON - timedelta(days=3), NOON + timedelta(days=3))


async def group(conn: Connection, target_id: int) -> ConversationId:
    cur = await conn.execute(
        "INSERT INTO conversations (kind, target_id) VALUES ('group', %(target)s) RETURNING id", {"target": target_id}
    )
    row = await cur.fetchone()
    assert row is not None
    return ConversationId(row[0])


def a_call(
    conversation: ConversationId | None, at: datetime, *, task: str = "turn", model: str = "a", ok: bool = True
) -> ModelCall:
    return ModelCall(conversation, None, task, "chat", model, 100, 10, 60, 300 if ok else 9000, ok, None if ok else "坏了", at)


async def seed(conn: Connection) -> tuple[ConversationId, ConversationId]:
    one, two = await group(conn, 5700000011), await group(conn, 5700000012)
    await record_calls(
        conn,
        [
            a_call(one, NOON),
            a_call(one, NOON + timedelta(hours=11, minutes=59), ok=False),
            a_call(one, NOON + timedelta(hours=12)),
            a_call(two, NOON, task="slang", model="b"),
            a_call(None, NOON, task="probe", model="b"),
            a_call(one, NOON - timedelta(days=30)),
        ],
    )
    return one, two


async def test_a_call_without_a_time_is_now(database: Database):
    async with database.connection() as conn:
        one = await group(conn, 5700000011)
        await record_calls(conn, [ModelCall(one, None, "turn", "chat", "a", 1, 1, 0, 1, True)])
        assert await calls_since(conn, one, datetime.now(UTC) - timedelta(minutes=1)) == 1


async def test_answered_calls_of_one_conversation_are_counted(database: Database):
    async with database.connection() as conn:
        one, two = await seed(conn)
        assert await calls_since(conn, one, NOON) == 2
        assert await calls_since(conn, one, NOON + timedelta(seconds=1)) == 1
        assert await calls_since(conn, two, NOON) == 1


KEYS: dict[UsageKey, list[str | None]] = {
    "task": ["turn", "probe", "slang"],
    "model": ["a", "b"],
    "day": ["2026-03-01", "2026-03-02"],
}


@pytest.mark.parametrize(("by", "keys"), KEYS.items())
async def test_calls_are_added_up_by_key(database: Database, by: UsageKey, keys: list[str | None]):
    async with database.connection() as conn:
        await seed(conn)
        rows = await usage_summary(conn, WEEK, by=by, zone=SHANGHAI)
    assert [row.key for row in rows] == keys
    assert sum(row.calls for row in rows) == 5
    assert sum(row.failed for row in rows) == 1


async def test_sums_and_the_mean_time_of_answered_calls(database: Database):
    async with database.connection() as conn:
        one, _ = await seed(conn)
        rows = await usage_summary(conn, UsageQuery(WEEK.since, WEEK.until, one), by="conversation", zone=SHANGHAI)
    assert rows == [UsageRow(str(one), 3, 1, 300, 30, 180, 300)]


async def test_calls_without_a_conversation_have_no_key(database: Database):
    async with database.connection() as conn:
        one, two = await seed(conn)
        rows = await usage_summary(conn, WEEK, by="conversation", zone=SHANGHAI)
    assert {row.key for row in rows} == {str(one), str(two), None}
    assert {type(row.prompt_tokens) for row in rows} == {int}


async def test_the_span_ends_before_its_end(database: Database):
    async with database.connection() as conn:
        await seed(conn)
        assert await usage_summary(conn, UsageQuery(NOON - timedelta(hours=1), NOON), by="task", zone=SHANGHAI) == []
