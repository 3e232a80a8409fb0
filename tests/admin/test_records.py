"""Messages, turns, the outbox, usage and the audit log over HTTP."""

from __future__ import annotations

from httpx import AsyncClient

from tests.admin.seed import BOT, FRIEND, GROUP, OTHER_GROUP, Seeded, View


async def test_messages_come_in_reading_order(api: AsyncClient, seeded: Seeded) -> None:
    body = (await api.get("/api/messages", params={"group_id": GROUP, "limit": 500})).json()
    assert [item["pos"] for item in body["items"]] == [1, 2, 4, 3, 5]
    assert body["next_before"] is None
    own = body["items"][3]
    assert (own["display"], own["text"]) == ("[回复 小明:「七点开局吗」] 七点，老地方", "七点，老地方")
    assert (own["is_self"], own["sender_id"], own["label"], own["turn_id"]) == (True, BOT, "#3", seeded.done_turn)
    assert body["items"][1]["kind"] == "poke"
    assert body["items"][1]["real_seq"] is None
    assert body["items"][2]["withdrawn_at"] == "2026-11-28T04:00:00Z"
    assert body["items"][4]["display"] == "[回复 一条看不到的消息] 好"


async def test_messages_page_backwards_by_position(api: AsyncClient, seeded: Seeded) -> None:
    assert seeded
    seen: list[list[int]] = []
    before = None
    while True:
        params = {"group_id": GROUP, "limit": 2} | ({"before": before} if before else {})
        body = (await api.get("/api/messages", params=params)).json()
        seen.append([item["pos"] for item in body["items"]])
        before = body["next_before"]
        if before is None:
            break
    assert seen == [[4, 5], [2, 3], [1]]


async def test_a_friends_messages_are_their_own_conversation(api: AsyncClient, seeded: Seeded) -> None:
    assert seeded
    body = (await api.get("/api/messages", params={"user_id": FRIEND})).json()
    assert [item["display"] for item in body["items"]] == ["在吗"]
    assert (await api.get("/api/messages", params={"group_id": FRIEND})).json()["items"] == []


async def test_an_unknown_group_has_no_messages_and_no_turns(api: AsyncClient) -> None:
    for path in ("messages", "turns", "outbox", "audit"):
        answer = await api.get(f"/api/{path}", params={"group_id": OTHER_GROUP})
        assert (answer.status_code, answer.json()) == (200, {"items": [], "next_before": None})


async def test_turns_are_listed_newest_first_with_their_cost(api: AsyncClient, seeded: Seeded) -> None:
    items = (await api.get("/api/turns", params={"group_id": GROUP, "limit": 100})).json()["items"]
    assert [item["id"] for item in items] == [seeded.running_turn, seeded.done_turn]
    done = items[1]
    assert (done["status"], done["outcome"], done["trigger"]) == ("done", "spoke", "mention")
    assert (done["spoken"], done["model_calls"]) == (1, 2)
    assert (done["prompt_tokens"], done["completion_tokens"], done["cached_tokens"]) == (2100, 50, 1700)
    assert (items[0]["spoken"], items[0]["model_calls"], items[0]["prompt_tokens"]) == (0, 0, 0)


async def test_turns_page_and_filter(api: AsyncClient, seeded: Seeded) -> None:
    first = (await api.get("/api/turns", params={"limit": 1})).json()
    assert ([item["id"] for item in first["items"]], first["next_before"]) == ([seeded.running_turn], seeded.running_turn)
    rest = (await api.get("/api/turns", params={"before": first["next_before"]})).json()
    assert [item["id"] for item in rest["items"]] == [seeded.done_turn]
    assert (await api.get("/api/turns", params={"user_id": FRIEND})).json()["items"] == []


async def test_a_turn_shows_blocks_steps_calls_and_sends_in_order(api: AsyncClient, seeded: Seeded) -> None:
    body = (await api.get(f"/api/turns/{seeded.done_turn}")).json()
    assert body["trigger"] == "mention"
    assert [(block["name"], block["tokens"], block["state"]) for block in body["blocks"]] == [
        ("system", 500, "kept"),
        ("history", 300, "trimmed"),
    ]
    assert [step["name"] for step in body["steps"]] == ["m-1", "speak"]
    speak = body["steps"][1]
    assert speak["arguments"] == {"content": "七点，老地方", "mentions": [5000000011]}
    assert (speak["result"], speak["ok"], speak["ms"]) == ("已发送", True, 35)
    assert [send["status"] for send in body["outbox"]] == ["refused", "sent"]
    assert body["outbox"][1]["message_id"] == -8123456789012
    assert [call["prompt_tokens"] for call in body["calls"]] == [1000, 1100]


async def test_a_missing_turn_is_404(api: AsyncClient) -> None:
    for answer in (await api.get("/api/turns/424242"), await api.post("/api/turns/424242/interrupt")):
        assert (answer.status_code, answer.json()) == (404, {"detail": "没有编号为 424242 的轮"})


async def test_a_running_turn_is_interrupted_and_audited(api: AsyncClient, view: View, seeded: Seeded) -> None:
    view.alive = {seeded.running_turn}
    answer = await api.post(f"/api/turns/{seeded.running_turn}/interrupt")
    assert (answer.status_code, answer.json()) == (200, {"id": seeded.running_turn, "interrupted": True})
    assert view.interrupted == [seeded.running_turn]
    [entry] = (await api.get("/api/audit", params={"group_id": GROUP})).json()["items"]
    assert (entry["action"], entry["before"]) == ("turn.interrupt", {"turn": seeded.running_turn, "status": "running"})


async def test_a_turn_that_ended_or_runs_elsewhere_is_409(api: AsyncClient, view: View, seeded: Seeded) -> None:
    for turn in (seeded.done_turn, seeded.running_turn):
        answer = await api.post(f"/api/turns/{turn}/interrupt")
        assert answer.status_code == 409
        assert "无法中断" in answer.json()["detail"]
    assert view.interrupted == []
    assert (await api.get("/api/audit")).json()["items"] == []


async def test_the_outbox_filters_by_status_and_group(api: AsyncClient, seeded: Seeded) -> None:
    assert seeded
    everything = (await api.get("/api/outbox")).json()["items"]
    assert [item["status"] for item in everything] == ["sent", "refused"]
    refused = (await api.get("/api/outbox", params={"group_id": GROUP, "status": "refused"})).json()["items"]
    assert [(item["text"], item["reason"], item["target_id"]) for item in refused] == [("太长的话", "other", GROUP)]
    older = (await api.get("/api/outbox", params={"before": everything[0]["id"]})).json()["items"]
    assert [item["id"] for item in older] == [everything[1]["id"]]


async def test_usage_is_added_up_by_day_and_by_model(api: AsyncClient, seeded: Seeded) -> None:
    assert seeded
    today = (await api.get("/api/usage", params={"days": 1})).json()
    assert (today["by"], [item["calls"] for item in today["items"]]) == ("day", [1])
    assert today["total"] == {
        "calls": 1,
        "failed": 0,
        "prompt_tokens": 1100,
        "completion_tokens": 30,
        "cached_tokens": 900,
    }
    assert today["items"][0]["key"] == today["until"][:10]
    year = (await api.get("/api/usage", params={"days": 366, "by": "model", "group_id": GROUP})).json()
    assert [(item["key"], item["calls"]) for item in year["items"]] == [("m-1", 2)]


async def test_usage_of_another_conversation_is_nothing(api: AsyncClient, seeded: Seeded) -> None:
    assert seeded
    for params in ({"group_id": OTHER_GROUP}, {"user_id": FRIEND}):
        body = (await api.get("/api/usage", params={"days": 366, **params})).json()
        assert (body["items"], body["total"]["calls"]) == ([], 0)
