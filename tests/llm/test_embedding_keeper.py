"""Stored rows get their vectors: in which order, after a changed model, a kill, an outage, with poison among them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager

import pytest

from db.embeddings import Embedded, count_embedded, ensure_space, write_memories
from db.memory_models import MemoryId
from db.models import ConversationId
from db.pool import Database
from llm.embedding import EmbeddingKeeper, Embeddings
from llm.embedding.types import CANARY
from llm.errors import EmbeddingUnavailable
from tests.llm.embedding_world import (
    Clock,
    ToyBackend,
    ToyService,
    add_memories,
    add_messages,
    opened,
    remote,
    spaces_of,
)

SECONDS = 30.0


@asynccontextmanager
async def kept(database: Database, embeddings: Embeddings) -> AsyncGenerator[EmbeddingKeeper]:
    """A keeper that begins at once and rests for no time."""
    keeper = EmbeddingKeeper(database, embeddings, first_after=0, sleep=lambda _: asyncio.sleep(0))
    keeper.start()
    try:
        yield keeper
    finally:
        await keeper.aclose()


async def until(done: Callable[[], bool]) -> None:
    """Let everything else run until something is so."""
    async with asyncio.timeout(SECONDS):
        while True:
            if done():
                return
            await asyncio.sleep(0.005)


async def all_done(database: Database, embeddings: Embeddings, *, but: int = 0) -> None:
    """Wait until every row, or all ``but`` so many, has a vector of the current space."""
    async with asyncio.timeout(SECONDS):
        while True:
            space = embeddings.space
            async with database.connection() as conn:
                counts = await count_embedded(conn, space.id if space else None)
            total, done = counts.memories_total + counts.messages_total, counts.memories_done + counts.messages_done
            if space is not None and done == total - but:
                return
            await asyncio.sleep(0.005)


async def test_memories_go_before_messages_and_new_ones_first(database: Database, conversation: ConversationId):
    await add_memories(database, conversation, ["旧事", "新事"])
    await add_messages(database, conversation, ["旧话", "新话"])
    backend = ToyBackend(texts=8)
    async with opened(database, backend) as embeddings, kept(database, embeddings):
        await all_done(database, embeddings)
        status = await embeddings.probe()
    assert [text for text in backend.texts if text != CANARY] == ["新事", "旧事", "新话", "旧话"]
    assert (status.state, status.memories_done, status.messages_done) == ("ok", 2, 2)
    assert {*(await spaces_of(database)).values(), *(await spaces_of(database, "message_vectors")).values()} == {("toy", 16)}


async def test_a_poke_brings_new_rows_in(database: Database, conversation: ConversationId):
    async with opened(database, ToyBackend()) as embeddings, kept(database, embeddings) as keeper:
        await until(lambda: embeddings.space is not None)
        await add_memories(database, conversation, ["小明喜欢猫"])
        keeper.poke()
        await all_done(database, embeddings)


async def test_a_changed_model_embeds_everything_anew(database: Database, conversation: ConversationId):
    ids = await add_memories(database, conversation, [f"第{number}件事" for number in range(20)])
    await add_messages(database, conversation, [f"第{number}句话" for number in range(20)])
    async with opened(database, ToyBackend("old", 16)) as embeddings, kept(database, embeddings):
        await all_done(database, embeddings)
    async with opened(database, ToyBackend("new", 8)) as embeddings, kept(database, embeddings):
        await all_done(database, embeddings)
    assert await spaces_of(database) == dict.fromkeys(ids, ("new", 8))
    assert set((await spaces_of(database, "message_vectors")).values()) == {("new", 8)}


async def test_the_name_of_a_space_and_the_width_of_its_vectors_always_agree(database: Database, conversation: ConversationId):
    await add_memories(database, conversation, [f"第{number}件事" for number in range(40)])
    async with opened(database, ToyBackend("old", 16)) as embeddings, kept(database, embeddings):
        await all_done(database, embeddings)
    backend = ToyBackend("new", 8, texts=2)
    seen: list[tuple[str, int] | None] = []
    async with opened(database, backend) as embeddings, kept(database, embeddings):
        await until(lambda: len(backend.runs) > 5)
        seen = [*(await spaces_of(database)).values()]
        await all_done(database, embeddings)
    assert set(seen) == {("old", 16), ("new", 8)}


async def test_a_run_that_was_killed_goes_on_where_it_was(database: Database, conversation: ConversationId):
    await add_memories(database, conversation, [f"第{number}件事" for number in range(24)])
    first = ToyBackend(texts=4)
    async with opened(database, first) as embeddings, kept(database, embeddings) as keeper:
        await until(lambda: len(first.runs) >= 3)
        first.gate.clear()
        await keeper.aclose()
    done = sum(space is not None for space in (await spaces_of(database)).values())
    assert 0 < done < 24
    second = ToyBackend(texts=4)
    async with opened(database, second) as embeddings, kept(database, embeddings):
        await all_done(database, embeddings)
    assert len([text for text in second.texts if text != CANARY]) == 24 - done


async def test_two_processes_at_once_do_no_harm(database: Database, database_url: str, conversation: ConversationId):
    ids = await add_memories(database, conversation, [f"第{number}件事" for number in range(60)])
    other = Database(database_url)
    await other.open()
    try:
        async with (
            opened(database, ToyBackend()) as one,
            opened(other, ToyBackend()) as two,
            kept(database, one),
            kept(other, two),
        ):
            await all_done(database, one)
    finally:
        await other.close()
    assert await spaces_of(database) == dict.fromkeys(ids, ("toy", 16))


async def test_poison_does_not_block_the_rows_around_it(database: Database, conversation: ConversationId):
    ids = await add_memories(database, conversation, ["一", "毒", "二", "三"])
    backend = ToyBackend()
    backend.refused = {"毒"}
    async with opened(database, backend) as embeddings, kept(database, embeddings) as keeper:
        await all_done(database, embeddings, but=1)
        refused = backend.texts.count("毒")
        await add_memories(database, conversation, ["四"])
        keeper.poke()
        await all_done(database, embeddings, but=1)
    spaces = await spaces_of(database)
    assert [spaces[number] is None for number in ids] == [False, True, False, False]
    # It is not tried again in this process.
    assert backend.texts.count("毒") == refused


async def test_a_dead_service_is_asked_seldom_and_loses_no_row(database: Database, conversation: ConversationId):
    ids = await add_memories(database, conversation, ["一", "二"])
    clock, backend = Clock(), ToyBackend()
    async with opened(database, backend, clock) as embeddings, kept(database, embeddings) as keeper:
        await until(lambda: embeddings.space is not None)
        await all_done(database, embeddings)
        ids += await add_memories(database, conversation, ["三"])
        backend.away, backend.retry_after = "限流", 250.0
        backend.runs.clear()
        keeper.poke()
        await until(lambda: embeddings.status().state == "down")
        for _ in range(50):
            keeper.poke()
            await asyncio.sleep(0.001)
        assert len(backend.runs) == 1
        backend.away = None
        clock.now += 31
        # A question finds out that it is back; the background work need not wait for its own next try.
        assert (await embeddings.queries(["在吗"], within=SECONDS))[0] is not None
        await all_done(database, embeddings)
    assert None not in (await spaces_of(database)).values()
    assert len(ids) == 3


async def test_settled_embeds_at_once_and_only_what_is_asked(database: Database, conversation: ConversationId):
    old = await add_memories(database, conversation, ["旧事"])
    new = await add_memories(database, conversation, [f"第{number}件事" for number in range(300)])
    async with opened(database, ToyBackend(texts=32)) as embeddings:
        keeper = EmbeddingKeeper(database, embeddings)
        await keeper.settled([*new, MemoryId(10**12)])
    spaces = await spaces_of(database)
    assert {spaces[number] for number in new} == {("toy", 16)}
    assert spaces[old[0]] is None


async def test_settled_raises_when_the_service_is_down(database: Database, conversation: ConversationId):
    ids = await add_memories(database, conversation, ["一"])
    backend = ToyBackend()
    backend.away = "连不上"
    async with opened(database, backend) as embeddings:
        with pytest.raises(EmbeddingUnavailable, match="连不上"):
            await EmbeddingKeeper(database, embeddings).settled(ids)


async def test_settled_does_the_others_before_it_complains_of_one(database: Database, conversation: ConversationId):
    ids = await add_memories(database, conversation, ["一", "毒", "二"])
    backend = ToyBackend()
    backend.refused = {"毒"}
    async with opened(database, backend) as embeddings:
        with pytest.raises(EmbeddingUnavailable, match="有 1 条"):
            await EmbeddingKeeper(database, embeddings).settled(ids)
    spaces = await spaces_of(database)
    assert [spaces[number] is None for number in ids] == [False, True, False]


async def test_the_background_stands_back_while_somebody_waits(database: Database, conversation: ConversationId):
    ids = await add_memories(database, conversation, [f"第{number}件事" for number in range(60)])
    oldest = ids[:10]
    backend = ToyBackend(texts=1)
    async with opened(database, backend) as embeddings, kept(database, embeddings) as keeper:
        await until(lambda: len(backend.runs) > 3)
        start = len(backend.texts)
        await keeper.settled(oldest)
        # The background begins with the newest; one of them may have been under way.
        others = {*backend.texts[start:]} - {f"第{number}件事" for number in range(10)}
        assert len(others) <= 2
        await all_done(database, embeddings)


async def test_half_of_the_time_belongs_to_others(database: Database, conversation: ConversationId):
    await add_messages(database, conversation, [f"第{number}句话" for number in range(12)])
    rests: list[float] = []

    async def rest(seconds: float) -> None:
        rests.append(seconds)

    async def run(local: bool) -> None:
        async with opened(database, ToyBackend(str(local), local=local)) as embeddings:
            keeper = EmbeddingKeeper(database, embeddings, first_after=0, sleep=rest)
            keeper.start()
            await all_done(database, embeddings)
            await keeper.aclose()

    await run(local=False)
    assert rests == []
    await run(local=True)
    assert len(rests) >= 2
    assert all(seconds > 0 for seconds in rests)


async def test_a_text_that_changed_while_it_was_embedded_is_embedded_again(database: Database, conversation: ConversationId):
    (memory,) = await add_memories(database, conversation, ["小明喜欢猫"])
    backend = ToyBackend()
    async with opened(database, backend) as embeddings, kept(database, embeddings) as keeper:
        await until(lambda: embeddings.space is not None)
        backend.gate.clear()
        backend.busy.clear()
        await add_memories(database, conversation, ["小明喜欢狗"])
        keeper.poke()
        await backend.busy.wait()
        async with database.connection() as conn:
            await conn.execute("UPDATE memories SET content = '小明养鱼' WHERE content = '小明喜欢狗'")
        backend.gate.set()
        await all_done(database, embeddings)
    assert backend.texts[-1] == "小明养鱼"
    assert memory


async def test_a_changed_service_model_is_embedded_anew_over_http(database: Database, conversation: ConversationId):
    await add_memories(database, conversation, ["一", "二", "三"])
    for model, dim in (("toy-a", 16), ("toy-b", 24)):
        async with remote(database, ToyService(dim), embedding_model=model) as embeddings, kept(database, embeddings):
            await all_done(database, embeddings)
        assert set((await spaces_of(database)).values()) == {(model, dim)}


async def test_nothing_happens_after_closing(database: Database, conversation: ConversationId):
    backend = ToyBackend()
    async with opened(database, backend) as embeddings, kept(database, embeddings) as keeper:
        await until(lambda: embeddings.space is not None)
        await keeper.aclose()
        await add_memories(database, conversation, ["一"])
        keeper.poke()
        await asyncio.sleep(0.02)
    assert set((await spaces_of(database)).values()) == {None}


async def test_a_row_that_another_process_writes_is_left_to_it(database: Database, conversation: ConversationId):
    ids = await add_memories(database, conversation, ["一", "二"])
    rows: Sequence[Embedded] = [Embedded(number, text, "[1,0]") for number, text in zip(ids, ["一", "二"], strict=True)]
    async with database.connection() as conn:
        space = await ensure_space(conn, "toy", 2)
        async with database.transaction() as other:
            await other.execute("SELECT FROM memories WHERE content = '一' FOR UPDATE")
            assert await write_memories(conn, space, rows) == 1
        assert await write_memories(conn, space, rows) == 1
        assert await write_memories(conn, space, rows) == 0
