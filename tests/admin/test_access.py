"""Who may call the API, and how it says no."""

from __future__ import annotations

import re

import pytest
from fastapi import FastAPI
from httpx import ASGITransport, AsyncClient

from plugins.admin.router import build_router
from tests.admin.conftest import client_of
from tests.admin.seed import GROUP, View

PATHS = [
    ("GET", "/api/conversations"),
    ("PATCH", "/api/conversations?group_id=7000000101"),
    ("PATCH", "/api/conversations/1"),
    ("GET", "/api/messages?group_id=7000000101"),
    ("GET", "/api/turns"),
    ("GET", "/api/turns/1"),
    ("POST", "/api/turns/1/interrupt"),
    ("GET", "/api/outbox"),
    ("GET", "/api/usage"),
    ("GET", "/api/audit"),
    ("POST", "/api/audit/1/undo"),
    ("GET", "/api/embedding"),
    ("GET", "/api/memories?group_id=7000000101"),
    ("POST", "/api/memories"),
    ("GET", "/api/memories/1"),
    ("PATCH", "/api/memories/1"),
    ("DELETE", "/api/memories/1"),
    ("POST", "/api/memories/import"),
    ("GET", "/api/memories/export"),
    ("GET", "/api/recall?group_id=7000000101&q=a"),
    ("GET", "/api/search?group_id=7000000101&q=a"),
    ("DELETE", "/api/members/7000000101/1"),
    ("POST", "/api/members/7000000101/1/unlearned"),
    ("DELETE", "/api/members/7000000101/1/unlearned"),
    ("GET", "/api/slang"),
    ("POST", "/api/slang"),
    ("GET", "/api/slang/1"),
    ("PATCH", "/api/slang/1"),
    ("POST", "/api/slang/1/merge"),
    ("GET", "/api/expressions"),
    ("POST", "/api/expressions"),
    ("GET", "/api/expressions/1"),
    ("PATCH", "/api/expressions/1"),
    ("POST", "/api/expressions/1/merge"),
    ("GET", "/api/profiles"),
    ("GET", "/api/profiles/traits/1"),
    ("PATCH", "/api/profiles/traits/1"),
    ("DELETE", "/api/profiles/traits/1"),
    ("GET", "/api/topics"),
    ("GET", "/api/topics/1"),
    ("GET", "/api/learner"),
    ("POST", "/api/learner/run"),
    ("POST", "/api/messages/import"),
    ("GET", "/api/nothing-here"),
]


@pytest.mark.parametrize("header", [None, "Bearer wrong", "Bearer ", "Basic 5Luk54mM"])
async def test_no_route_answers_without_the_token(api: AsyncClient, header: str | None) -> None:
    del api.headers["Authorization"]
    if header is not None:
        api.headers["Authorization"] = header
    for method, path in PATHS:
        answer = await api.request(method, path, json={"enabled": True})
        assert answer.status_code == 401, (method, path)
        assert answer.headers["WWW-Authenticate"] == "Bearer"
        assert "令牌" in answer.json()["detail"]


async def test_bytes_that_are_no_ascii_are_only_a_wrong_token(api: AsyncClient) -> None:
    del api.headers["Authorization"]
    answer = await api.get("/api/turns", headers=[(b"authorization", b"Bearer \xe9\xff")])
    assert answer.status_code == 401


async def test_an_empty_token_lets_nobody_in(view: View) -> None:
    app = FastAPI()
    app.include_router(build_router(lambda: view, ""))
    async with AsyncClient(transport=ASGITransport(app), base_url="http://bot") as client:
        for headers in ({}, {"Authorization": "Bearer "}, {"Authorization": "Bearer"}):
            assert (await client.get("/api/turns", headers=headers)).status_code == 401


async def test_every_documented_route_but_health_is_among_those_checked(api: AsyncClient) -> None:
    paths = (await api.get("/openapi.json")).json()["paths"]
    documented = {(method.upper(), path) for path, methods in paths.items() for method in methods}
    tried = {(method, re.sub(r"/\d+", "/{id}", path.split("?")[0])) for method, path in PATHS}
    plain = {(method, re.sub(r"\{\w+\}", "{id}", path)) for method, path in documented}
    assert plain - tried == {("GET", "/api/health")}


async def test_the_schema_names_the_bearer_scheme_and_the_error_body(api: AsyncClient) -> None:
    schema = (await api.get("/openapi.json")).json()
    assert schema["components"]["securitySchemes"]["HTTPBearer"]["scheme"] == "bearer"
    for methods in schema["paths"].values():
        for operation in methods.values():
            assert re.search("[一-鿿]", operation["summary"])
    operations = schema["paths"]["/api/turns/{turn_id}"]["get"]
    assert operations["security"] == [{"HTTPBearer": []}]
    assert operations["responses"]["422"]["content"]["application/json"]["schema"] == {"$ref": "#/components/schemas/Problem"}


async def test_before_the_bot_runs_every_route_says_so() -> None:
    async with client_of(None) as client:
        for method, path in PATHS[:-1]:
            answer = await client.request(method, path, json={"enabled": True})
            assert (answer.status_code, answer.json()) == (503, {"detail": "机器人还在启动，请稍后再试"}), path


WRONG = [
    ("/api/messages", "", "请给出 group_id 或 user_id"),
    (f"/api/messages?group_id={GROUP}&user_id=5000000011", "", "只能给一个"),
    ("/api/messages?group_id=abc", "group_id", "应为整数"),
    (f"/api/messages?group_id={2**63}", "group_id", "不能大于"),
    (f"/api/messages?group_id={GROUP}&limit=0", "limit", "不能小于 1"),
    (f"/api/messages?group_id={GROUP}&limit=1001", "limit", "不能大于 1000"),
    ("/api/outbox?status=lost", "status", "之一"),
    ("/api/turns/abc", "turn_id", "应为整数"),
    ("/api/turns?before=-1", "before", "不能小于 1"),
]


async def test_a_wrong_parameter_is_named_in_chinese(api: AsyncClient) -> None:
    for path, field, says in WRONG:
        answer = await api.get(path)
        assert answer.status_code == 422, path
        detail = answer.json()["detail"]
        assert field in detail
        assert says in detail


async def test_an_unknown_path_is_404_in_chinese(api: AsyncClient) -> None:
    for method, path in (("GET", "/api/nothing"), ("DELETE", "/api/turns")):
        answer = await api.request(method, path)
        assert answer.status_code == 404
        assert "没有这个接口" in answer.json()["detail"]


async def test_a_database_that_is_away_is_503_in_chinese(api: AsyncClient, view: View) -> None:
    await view.database.close()
    answer = await api.get("/api/turns")
    assert (answer.status_code, answer.json()) == (503, {"detail": "数据库暂时连不上，请稍后再试"})


async def test_a_body_without_end_is_refused(api: AsyncClient) -> None:
    answer = await api.patch(f"/api/conversations?group_id={GROUP}", json={"extra_prompt": "长" * 300_000})
    assert answer.status_code == 413
