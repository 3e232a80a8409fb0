"""The door to embeddings: order, time limits, outages, cache and whose fault a refusal is."""

from __future__ import annotations

import asyncio
import logging

import pytest

from db.pool import Database
from llm.embedding import Embeddings
from llm.embedding.service import PASSAGE_CHARS, QUERY_BACKLOG, QUERY_CHARS
from llm.embedding.types import CANARY, EmbeddingRefused
from llm.errors import EmbeddingUnavailable
from tests.llm.embedding_world import Clock, ToyBackend, opened


async def test_a_vector_names_its_space_and_has_unit_length(database: Database):
    async with opened(database, ToyBackend()) as embeddings:
        assert embeddings.space is None
        (vector,) = await embeddings.passages(["小明喜欢猫"])
        assert embeddings.space is not None
        assert (embeddings.space.model, embeddings.space.dim) == ("toy", 16)
        assert embeddings.near == 0.9
    assert vector.space_id == embeddings.space.id
    assert sum(value * value for value in vector.values) == pytest.approx(1.0, abs=1e-6)


async def test_the_same_model_has_the_same_space_in_every_process(database: Database):
    async with opened(database, ToyBackend()) as one, opened(database, ToyBackend()) as two:
        (a,), (b,) = await one.passages(["甲"]), await two.passages(["甲"])
        async with opened(database, ToyBackend(dim=8)) as other:
            (c,) = await other.passages(["甲"])
    assert a == b
    assert c.space_id != a.space_id


async def test_nothing_is_loaded_by_opening(database: Database):
    backend = ToyBackend()
    backend.away = "坏了"
    async with opened(database, backend) as embeddings:
        assert embeddings.status().state == "starting"
    assert backend.runs == []


async def test_before_it_is_opened_nobody_waits_for_it(database: Database):
    embeddings = Embeddings(database, ToyBackend())
    assert await embeddings.queries(["火锅"], within=30) == [None]
    with pytest.raises(EmbeddingUnavailable, match="还没有打开"):
        await embeddings.passages(["火锅"])
    await embeddings.aclose()


async def test_questions_go_before_passages_that_came_first(database: Database):
    backend = ToyBackend(texts=2)
    async with opened(database, backend) as embeddings:
        await embeddings.ready()
        backend.runs.clear()
        backend.busy.clear()
        backend.gate.clear()
        passages = asyncio.create_task(embeddings.passages([f"第{number}段" for number in range(6)]))
        await backend.busy.wait()
        question = asyncio.create_task(embeddings.queries(["火锅"], within=30))
        await asyncio.sleep(0)
        backend.gate.set()
        assert (await question)[0] is not None
        await passages
    assert [kind for kind, _ in backend.runs] == ["passage", "query", "passage", "passage"]


async def test_questions_that_wait_go_together(database: Database):
    backend = ToyBackend(texts=8)
    async with opened(database, backend) as embeddings:
        await embeddings.ready()
        backend.runs.clear()
        backend.busy.clear()
        backend.gate.clear()
        first = asyncio.create_task(embeddings.queries(["一"], within=30))
        await backend.busy.wait()
        others = asyncio.gather(*(embeddings.queries([text, "四"], within=30) for text in ("二", "三")))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        backend.gate.set()
        await asyncio.gather(first, others)
    assert backend.runs == [("query", ["一"]), ("query", ["二", "四", "三"])]


async def test_a_batch_is_bounded_in_characters_but_takes_one_long_text(database: Database):
    backend = ToyBackend(texts=8)
    async with opened(database, backend) as embeddings:
        await embeddings.ready()
        backend.runs.clear()
        await embeddings.passages(["长" * 400, "短" * 400, "文" * 400, "字" * 400])
    assert [len(texts) for _, texts in backend.runs] == [2, 2]
    assert all(sum(map(len, texts)) <= 1000 for _, texts in backend.runs)


async def test_a_question_that_is_late_is_none_and_its_neighbour_is_not(database: Database):
    backend = ToyBackend()
    async with opened(database, backend) as embeddings:
        known = await embeddings.queries(["火锅"], within=30)
        backend.gate.clear()
        late, early = await embeddings.queries(["奶茶", "火锅"], within=0.01)
        backend.gate.set()
    assert late is None
    assert early == known[0] is not None


async def test_the_loop_goes_on_while_a_model_works(database: Database):
    backend = ToyBackend()
    async with opened(database, backend) as embeddings:
        await embeddings.ready()
        backend.gate.clear()
        backend.busy.clear()
        waiting = asyncio.create_task(embeddings.queries(["火锅"], within=30))
        await backend.busy.wait()
        ticks = 0
        for _ in range(100):
            await asyncio.sleep(0)
            ticks += 1
        assert not waiting.done()
        backend.gate.set()
        assert (await waiting)[0] is not None
    assert ticks == 100


async def test_what_nobody_waits_for_any_more_is_not_begun(database: Database):
    backend = ToyBackend()
    async with opened(database, backend) as embeddings:
        await embeddings.ready()
        backend.gate.clear()
        backend.busy.clear()
        first = asyncio.create_task(embeddings.queries(["一"], within=30))
        await backend.busy.wait()
        assert await embeddings.queries(["二"], within=0.01) == [None]
        backend.gate.set()
        await first
        await embeddings.queries(["三"], within=30)
    assert "二" not in backend.texts


async def test_a_text_that_was_embedded_is_not_embedded_again(database: Database):
    backend = ToyBackend()
    async with opened(database, backend) as embeddings:
        first = await embeddings.passages(["小明喜欢猫", "小明喜欢猫 "])
        again = await embeddings.passages(["小明喜欢猫"])
        as_question = await embeddings.queries(["小明喜欢猫"], within=30)
    assert first == [again[0], again[0]]
    assert as_question[0] is not None
    assert backend.runs == [("passage", ["小明喜欢猫"]), ("query", ["小明喜欢猫"])]


async def test_two_who_ask_for_the_same_at_once_get_one_run(database: Database):
    backend = ToyBackend()
    async with opened(database, backend) as embeddings:
        one, two = await asyncio.gather(embeddings.passages(["甲"]), embeddings.passages(["甲"]))
    assert one == two
    assert backend.texts == ["甲"]


@pytest.mark.parametrize("text", ["", "   ", "\n\t", "\x00"])
async def test_an_empty_text_has_no_vector(database: Database, text: str):
    backend = ToyBackend()
    async with opened(database, backend) as embeddings:
        assert await embeddings.queries([text, "火锅"], within=30) == [None, (await embeddings.queries(["火锅"]))[0]]
        with pytest.raises(EmbeddingRefused):
            await embeddings.passages([text])
    assert backend.texts == ["火锅"]


async def test_texts_reach_the_model_bounded_and_clean(database: Database):
    backend = ToyBackend()
    async with opened(database, backend) as embeddings:
        await embeddings.queries(["\ud800猫\x00狗", "长" * 9000], within=30)
        await embeddings.passages(["长" * 9000])
    assert backend.texts == ["?猫 狗", "长" * QUERY_CHARS, "长" * PASSAGE_CHARS]


async def test_an_outage_is_said_once_and_its_end_too(database: Database, caplog: pytest.LogCaptureFixture):
    clock, backend = Clock(), ToyBackend()
    caplog.set_level(logging.INFO, logger="llm.embedding")
    async with opened(database, backend, clock) as embeddings:
        await embeddings.ready()
        backend.away = "连不上"
        assert await embeddings.queries(["一"], within=30) == [None]
        with pytest.raises(EmbeddingUnavailable, match="连不上"):
            await embeddings.passages(["二"])
        clock.now += 31
        assert await embeddings.queries(["三"], within=30) == [None]
        assert embeddings.status().state == "down"
        backend.away = None
        clock.now += 31
        assert (await embeddings.queries(["四"], within=30))[0] is not None
        assert embeddings.status().state == "ok"
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]
    assert "恢复" in caplog.messages[1]


async def test_while_it_is_away_nobody_is_asked_until_it_is_time(database: Database):
    clock, backend = Clock(), ToyBackend()
    async with opened(database, backend, clock) as embeddings:
        await embeddings.ready()
        backend.away = "连不上"
        await embeddings.queries(["一"], within=30)
        asked = len(backend.runs)
        clock.now += 4.9
        assert await embeddings.queries(["一"], within=30) == [None]
        assert len(backend.runs) == asked
        clock.now += 0.2
        await embeddings.queries(["一"], within=30)
        assert len(backend.runs) == asked + 1
        # The second failure in a row makes the pause longer.
        clock.now += 5.1
        await embeddings.queries(["一"], within=30)
        assert len(backend.runs) == asked + 1
        assert embeddings.retry_in == pytest.approx(4.9)


async def test_known_texts_have_vectors_also_while_it_is_away(database: Database):
    backend = ToyBackend()
    async with opened(database, backend) as embeddings:
        known = await embeddings.queries(["火锅"], within=30)
        backend.away = "连不上"
        assert await embeddings.queries(["奶茶", "火锅"], within=30) == [None, known[0]]


async def test_a_model_that_is_not_there_at_first_is_used_when_it_comes(database: Database):
    clock, backend = Clock(), ToyBackend()
    backend.away = "还在启动"
    async with opened(database, backend, clock) as embeddings:
        assert await embeddings.queries(["火锅"], within=30) == [None]
        backend.away = None
        clock.now += 6
        assert (await embeddings.queries(["火锅"], within=30))[0] is not None


async def test_the_database_being_away_costs_vectors_and_raises_nothing(database: Database):
    clock = Clock()
    async with opened(database, ToyBackend(), clock) as embeddings:
        await database.close()
        assert await embeddings.queries(["火锅"], within=30) == [None]
        with pytest.raises(EmbeddingUnavailable, match="数据库"):
            await embeddings.passages(["火锅"])
        await database.open()
        clock.now += 6
        assert (await embeddings.queries(["火锅"], within=30))[0] is not None


async def test_one_refused_text_does_not_cost_the_others_theirs(database: Database):
    backend = ToyBackend(texts=8)
    backend.refused = {"毒"}
    async with opened(database, backend) as embeddings:
        results = await embeddings.each_passage(["一", "二", "毒", "三", "四"])
        assert [isinstance(result, EmbeddingRefused) for result in results] == [False, False, True, False, False]
        with pytest.raises(EmbeddingRefused):
            await embeddings.passages(["一", "毒"])
        assert await embeddings.queries(["毒"], within=30) == [None]
        assert embeddings.status().state == "ok"


async def test_a_service_that_refuses_everything_is_away(database: Database):
    backend = ToyBackend()
    backend.refused = {"一", "二", CANARY}
    async with opened(database, backend) as embeddings:
        with pytest.raises(EmbeddingUnavailable) as caught:
            await embeddings.each_passage(["一", "二"])
        assert not isinstance(caught.value, EmbeddingRefused)
        assert embeddings.status().state == "down"
    assert backend.texts == ["一", "二", CANARY]


async def test_questions_that_wait_are_bounded(database: Database):
    backend = ToyBackend()
    async with opened(database, backend) as embeddings:
        await embeddings.ready()
        backend.gate.clear()
        many = [f"问题{number}" for number in range(3 * QUERY_BACKLOG)]
        asked = asyncio.create_task(embeddings.queries(many, within=30))
        await asyncio.sleep(0)
        backend.gate.set()
        vectors = await asked
    assert sum(vector is not None for vector in vectors) == QUERY_BACKLOG


async def test_closing_tells_those_who_wait(database: Database):
    backend = ToyBackend()
    async with opened(database, backend) as embeddings:
        await embeddings.ready()
        backend.gate.clear()
        backend.busy.clear()
        passage = asyncio.create_task(embeddings.passages(["甲"]))
        question = asyncio.create_task(embeddings.queries(["乙"], within=30))
        await backend.busy.wait()
        await embeddings.aclose()
        assert await question == [None]
        with pytest.raises(EmbeddingUnavailable, match="关闭"):
            await passage
        assert await embeddings.queries(["丙"]) == [None]
        assert embeddings.status().state == "off"


async def test_a_fault_of_ours_is_logged_and_does_not_stop_the_worker(database: Database, caplog: pytest.LogCaptureFixture):
    class Broken(ToyBackend):
        fault = True

        async def identify(self):
            if self.fault:
                raise ZeroDivisionError
            return await super().identify()

    clock, backend = Clock(), Broken()
    async with opened(database, backend, clock) as embeddings:
        assert await embeddings.queries(["一"], within=30) == [None]
        assert "ZeroDivisionError" in caplog.text
        backend.fault = False
        clock.now += 6
        assert (await embeddings.queries(["一"], within=30))[0] is not None
