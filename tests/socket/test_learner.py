"""The learner in a real process: it learns an imported past by itself, answers nobody for it, and stops at once."""

from __future__ import annotations

import asyncio
import json

import httpx
import pytest

from tests.learner.test_real_tasks import finds_nothing
from tests.llm.fake_service import FakeService
from tests.socket.process import ADMIN, GROUPS, MING, BotProcess, running
from tests.socket.test_faults import free_port


def a_past(count: int) -> bytes:
    """So many old messages of one member."""
    lines = [
        {"sender_id": MING, "sender_name": "小明", "text": f"小满，第{n}句", "sent_at": f"2026-01-02T03:{n % 60:02}:00Z"}
        for n in range(count)
    ]
    return "\n".join(json.dumps(line, ensure_ascii=False) for line in lines).encode()


async def test_a_running_bot_learns_a_past_by_itself(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("bot")
    async with (
        FakeService(brain=finds_nothing) as service,
        running(BotProcess(folder, free_port(), service.base_url, LEARNER_SECONDS="0.2")) as bot,
        httpx.AsyncClient(base_url=f"http://127.0.0.1:{bot.port}", headers={"Authorization": f"Bearer {ADMIN}"}) as api,
    ):
        answer = await api.post("/api/messages/import", params={"group_id": GROUPS[0]}, content=a_past(60), timeout=30)
        assert answer.json()["new"] == 60
        async with asyncio.timeout(40):
            while True:
                [item] = (await api.get("/api/learner", params={"group_id": GROUPS[0]}, timeout=20)).json()["items"]
                assert item["last_error"] is None
                if item["lag_messages"] < 10:
                    break
                await asyncio.sleep(0.1)
        assert item["tokens_today"] > 0
        assert await bot.items("turns", GROUPS[0]) == []
        assert (await api.get("/api/health")).json()["learner"]["ticked_at"] is not None
        await bot.stop()
        assert "已停止" in bot.said()
        assert "Traceback" not in bot.said()
