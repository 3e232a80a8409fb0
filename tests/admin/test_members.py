"""Forgetting a member, and not learning about them, over HTTP."""

from __future__ import annotations

from httpx import AsyncClient

from tests.admin.seed import BOT, GROUP, MING, OTHER_GROUP, WEI, Seeded, View


async def test_a_member_is_forgotten_with_what_was_derived_from_them(api: AsyncClient, view: View, seeded: Seeded) -> None:
    assert seeded
    for subject, content in ((MING, "小明养了两只猫"), (WEI, "阿伟怕辣")):
        body = {"group_id": GROUP, "subject_id": subject, "kind": "fact", "content": content}
        assert (await api.post("/api/memories", json=body)).status_code == 201
    answer = await api.delete(f"/api/members/{GROUP}/{MING}")
    assert (answer.status_code, answer.json()) == (200, {"messages": 2, "memories": 1})
    left = (await api.get("/api/memories", params={"group_id": GROUP})).json()["items"]
    assert [item["content"] for item in left] == ["阿伟怕辣"]
    said = (await api.get("/api/messages", params={"group_id": GROUP})).json()["items"]
    assert {item["text"] for item in said if item["sender_id"] == MING} == {""}
    entry = (await api.get("/api/audit")).json()["items"][0]
    assert (entry["action"], entry["actor"]) == ("member.forget", "api")
    assert entry["after"] == {"user_id": MING, "messages": 2, "memories": 1}
    async with view.database.connection() as conn:
        told = await (await conn.execute("SELECT FROM audit a WHERE a::text LIKE '%%两只猫%%'")).fetchone()
    assert told is None
    assert (await api.delete(f"/api/members/{GROUP}/{MING}")).json() == {"messages": 0, "memories": 0}


async def test_not_learning_is_turned_on_and_off_once(api: AsyncClient, view: View) -> None:
    path = f"/api/members/{OTHER_GROUP}/{MING}/unlearned"
    assert (await api.delete(path)).status_code == 404
    for _ in range(2):
        answer = await api.post(path)
        assert (answer.status_code, answer.json()) == (200, {"group_id": OTHER_GROUP, "user_id": MING, "unlearned": True})
    async with view.database.connection() as conn:
        assert await (await conn.execute("SELECT user_id FROM unlearned")).fetchall() == [(MING,)]
    for _ in range(2):
        assert (await api.delete(path)).json()["unlearned"] is False
    assert [entry["action"] for entry in (await api.get("/api/audit")).json()["items"]] == ["member.learn", "member.unlearn"]


async def test_what_is_unknown_or_its_own_is_refused(api: AsyncClient, view: View, seeded: Seeded) -> None:
    assert seeded
    async with view.database.connection() as conn:
        await conn.execute("INSERT INTO accounts (account_id) VALUES (%(bot)s)", {"bot": BOT})
    answer = await api.delete(f"/api/members/{OTHER_GROUP}/{MING}")
    assert (answer.status_code, answer.json()) == (404, {"detail": f"没有群号为 {OTHER_GROUP} 的会话"})
    for answer in (await api.delete(f"/api/members/{GROUP}/{BOT}"), await api.post(f"/api/members/{GROUP}/{BOT}/unlearned")):
        assert (answer.status_code, answer.json()) == (422, {"detail": "这是机器人自己的号"})
    for path in (f"{GROUP}/abc", f"{GROUP}/0", f"-1/{MING}", f"{GROUP}/{2**63}"):
        assert (await api.delete(f"/api/members/{path}")).status_code == 422
    assert (await api.get("/api/audit")).json()["items"] == []
