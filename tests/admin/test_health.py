"""Health: fast, honest, and silent about secrets."""

from __future__ import annotations

from httpx import AsyncClient

from db import accounts
from plugins.admin import health
from plugins.admin.ports import SpoolStatus
from tests.admin.conftest import client_of
from tests.admin.seed import BOT, View


async def test_all_is_well(api: AsyncClient, view: View) -> None:
    async with view.database.connection() as conn:
        await accounts.save(conn, BOT, connected=True, online=True)
    del api.headers["Authorization"]
    answer = await api.get("/api/health")
    body = answer.json()
    assert (answer.status_code, body["status"], body["problems"]) == (200, "ok", [])
    assert body["database"] == {"ok": True}
    assert body["model"] == {"ok": True, "name": "m-1"}
    assert body["accounts"] == [{"account_id": BOT, "connected": True, "online": True}]
    assert body["lanes"] == {"running": 1, "waiting": 2, "limit": 4}
    assert body["spool"] == {"pending": 0, "bytes": 0, "full": False}
    assert body["learner"] == {"running": 0, "at_once": 1, "ticked_at": None}
    assert body["demo"] is False
    assert body["version"] == health.VERSION
    assert 90 <= body["uptime_seconds"] < 300


async def test_it_names_no_secret(api: AsyncClient, view: View) -> None:
    secrets = {"database_url": "postgresql://u:pw-5678@127.0.0.1/x", "onebot_access_token": "ob-9012"}
    view.settings = view.settings.model_copy(update=secrets)
    text = (await api.get("/api/health")).text
    for secret in ("sk-secret-1234", "pw-5678", "ob-9012", "127.0.0.1"):
        assert secret not in text


async def test_a_failing_model_service_is_a_problem_and_no_failure(api: AsyncClient, view: View) -> None:
    view.models.ok = False
    answer = await api.get("/api/health")
    assert (answer.status_code, answer.json()["status"]) == (200, "degraded")
    assert answer.json()["model"]["ok"] is False
    assert any("LLM_API_KEY" in problem for problem in answer.json()["problems"])


async def test_a_hanging_model_service_is_not_waited_for(api: AsyncClient, view: View) -> None:
    view.models.hangs = True
    body = (await api.get("/api/health")).json()
    assert body["model"]["ok"] is None
    assert body["status"] == "degraded"


async def test_an_embedding_that_was_not_needed_yet_is_no_problem(api: AsyncClient) -> None:
    body = (await api.get("/api/health")).json()
    assert body["embedding"] == {"ok": None, "model": "toy", "detail": None}
    assert not any("向量" in problem for problem in body["problems"])


async def test_a_service_for_embedding_that_is_down_is_a_problem_and_no_failure(api: AsyncClient, view: View) -> None:
    view.backend.away = "HTTP 401 sk-embedding-1234"
    assert await view.embeddings.queries(["火锅"]) == [None]
    body = (await api.get("/api/health")).json()
    assert body["embedding"]["ok"] is None
    assert not any("向量" in problem for problem in body["problems"])
    service = {"embedding_base_url": "http://127.0.0.1:1/v1", "embedding_model": "toy"}
    view.settings = view.settings.model_copy(update=service)
    answer = await api.get("/api/health")
    assert (answer.status_code, answer.json()["status"]) == (200, "degraded")
    assert (answer.json()["embedding"]["ok"], answer.json()["embedding"]["model"]) == (False, "toy")
    assert any("EMBEDDING_BASE_URL" in problem for problem in answer.json()["problems"])
    assert "1234" not in answer.text


async def test_an_embedding_that_works_is_said_to(api: AsyncClient, view: View) -> None:
    assert (await view.embeddings.queries(["火锅"]))[0] is not None
    assert (await api.get("/api/health")).json()["embedding"]["ok"] is True


async def test_the_demo_model_is_named_as_such(view: View) -> None:
    view.settings = view.settings.model_copy(update={"llm_base_url": "", "llm_model": ""})
    async with client_of(view) as client:
        body = (await client.get("/api/health")).json()
    assert body["demo"] is True
    assert body["model"] == {"ok": True, "name": "demo"}


async def test_accounts_that_are_away_are_a_problem_and_no_failure(api: AsyncClient, view: View) -> None:
    answer = await api.get("/api/health")
    assert answer.status_code == 200
    assert any("NapCat" in problem for problem in answer.json()["problems"])
    async with view.database.connection() as conn:
        await accounts.save(conn, BOT, connected=True, online=False)
    assert any("掉线" in problem for problem in (await api.get("/api/health")).json()["problems"])


async def test_a_full_spool_is_a_problem(api: AsyncClient, view: View) -> None:
    view.spool = SpoolStatus(pending=9, bytes=64, full=True)
    body = (await api.get("/api/health")).json()
    assert body["spool"] == {"pending": 9, "bytes": 64, "full": True}
    assert any("暂存" in problem for problem in body["problems"])


async def test_without_the_database_it_is_down(api: AsyncClient, view: View) -> None:
    await view.database.close()
    answer = await api.get("/api/health")
    assert (answer.status_code, answer.json()["status"]) == (503, "down")
    assert answer.json()["database"] == {"ok": False}


async def test_before_the_bot_runs_it_is_starting() -> None:
    async with client_of(None) as client:
        answer = await client.get("/api/health")
    assert (answer.status_code, answer.json()["status"]) == (503, "starting")
