"""The search as tools and pages call it: time words in a query, and embeddings that work, are late or are down."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from db.message_search import MessageQuery
from db.pool import Database, DatabaseUnavailable
from db.timewords import TimeRange
from llm.embedding import Embeddings
from llm.embedding.keeper import EmbeddingKeeper
from llm.memory.search import MessageSearch
from tests.db.talk import MING, WANG, WEI, Talk, column
from tests.llm.embedding_world import ToyBackend, opened

ZONE = ZoneInfo("Asia/Shanghai")
NOW = datetime(2026, 11, 30, 14, 30, tzinfo=ZONE)


@pytest.fixture
async def talk(database: Database) -> Talk:
    """What was said on three days of two weeks."""
    group = Talk(database)
    for days, text, user in (
        (12, "火锅店关门了", WANG),
        (5, "今天吃的火锅真辣", WEI),
        (5, "下次换一家烤肉", MING),
        (1, "火锅底料买回来了", MING),
        (0, "三月五号开学", WEI),
    ):
        await group.say(text, user, at=NOW - timedelta(days=days, hours=2))
    return group


@pytest.fixture
async def backend() -> ToyBackend:
    """A model that counts characters."""
    return ToyBackend()


@pytest.fixture
async def embeddings(database: Database, backend: ToyBackend) -> AsyncGenerator[Embeddings]:
    """Embeddings over it."""
    async with opened(database, backend) as embeddings:
        yield embeddings


@pytest.fixture
async def search(database: Database, embeddings: Embeddings) -> MessageSearch:
    """The search on a Monday."""
    return MessageSearch(database, embeddings, zone=ZONE, clock=lambda: NOW)


async def bodies(search: MessageSearch, talk: Talk, text: str, when: TimeRange | None = None, **more: int) -> list[str]:
    """What is found, as text."""
    return [hit.line.body for hit in await search.search(MessageQuery((talk.id,), text, when=when, **more))]


async def test_the_time_in_a_query_is_where_it_is_searched(search: MessageSearch, talk: Talk) -> None:
    assert await bodies(search, talk, "上周三吃的火锅") == ["今天吃的火锅真辣"]
    assert await bodies(search, talk, "昨天的火锅") == ["火锅底料买回来了"]
    assert await bodies(search, talk, "上周三大家聊了什么") == ["下次换一家烤肉", "今天吃的火锅真辣"]


async def test_a_query_that_is_only_a_time_finds_who_said_it(search: MessageSearch, talk: Talk) -> None:
    assert await bodies(search, talk, "三月五号") == ["三月五号开学"]


async def test_where_nothing_was_said_at_that_time_the_words_are_searched_as_they_stand(
    search: MessageSearch, talk: Talk
) -> None:
    await talk.say("去年三月的聚餐照片还在吗", WANG, at=NOW)
    assert (await bodies(search, talk, "去年三月的聚餐"))[0] == "去年三月的聚餐照片还在吗"
    assert await bodies(search, talk, "去年三月的聚餐", offset=1, limit=5) != ["去年三月的聚餐照片还在吗"]


async def test_later_pages_of_a_time_end_where_it_ends(search: MessageSearch, talk: Talk) -> None:
    assert await bodies(search, talk, "上周三吃的火锅", offset=1) == []


async def test_a_time_that_was_given_leaves_the_words_alone(search: MessageSearch, talk: Talk) -> None:
    ever = TimeRange(datetime(2026, 1, 1, tzinfo=UTC), datetime(2027, 1, 1, tzinfo=UTC))
    assert set(await bodies(search, talk, "昨天火锅", when=ever)) == {"火锅底料买回来了", "今天吃的火锅真辣", "火锅店关门了"}


async def test_meaning_and_words_work_together_on_rows_that_the_keeper_embedded(
    database: Database, embeddings: Embeddings, search: MessageSearch, talk: Talk
) -> None:
    keeper = EmbeddingKeeper(database, embeddings, first_after=0, sleep=lambda _: asyncio.sleep(0))
    keeper.start()
    async with asyncio.timeout(30):
        while await column(database, "SELECT message FROM message_vectors WHERE embedding IS NULL LIMIT 1"):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    await keeper.aclose()
    hits = await search.search(MessageQuery((talk.id,), "吃火锅"))
    assert {hit.line.body for hit in hits} == {
        "火锅店关门了", "今天吃的火锅真辣", "下次换一家烤肉", "火锅底料买回来了", "三月五号开学",
    }  # fmt: skip
    assert hits[0].text_rank is not None
    assert hits[0].vector_rank is not None
    assert hits[-1].text_rank is None


async def test_a_dead_or_late_embedding_costs_only_what_is_found_by_meaning(
    search: MessageSearch, talk: Talk, backend: ToyBackend
) -> None:
    backend.away = "坏了"
    assert await bodies(search, talk, "烤肉") == ["下次换一家烤肉"]
    assert await bodies(search, talk, "zzzz") == []
    backend.away = None
    backend.gate.clear()
    query = MessageQuery((talk.id,), "底料")
    assert [hit.line.body for hit in await search.search(query, within=0.01)] == ["火锅底料买回来了"]


async def test_a_listing_asks_for_no_vector(search: MessageSearch, talk: Talk, backend: ToyBackend) -> None:
    hits = await search.search(MessageQuery((talk.id,), "", sender_ids=(WEI,)))
    assert [hit.line.body for hit in hits] == ["三月五号开学", "今天吃的火锅真辣"]
    assert backend.runs == []


async def test_a_database_that_is_away_is_told(search: MessageSearch, talk: Talk, database: Database) -> None:
    await database.close()
    with pytest.raises(DatabaseUnavailable):
        await search.search(MessageQuery((talk.id,), "火锅"))
