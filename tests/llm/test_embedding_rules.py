"""The small rules of embeddings: prefixes, cleaning, unit length, cache, outages, progress."""

from __future__ import annotations

import io
import logging
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from llm.embedding.cache import VectorCache
from llm.embedding.outage import MAX_PAUSE, Outage
from llm.embedding.prefixes import prefixes_of
from llm.embedding.progress import ProgressReport
from llm.embedding.types import fit, unit
from tests.llm.embedding_world import Clock


@pytest.mark.parametrize(
    ("model", "query", "passage"),
    [
        ("intfloat/multilingual-e5-small", "query: ", "passage: "),
        ("multilingual-e5-base", "query: ", "passage: "),
        ("BAAI/bge-large-zh-v1.5", "为这个句子生成表示以用于检索相关文章：", ""),
        ("BAAI/bge-m3", "", ""),
        ("text-embedding-3-small", "", ""),
        ("text-embedding-v4", "", ""),
    ],
)
def test_prefixes_go_by_the_models_name(model: str, query: str, passage: str):
    prefixes = prefixes_of(model)
    assert prefixes.put("query", "猫") == query + "猫"
    assert prefixes.put("passage", "猫") == passage + "猫"


@pytest.mark.parametrize("model", ["Qwen/Qwen3-Embedding-0.6B", "qwen3-embedding:8b", "intfloat/multilingual-e5-large-instruct"])
def test_instruct_models_are_told_the_task_for_questions_only(model: str):
    prefixes = prefixes_of(model)
    assert prefixes.put("query", "猫").startswith("Instruct: ")
    assert prefixes.put("query", "猫").endswith("\nQuery: 猫")
    assert prefixes.put("passage", "猫") == "猫"


@given(st.text(st.characters(codec=None)), st.integers(1, 50))
def test_a_fit_text_is_short_encodable_and_stays_so(text: str, chars: int):
    fitted = fit(text, chars)
    assert len(fitted) <= chars
    assert "\x00" not in fitted
    assert fitted.encode().decode() == fitted
    assert fit(fitted, chars) == fitted.strip()


@given(st.lists(st.floats(-1e6, 1e6, width=32), min_size=1, max_size=20))
def test_a_unit_vector_has_length_one_or_is_none(raw: list[float]):
    values = unit(raw)
    if values is None:
        assert math.hypot(*raw) < 1e-12
    else:
        assert math.hypot(*values) == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize("raw", [[], [0.0, 0.0], [1.0, None], [math.nan, 1.0], [math.inf, 1.0], [1e308, 1e308, 1e308, 1e308]])
def test_a_vector_without_direction_is_none(raw: list[float | None]):
    assert unit(raw) is None


def test_the_cache_loses_what_was_used_longest_ago_of_the_same_kind():
    cache = VectorCache(entries=2)
    one, two, three = unit([1.0, 0.0]), unit([0.0, 1.0]), unit([1.0, 1.0])
    assert one
    assert two
    assert three
    cache.put("query", "一", one)
    cache.put("query", "二", two)
    for number in range(10):
        cache.put("passage", str(number), three)
    assert cache.get("query", "一") == one
    cache.put("query", "三", three)
    assert cache.get("query", "二") is None
    assert cache.get("query", "一") == one


def test_pauses_grow_to_a_bound_and_start_afresh_after_a_success():
    clock = Clock()
    outage = Outage(clock)
    pauses: list[float] = []
    for _ in range(9):
        outage.failed("连不上")
        pauses.append(outage.remaining)
        clock.now += outage.remaining
    assert pauses == [5, 10, 20, 40, 80, 160, 300, 300, 300]
    assert not outage.blocks("passage")
    outage.recovered()
    outage.failed("连不上")
    assert outage.remaining == 5
    outage.failed("限流", retry_after=9999)
    assert outage.remaining == MAX_PAUSE


def test_a_question_is_tried_again_sooner_than_the_background_work():
    clock = Clock()
    outage = Outage(clock)
    outage.failed("限流", retry_after=200)
    clock.now += 31
    assert not outage.blocks("query")
    assert outage.blocks("passage")


def test_a_long_run_is_told_in_steps_and_a_short_one_not_at_all(caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.INFO)
    clock = Clock()
    report = ProgressReport(clock)
    for done in range(0, 101, 10):
        report.show(done, 100)
    assert caplog.messages == []
    for done in range(0, 1001, 10):
        report.show(done, 1000)
        clock.now += 1
    assert [message.split("（")[0] for message in caplog.messages[1:-1]] == [
        f"正在计算向量：{done}/1000" for done in range(100, 1000, 100)
    ]
    assert "大约还要 1 分钟" in caplog.messages[2]


def test_a_slow_run_is_told_by_time(caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.INFO)
    clock = Clock()
    report = ProgressReport(clock)
    for done in range(8):
        report.show(done, 100_000)
        clock.now += 10
    assert [message for message in caplog.messages if "正在" in message] != []
    assert len(caplog.messages) == 3


def test_a_terminal_gets_a_bar():
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=80)
    report = ProgressReport(console=console)
    report.show(0, 1000)
    report.show(500, 1000)
    report.show(1000, 1000)
    report.end()
    assert "500/1000" in screen.getvalue()
