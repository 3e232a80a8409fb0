"""The API on a plain FastAPI app, with a real database behind it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from fastapi import FastAPI
from httpx import ASGITransport, AsyncClient

from db.pool import Database
from plugins.admin.router import build_router
from tests.admin.seed import Seeded, View, seed, settings_with

TOKEN = "令牌-for-tests-only"


def client_of(view: View | None) -> AsyncClient:
    """A client that bears the token."""
    app = FastAPI()
    app.include_router(build_router(lambda: view, TOKEN))
    headers = {"Authorization": f"Bearer {TOKEN}".encode()}
    return AsyncClient(transport=ASGITransport(app), base_url="http://bot", headers=headers)


@pytest.fixture
async def seeded(database: Database) -> Seeded:
    """The rows of a small group day."""
    return await seed(database)


@pytest.fixture
async def view(database: Database, tmp_path: Path) -> AsyncIterator[View]:
    """A running bot with a model service set; its vectors come from a toy."""
    settings = settings_with(tmp_path, llm_base_url="http://127.0.0.1:1/v1", llm_model="m-1", llm_api_key="sk-secret-1234")
    made = View(database, settings)
    await made.embeddings.open()
    yield made
    await made.keeper.aclose()
    await made.embeddings.aclose()


@pytest.fixture
async def api(view: View) -> AsyncIterator[AsyncClient]:
    """A client of the API."""
    async with client_of(view) as client:
        yield client
