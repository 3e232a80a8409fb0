"""An OpenAI-compatible embedding service behind the real client: what it is sent, and what it may do wrong."""

from __future__ import annotations

import asyncio
import json
import logging

import pytest

from db.models import Json
from db.pool import Database
from llm.embedding.remote import BadAnswer, read_rows
from llm.embedding.types import CANARY, EmbeddingRefused
from llm.errors import EmbeddingUnavailable
from tests.llm.embedding_world import KEY, ToyService, answer, remote, toy
from tests.llm.fake_service import Raw, failure


async def test_the_dimension_is_learned_and_not_asked_for(database: Database):
    service = ToyService(dim=24)
    async with remote(database, service) as embeddings:
        (vector,) = await embeddings.passages(["小明喜欢猫"])
        assert embeddings.space is not None
        assert (embeddings.space.model, embeddings.space.dim) == ("toy", 24)
        assert embeddings.near is None
    assert len(vector.values) == 24
    assert service.asked == [[CANARY], ["小明喜欢猫"]]
    assert service.bodies[-1] == {"input": ["小明喜欢猫"], "model": "toy", "encoding_format": "float"}


async def test_a_dimension_that_is_set_is_asked_for(database: Database):
    service = ToyService(dim=8)
    async with remote(database, service, embedding_dim="8") as embeddings:
        await embeddings.passages(["甲"])
    assert [body["dimensions"] for body in service.bodies] == [8]


async def test_the_key_is_sent_and_stands_in_no_log(database: Database, caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.DEBUG)
    service = ToyService()
    service.broken = lambda _: failure(401, f"Incorrect API key provided: {KEY}")
    async with remote(database, service) as embeddings:
        with pytest.raises(EmbeddingUnavailable, match="EMBEDDING_API_KEY") as caught:
            await embeddings.passages(["甲"])
        detail = embeddings.status().detail
    said = [record.getMessage() for record in caplog.records if record.name.startswith("llm")]
    assert said
    assert KEY not in "\n".join([*said, str(caught.value), detail])


async def test_prefixes_go_before_what_the_model_reads(database: Database):
    service = ToyService()
    async with remote(database, service, embedding_model="intfloat/multilingual-e5-large") as embeddings:
        await embeddings.passages(["甲"])
        await embeddings.queries(["乙"], within=30)
    assert service.asked == [[f"query: {CANARY}"], ["passage: 甲"], ["query: 乙"]]


async def test_nobody_listening_costs_vectors_only(database: Database):
    async with remote(database, None) as embeddings:
        assert await embeddings.queries(["火锅"], within=30) == [None]
        with pytest.raises(EmbeddingUnavailable, match="连不上"):
            await embeddings.passages(["火锅"])
        assert (await embeddings.probe()).state == "down"


async def test_a_slow_service_is_not_waited_for_and_the_loop_goes_on(database: Database):
    service = ToyService()
    async with remote(database, service) as embeddings:
        await embeddings.ready()
        service.gate.clear()
        service.came.clear()
        question = asyncio.create_task(embeddings.queries(["火锅"], within=30))
        await service.came.wait()
        ticks = 0
        for _ in range(50):
            await asyncio.sleep(0)
            ticks += 1
        assert not question.done()
        assert await embeddings.queries(["奶茶"], within=0.01) == [None]
        service.gate.set()
        assert (await question)[0] is not None
    assert ticks == 50


async def test_a_question_does_not_wait_for_passages_at_a_service(database: Database):
    service = ToyService()
    async with remote(database, service) as embeddings:
        await embeddings.ready()
        service.gate.clear()
        service.came.clear()
        passages = asyncio.create_task(embeddings.passages(["甲"]))
        await service.came.wait()
        service.came.clear()
        question = asyncio.create_task(embeddings.queries(["乙"], within=30))
        await service.came.wait()
        assert service.asked[-2:] == [["甲"], ["乙"]]
        service.gate.set()
        await asyncio.gather(passages, question)


async def test_a_failure_that_passes_is_tried_again_once(database: Database):
    service = ToyService()
    answers = [failure(503, "busy"), answer([toy("甲", 16)])]
    async with remote(database, service) as embeddings:
        await embeddings.ready()
        service.broken = lambda _: answers.pop(0)
        assert len(await embeddings.passages(["甲"])) == 1
        answers += [failure(503, "busy"), failure(503, "busy"), answer([toy("乙", 16)])]
        with pytest.raises(EmbeddingUnavailable, match="503"):
            await embeddings.passages(["乙"])
    assert len(answers) == 1


async def test_too_many_requests_pause_as_long_as_the_service_says(database: Database):
    service = ToyService()
    async with remote(database, service) as embeddings:
        await embeddings.ready()
        asked = len(service.asked)
        service.broken = lambda _: failure(429, "slow down", headers={"Retry-After": "120"})
        with pytest.raises(EmbeddingUnavailable, match="限流"):
            await embeddings.passages(["甲"])
        assert 110 < embeddings.retry_in <= 120
        assert len(service.asked) == asked + 1


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (Raw("<html>nginx</html>", content_type="text/html"), "不是一组向量"),
        (Raw(""), "不是一组向量"),
        (Raw({"error": {"message": "model is loading"}}), "model is loading"),
        (Raw({"data": []}), "返回了 0 个向量"),
        (answer([[1.0] * 16]), "返回了 1 个向量"),
        (answer([[1.0] * 16] * 3), "返回了 3 个向量"),
        (answer([[1.0] * 8] * 2), "现在返回 8 维"),
        (answer([[1.0] * 16, [1.0] * 8]), "维数不一"),
        (answer(["AAAA", "AAAA"]), "不是一组向量"),
        (answer([[0.0] * 16, [None] * 16]), "无效"),
    ],
)
async def test_a_lying_service_is_away(database: Database, body: Raw, reason: str):
    service = ToyService()
    async with remote(database, service) as embeddings:
        known = await embeddings.queries(["火锅"], within=30)
        service.broken = lambda texts: answer([[None] * 16]) if texts == [CANARY] else body
        with pytest.raises(EmbeddingUnavailable, match=reason):
            await embeddings.each_passage(["甲", "乙"])
        assert await embeddings.queries(["火锅", "奶茶"], within=30) == [known[0], None]


async def test_a_dimension_that_does_not_fit_the_setting_is_named(database: Database):
    async with remote(database, ToyService(dim=16), embedding_dim="32") as embeddings:
        with pytest.raises(EmbeddingUnavailable, match="EMBEDDING_DIM=32，但向量服务返回 16 维"):
            await embeddings.passages(["甲"])


async def test_a_service_that_does_not_take_the_setting_is_quoted(database: Database):
    service = ToyService()
    service.broken = lambda _: failure(400, "This model does not support specifying dimensions")
    async with remote(database, service, embedding_dim="8") as embeddings:
        with pytest.raises(EmbeddingUnavailable, match=r"不接受 EMBEDDING_DIM=8.*does not support"):
            await embeddings.passages(["甲"])
    assert len(service.asked) == 1


async def test_one_text_refused_with_400_does_not_block_the_others(database: Database):
    service = ToyService()
    service.refused = {"毒"}
    async with remote(database, service) as embeddings:
        results = await embeddings.each_passage([*"一二三四五六七", "毒"])
    assert [isinstance(result, EmbeddingRefused) for result in results] == [False] * 7 + [True]


async def test_one_text_with_nan_does_not_block_the_others(database: Database):
    service = ToyService()
    service.nan = {"怪"}
    async with remote(database, service) as embeddings:
        results = await embeddings.each_passage(["一", "怪", "二"])
        alone = await embeddings.each_passage(["怪"])
    assert [isinstance(result, EmbeddingRefused) for result in results] == [False, True, False]
    assert isinstance(alone[0], EmbeddingRefused)


async def test_how_many_texts_it_takes_is_found_out_once(database: Database):
    service = ToyService()
    service.most = 10
    async with remote(database, service) as embeddings:
        await embeddings.passages([f"第{number}段" for number in range(32)])
        service.asked.clear()
        await embeddings.passages([f"后{number}段" for number in range(32)])
    assert [len(texts) for texts in service.asked] == [8, 8, 8, 8]


async def test_vectors_go_to_their_texts_whatever_the_order_of_the_answer(database: Database):
    service = ToyService()
    async with remote(database, service) as embeddings:
        straight = await embeddings.passages(["甲乙", "丙丁"])
    service.broken = lambda texts: answer([toy(text, 16) for text in texts], order=[*reversed(range(len(texts)))])
    async with remote(database, service) as embeddings:
        assert await embeddings.passages(["甲乙", "丙丁"]) == straight


async def test_probe_finds_out_without_embedding(database: Database):
    service = ToyService()
    async with remote(database, service) as embeddings:
        status = await embeddings.probe()
    assert status.state == "starting"
    assert service.asked == []


@pytest.mark.parametrize(
    "indexes", [[0, 0], [1, 2], [0, 2], [-1, 0], [None, 0]], ids=["twice", "from one", "hole", "negative", "one only"]
)
def test_odd_indexes_are_refused(indexes: list[int | None]):
    rows = [{"index": index, "embedding": [1.0]} for index in indexes]
    with pytest.raises(BadAnswer, match="index"):
        read_rows(json.dumps({"data": rows}).encode(), 2)


def test_rows_without_indexes_keep_their_order():
    body: Json = {"data": [{"embedding": [1.0, 0.0]}, {"embedding": [0.0, 1.0]}]}
    assert read_rows(json.dumps(body).encode(), 2) == [[1.0, 0.0], [0.0, 1.0]]
