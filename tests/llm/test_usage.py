"""The usage book: counts, the day's boundary, and a database that goes away."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from db.models import ConversationId, ModelCall, TurnId
from db.pool import Database
from db.usage import calls_since, record_calls
from llm import usage as usage_module
from llm.usage import UsageBook

SHANGHAI = ZoneInfo("Asia/Shanghai")
EPOCH = datetime(2020, 1, 1, tzinfo=UTC)


def a_call(conversation: ConversationId | None, *, ok: bool = True, at: datetime | None = None) -> ModelCall:
    return ModelCall(conversation, None, "turn", "chat", "fake-chat", 100, 20, 64, 350, ok, None if ok else "坏了", at)


async def stored(database: Database, conversation: ConversationId) -> int:
    async with database.connection() as conn:
        return await calls_since(conn, conversation, EPOCH)


async def test_calls_are_written_in_the_background(book: UsageBook, database: Database, conversation: ConversationId):
    for _ in range(450):
        book.record(a_call(conversation))
    assert await book.flush()
    assert await stored(database, conversation) == 450


async def test_own_calls_count_at_once_and_failed_ones_do_not(book: UsageBook, conversation: ConversationId):
    assert await book.spent_today(conversation) == 0
    book.record(a_call(conversation))
    book.record(a_call(conversation, ok=False))
    book.record(a_call(None))
    assert await book.spent_today(conversation) == 1


async def test_calls_that_wait_for_the_database_count(book: UsageBook, conversation: ConversationId):
    book.record(a_call(conversation))
    assert await book.spent_today(conversation) == 1
    await book.flush()
    assert await book.spent_today(conversation) == 1


async def test_another_processs_calls_show(
    book: UsageBook, database: Database, conversation: ConversationId, monkeypatch: pytest.MonkeyPatch
):
    assert await book.spent_today(conversation) == 0
    async with database.connection() as conn:
        await record_calls(conn, [a_call(conversation)])
    assert await book.spent_today(conversation) == 0
    monkeypatch.setattr(usage_module, "FRESH_SECONDS", 0)
    assert await book.spent_today(conversation) == 1


async def test_the_day_begins_at_local_midnight(database: Database, conversation: ConversationId):
    now = datetime(2026, 3, 1, 15, 59, tzinfo=UTC)  # 23:59 in Shanghai

    book = UsageBook(database, SHANGHAI, clock=lambda: now)
    book.record(a_call(conversation))
    assert await book.spent_today(conversation) == 1
    now = datetime(2026, 3, 1, 16, 0, tzinfo=UTC)
    assert await book.spent_today(conversation) == 0
    book.record(a_call(conversation))
    assert await book.spent_today(conversation) == 1
    await book.aclose()


async def test_a_call_keeps_its_own_time(book: UsageBook, database: Database, conversation: ConversationId):
    book.record(a_call(conversation, at=datetime(2026, 3, 1, 12, tzinfo=UTC)))
    await book.flush()
    async with database.connection() as conn:
        assert await calls_since(conn, conversation, datetime(2026, 3, 1, 12, tzinfo=UTC)) == 1
        assert await calls_since(conn, conversation, datetime(2026, 3, 1, 12, 0, 1, tzinfo=UTC)) == 0


async def test_an_outage_fails_no_call_and_loses_none(
    database_url: str, conversation: ConversationId, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(usage_module, "RETRY_SECONDS", 0.01)
    database = Database(database_url)
    book = UsageBook(database, SHANGHAI)
    book.record(a_call(conversation))
    assert await book.spent_today(conversation) == 1
    book.record(a_call(conversation))
    assert await book.spent_today(conversation) == 2
    assert not await book.flush(0.05)
    await database.open()
    assert await book.flush()
    assert await stored(database, conversation) == 2
    await book.aclose()
    await database.close()


async def test_a_long_outage_keeps_the_newest(
    database_url: str, conversation: ConversationId, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    monkeypatch.setattr(usage_module, "MAX_QUEUED", 3)
    monkeypatch.setattr(usage_module, "RETRY_SECONDS", 0.01)
    database = Database(database_url)
    book = UsageBook(database, SHANGHAI)
    for second in range(5):
        book.record(a_call(conversation, at=datetime(2026, 3, 1, 0, 0, second, tzinfo=UTC)))
    assert "丢弃" in caplog.text
    await database.open()
    assert await book.flush()
    async with database.connection() as conn:
        assert await calls_since(conn, conversation, datetime(2026, 3, 1, 0, 0, 2, tzinfo=UTC)) == 3
    assert await stored(database, conversation) == 3
    await book.aclose()
    await database.close()


async def test_what_the_database_refuses_does_not_stop_the_rest(
    book: UsageBook, database: Database, conversation: ConversationId, caplog: pytest.LogCaptureFixture
):
    book.record(ModelCall(conversation, None, "turn", "chat", "fake-chat", 2**40, 0, 0, 0, True))
    assert await book.flush()
    assert "丢弃 1 条" in caplog.text
    book.record(a_call(conversation))
    assert await book.flush()
    assert await stored(database, conversation) == 1


async def test_a_call_of_a_turn_that_is_gone_is_kept(book: UsageBook, database: Database, conversation: ConversationId):
    book.record(ModelCall(conversation, TurnId(5000000011), "turn", "chat", "fake-chat", 1, 1, 0, 1, True, "坏\x00字\ud83d"))
    assert await book.flush()
    assert await stored(database, conversation) == 1
