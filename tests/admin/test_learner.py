"""The learner over HTTP: how far it is, and learning at once."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest
from httpx import AsyncClient

from db import learner as rows
from db.models import ModelCall
from db.usage import record_calls
from learner.engine import BUDGET_GONE
from learner.service import DEMO_NOTE, Crew, Learner
from llm.errors import ModelUnavailable
from plugins.admin.learner import router
from tests.admin.seed import FRIEND, GROUP, OTHER_GROUP, Seeded, View
from tests.learner.engine_world import Clock, Scripted, Tokens


def staffed(view: View, *tasks: Scripted, tokens: Tokens | None = None) -> None:
    """Give the bot a learner with these tasks."""
    clock = Clock(datetime.now(UTC))
    view.learner = Learner(view.database, tokens or Tokens(), Crew(tasks), view.settings, clock=clock)


async def test_a_run_learns_and_tells_what_it_found_and_used(api: AsyncClient, view: View, seeded: Seeded) -> None:
    task = Scripted()
    staffed(view, task)
    async with view.database.connection() as conn:
        later = datetime.now(UTC) + timedelta(minutes=1)
        call = ModelCall(seeded.group, None, "topic_summary", "learner", "m-1", 900, 80, 0, 400, True, called_at=later)
        await record_calls(conn, [call, call])
    answer = await api.post("/api/learner/run", json={"group_id": GROUP})
    assert answer.status_code == 200, answer.text
    report = answer.json()
    assert (report["group_id"], report["learned"], report["batches"], report["counts"]) == (GROUP, True, 1, {"topics": 2})
    assert report["tokens"] == {
        "calls": 2,
        "prompt_tokens": 1800,
        "completion_tokens": 160,
        "total": 1960,
        "left_today": 1000,
        "by_task": [{"task": "topic_summary", "calls": 2, "prompt_tokens": 1800, "completion_tokens": 160}],
    }
    assert (report["stopped"], report["note"]) == ({}, None)
    again = (await api.post("/api/learner/run", json={"group_id": GROUP})).json()
    assert (again["batches"], again["counts"], len(task.asked)) == (0, {}, 1)


async def test_a_friend_is_learned_too(api: AsyncClient, view: View, seeded: Seeded) -> None:
    staffed(view, Scripted())
    report = (await api.post("/api/learner/run", json={"user_id": FRIEND})).json()
    assert seeded
    assert (report["group_id"], report["user_id"], report["counts"]) == (None, FRIEND, {"topics": 1})


async def test_a_run_says_why_it_ended_early(api: AsyncClient, view: View, seeded: Seeded) -> None:
    staffed(view, Scripted(), Scripted("terms", needs_model=False), tokens=Tokens(left={seeded.group: 0}))
    report = (await api.post("/api/learner/run", json={"group_id": GROUP})).json()
    assert (report["learned"], report["stopped"], report["note"]) == (False, {"topics": BUDGET_GONE}, BUDGET_GONE)
    assert report["counts"] == {"terms": 2}


async def test_with_the_demo_model_terms_are_counted_and_it_says_so(api: AsyncClient, view: View, seeded: Seeded) -> None:
    assert seeded
    staffed(view, Scripted(), Scripted("terms", needs_model=False), tokens=Tokens(is_demo=True))
    report = (await api.post("/api/learner/run", json={"group_id": GROUP})).json()
    assert (report["learned"], report["counts"], report["note"]) == (False, {"terms": 2}, DEMO_NOTE)


async def test_who_is_unknown_or_unclear_is_refused(api: AsyncClient, seeded: Seeded) -> None:
    assert seeded
    for body, status in (
        ({"group_id": OTHER_GROUP}, 404),
        ({"user_id": GROUP}, 404),
        ({}, 422),
        ({"group_id": GROUP, "user_id": FRIEND}, 422),
        ({"group_id": 0}, 422),
        ({"group_id": 2**63}, 422),
        ({"group_id": "甲"}, 422),
        ({"group_id": GROUP, "mode": "fast"}, 422),
    ):
        answer = await api.post("/api/learner/run", json=body)
        assert (answer.status_code, list(answer.json())) == (status, ["detail"]), body
    assert (await api.get("/api/learner", params={"group_id": OTHER_GROUP})).status_code == 404


async def test_a_second_run_at_once_is_a_conflict(api: AsyncClient, view: View, seeded: Seeded) -> None:
    assert seeded
    task = Scripted(gate=asyncio.Event())
    staffed(view, task)
    first = asyncio.create_task(api.post("/api/learner/run", json={"group_id": GROUP}))
    await task.entered.wait()
    answer = await api.post("/api/learner/run", json={"group_id": GROUP})
    assert (answer.status_code, answer.json()) == (409, {"detail": "这个会话正在学习中，等它学完再来"})
    assert (await api.get("/api/learner")).json()["running"] == 1
    assert task.gate is not None
    task.gate.set()
    assert (await first).json()["learned"]


async def test_where_learning_is_off_nothing_is_learned(api: AsyncClient, view: View, seeded: Seeded) -> None:
    assert seeded
    staffed(view, Scripted())
    await api.patch(f"/api/conversations/{seeded.group}", json={"learning": False})
    answer = await api.post("/api/learner/run", json={"group_id": GROUP})
    assert (answer.status_code, "learning" in answer.json()["detail"]) == (409, True)


async def test_a_bot_that_stops_says_so(api: AsyncClient, view: View, seeded: Seeded) -> None:
    assert seeded
    await view.learner.aclose()
    assert (await api.post("/api/learner/run", json={"group_id": GROUP})).status_code == 503


async def test_how_far_it_is_by_group_and_by_task(api: AsyncClient, view: View, seeded: Seeded) -> None:
    staffed(view, Scripted(), Scripted("slang"))
    async with view.database.connection() as conn:
        await conn.execute("UPDATE messages SET stored_at = now() - interval '20 minutes'")
        assert await rows.advance(conn, rows.Move(seeded.group, "topics", 0, 1))
        until = await rows.fail(conn, seeded.group, "slang", "没有应答\0\ud83d", datetime.now(UTC))
        await record_calls(conn, [ModelCall(seeded.group, None, "slang_candidates", "learner", "m-1", 900, 80, 0, 400, True)])
    answer = await api.get("/api/learner", params={"group_id": GROUP})
    assert answer.status_code == 200, answer.text
    [item] = answer.json()["items"]
    assert (item["group_id"], item["name"], item["enabled"], item["last_pos"]) == (GROUP, "周末桌游", True, 5)
    assert (item["cursor"], item["lag_messages"], item["lag_minutes"], item["tokens_today"]) == (0, 2, 20, 980)
    assert (item["last_error"], datetime.fromisoformat(item["next_attempt"])) == ("没有应答�?", until)
    tasks = {task["task"]: task for task in item["tasks"]}
    assert (tasks["topics"]["cursor"], tasks["topics"]["lag_messages"], tasks["topics"]["failures"]) == (1, 1, 0)
    assert (tasks["slang"]["cursor"], tasks["slang"]["lag_messages"], tasks["slang"]["failures"]) == (0, 2, 1)
    assert [name for name, task in tasks.items() if task["active"]] == ["topics", "slang"]


async def test_a_learned_group_has_no_lag(api: AsyncClient, view: View, seeded: Seeded) -> None:
    assert seeded
    staffed(view, Scripted())
    await api.post("/api/learner/run", json={"group_id": GROUP})
    [item] = (await api.get("/api/learner", params={"group_id": GROUP})).json()["items"]
    assert (item["cursor"], item["lag_messages"], item["lag_minutes"]) == (5, 0, 0)


async def test_all_that_is_enabled_or_was_learned_is_listed(api: AsyncClient, view: View, seeded: Seeded) -> None:
    assert seeded
    staffed(view, Scripted(objects=lambda _: ModelUnavailable("没有应答")))
    assert [item["group_id"] for item in (await api.get("/api/learner")).json()["items"]] == [GROUP]
    await api.post("/api/learner/run", json={"user_id": FRIEND})
    assert len((await api.get("/api/learner")).json()["items"]) == 2


@pytest.mark.parametrize(("method", "path"), [("GET", "/api/learner"), ("POST", "/api/learner/run")])
async def test_without_a_token_nothing_is_told(api: AsyncClient, method: str, path: str) -> None:
    answer = await api.request(method, path, headers={"Authorization": "Bearer wrong"})
    assert answer.status_code == 401


def test_every_route_is_covered_here() -> None:
    assert len(router.routes) == 2
