"""How the embedding is, over HTTP."""

from __future__ import annotations

from httpx import AsyncClient

from db.memory_models import MemoryId
from tests.admin.seed import Seeded, View


async def test_the_status_counts_what_has_a_vector(api: AsyncClient, view: View, seeded: Seeded) -> None:
    async with view.database.connection() as conn:
        cur = await conn.execute(
            """
            INSERT INTO memories (conversation_id, subject_kind, kind, content, content_key, search, source)
            VALUES (%(group)s, 'group', 'fact', '周末打桌游', '周末打桌游', '周末 末打 打桌 桌游', 'person')
            RETURNING id
            """,
            {"group": seeded.group},
        )
        made = await cur.fetchone()
    assert made is not None
    before = (await api.get("/api/embedding")).json()
    assert (before["state"], before["model"], before["dim"]) == ("starting", "toy", None)
    assert (before["memories_total"], before["memories_done"]) == (1, 0)
    await view.keeper.settled([MemoryId(made[0])])
    after = (await api.get("/api/embedding")).json()
    assert (after["state"], after["dim"], after["memories_done"]) == ("ok", 16, 1)


async def test_a_service_that_is_away_is_named(api: AsyncClient, view: View) -> None:
    view.backend.away = "连不上向量服务"
    await view.embeddings.queries(["火锅"])
    body = (await api.get("/api/embedding")).json()
    assert body["state"] == "down"
    assert "连不上向量服务" in body["detail"]
