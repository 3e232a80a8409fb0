"""Reading and changing what the bot may do where."""

from __future__ import annotations

from pathlib import Path

import pytest
from httpx import AsyncClient

from tests.admin.seed import FRIEND, GROUP, OTHER_GROUP, Seeded, View


async def _audit(api: AsyncClient) -> list[dict[str, object]]:
    return (await api.get("/api/audit")).json()["items"]


async def test_the_list_shows_state_and_what_counts(api: AsyncClient, seeded: Seeded) -> None:
    items = (await api.get("/api/conversations")).json()["items"]
    assert [(item["kind"], item["target_id"]) for item in items] == [("group", GROUP), ("private", FRIEND)]
    group = items[0]
    assert (group["id"], group["name"], group["enabled"]) == (seeded.group, "周末桌游", None)
    assert (group["owed"], group["calls_today"], group["last_pos"], group["watermark"]) == (1, 1, 5, 4)
    assert group["last_message_at"] == "2026-11-28T04:00:00Z"
    assert items[1]["effective"]["enabled"] is False
    assert "diced_pos" not in group
    assert group["effective"] == {
        "enabled": True,
        "talk_frequency": 0.3,
        "quiet_hours": "01:00-07:00",
        "daily_calls": 500,
        "persona": "default",
    }


async def test_a_change_is_stored_audited_and_told(api: AsyncClient, view: View, seeded: Seeded) -> None:
    wanted = {
        "enabled": True,
        "talk_frequency": 0,
        "quiet_hours": "23:30-06:00",
        "daily_calls": 20,
        "persona": "default",
        "extra_prompt": "这里只聊桌游",
        "learning": False,
    }
    answer = await api.patch(f"/api/conversations/{seeded.group}", json=wanted)
    assert answer.status_code == 200
    assert {name: answer.json()[name] for name in wanted} == wanted
    assert answer.json()["effective"]["talk_frequency"] == 0
    assert answer.json()["effective"]["quiet_hours"] == "23:30-06:00"
    assert view.told == [seeded.group]
    [entry] = await _audit(api)
    assert (entry["actor"], entry["action"], entry["target_id"]) == ("api", "conversation.change", GROUP)
    assert entry["after"] == wanted
    assert entry["before"] == {
        "enabled": None,
        "talk_frequency": None,
        "quiet_hours": None,
        "daily_calls": None,
        "persona": None,
        "extra_prompt": "",
        "learning": True,
    }


async def test_null_goes_back_to_the_setting_and_the_rest_stays(api: AsyncClient, seeded: Seeded) -> None:
    path = f"/api/conversations/{seeded.group}"
    await api.patch(path, json={"talk_frequency": 1, "extra_prompt": "简短", "learning": False, "quiet_hours": ""})
    body = (await api.patch(path, json={"talk_frequency": None, "extra_prompt": None, "learning": None})).json()
    assert (body["talk_frequency"], body["extra_prompt"], body["learning"]) == (None, "", True)
    assert (body["quiet_hours"], body["effective"]["quiet_hours"]) == ("", "")
    assert [sorted(entry["after"]) for entry in await _audit(api)] == [
        ["extra_prompt", "learning", "talk_frequency"],
        ["extra_prompt", "learning", "quiet_hours", "talk_frequency"],
    ]


async def test_what_changes_nothing_is_not_audited(api: AsyncClient, seeded: Seeded) -> None:
    for body in ({}, {"enabled": None}, {"learning": True}):
        assert (await api.patch(f"/api/conversations/{seeded.group}", json=body)).status_code == 200
    assert await _audit(api) == []


async def test_a_group_that_nothing_is_known_of_can_be_enabled(api: AsyncClient, view: View) -> None:
    answer = await api.patch("/api/conversations", params={"group_id": OTHER_GROUP}, json={"enabled": True})
    assert answer.status_code == 200
    assert (answer.json()["kind"], answer.json()["target_id"], answer.json()["enabled"]) == ("group", OTHER_GROUP, True)
    again = await api.patch("/api/conversations", params={"group_id": OTHER_GROUP}, json={"enabled": False})
    assert again.json()["id"] == answer.json()["id"]
    assert view.told == [answer.json()["id"]] * 2


async def test_an_unknown_row_is_404(api: AsyncClient, view: View) -> None:
    answer = await api.patch("/api/conversations/999999", json={"enabled": True})
    assert (answer.status_code, answer.json()) == (404, {"detail": "没有编号为 999999 的会话"})
    assert view.told == []
    assert await _audit(api) == []


WRONG = [
    ({"talk_frequency": 1.5}, "talk_frequency：不能大于 1"),
    ({"talk_frequency": "often"}, "talk_frequency：应为数字"),
    ({"enabled": "yes"}, "enabled：应为 true 或 false"),
    ({"quiet_hours": "25:00-7"}, "quiet_hours：应为 HH:MM-HH:MM"),
    ({"quiet_hours": 7}, "quiet_hours：应为文字"),
    ({"daily_calls": -1}, "daily_calls：不能小于 0"),
    ({"daily_calls": 1.5}, "daily_calls：应为整数"),
    ({"daily_calls": True}, "daily_calls：应为整数"),
    ({"talk_frequency": False}, "talk_frequency：应为数字"),
    ({"persona": "nobody"}, "nobody"),
    ({"persona": "../settings"}, "persona"),
    ({"extra_prompt": "长" * 4001}, "extra_prompt：不能超过 4000 个字"),
    ({"extra_prompt": "a\0b"}, "extra_prompt：不能含有"),
    ({"persona": "x" * 65}, "persona：不能超过 64 个字"),
    ({"mood": 1}, "mood：不认识这一项"),
    ({"id": 5}, "id：不认识这一项"),
    ([], "应为 JSON 对象"),
    ("enabled", "应为 JSON 对象"),
]


async def test_wrong_values_are_refused_in_chinese_and_change_nothing(api: AsyncClient, view: View, seeded: Seeded) -> None:
    path = f"/api/conversations/{seeded.group}"
    for body, says in WRONG:
        answer = await api.patch(path, json=body)
        assert answer.status_code == 422, body
        assert says in answer.json()["detail"]
    for raw in (b"{", b"", b'{"talk_frequency": NaN}', b'{"extra_prompt": "\\ud800"}', b"\xff"):
        answer = await api.patch(path, content=raw, headers={"Content-Type": "application/json"})
        assert answer.status_code in {400, 422}, raw
        assert isinstance(answer.json()["detail"], str)
    assert view.told == []
    assert await _audit(api) == []


async def test_the_owners_own_persona_counts(api: AsyncClient, view: View, seeded: Seeded, tmp_path: Path) -> None:
    assert view.settings.data_dir == tmp_path
    path = f"/api/conversations/{seeded.group}"
    assert (await api.patch(path, json={"persona": "阿茶"})).status_code == 422
    (tmp_path / "persona").mkdir()
    (tmp_path / "persona" / "阿茶.md").write_text("---\ntitle: 阿茶\nnames: 阿茶\n---\n说话慢。\n", encoding="utf-8")
    body = (await api.patch(path, json={"persona": "阿茶"})).json()
    assert (body["persona"], body["effective"]["persona"]) == ("阿茶", "阿茶")


@pytest.mark.parametrize("params", [{}, {"group_id": GROUP, "user_id": FRIEND}])
async def test_a_change_needs_exactly_one_number(api: AsyncClient, params: dict[str, int]) -> None:
    assert (await api.patch("/api/conversations", params=params, json={"enabled": True})).status_code == 422
