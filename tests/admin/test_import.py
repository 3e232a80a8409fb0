"""Many memories at once over HTTP: in, out, in again."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TypeAlias

import pytest
from fastapi import Request
from httpx import AsyncClient

from plugins.admin import imports
from plugins.admin.importing import LINE_BYTES
from tests.admin.seed import BOT, FRIEND, GROUP, MING, OTHER_GROUP, WEI, Seeded, View

Item: TypeAlias = dict[str, object]


def _line(content: str, **fields: object) -> str:
    return json.dumps({"group_id": GROUP, "subject_id": MING, "kind": "fact", "content": content} | fields, ensure_ascii=False)


async def _import(api: AsyncClient, *lines: str | bytes, wait: bool = False) -> Item:
    body = b"\n".join(line.encode() if isinstance(line, str) else line for line in lines)
    answer = await api.post("/api/memories/import", params={"wait": wait}, content=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def _items(api: AsyncClient, group: int = GROUP) -> list[Item]:
    params = {"group_id": group, "status": "all", "limit": 200}
    return (await api.get("/api/memories", params=params)).json()["items"]


async def _export(api: AsyncClient, **params: int) -> list[Item]:
    answer = await api.get("/api/memories/export", params=params)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith("application/x-ndjson")
    assert answer.text.endswith("\n") or not answer.text
    return [json.loads(line) for line in answer.text.splitlines()]


async def test_four_fields_are_enough_and_a_second_time_adds_nothing(api: AsyncClient, view: View) -> None:
    lines = [_line("小明养了两只猫"), _line("群里周末打桌游", subject_id=0, kind="event"), _line("阿伟怕辣", subject_id=WEI)]
    first = await _import(api, *lines)
    assert (first["lines"], first["new"], first["known"], first["failed"], first["errors"]) == (3, 3, 0, 0, [])
    assert [(item["subject_id"], item["content"], item["source"]) for item in await _items(api)] == [
        (WEI, "阿伟怕辣", "import"),
        (0, "群里周末打桌游", "import"),
        (MING, "小明养了两只猫", "import"),
    ]
    again = await _import(api, *lines)
    assert (again["lines"], again["new"], again["known"]) == (3, 0, 3)
    assert len(await _items(api)) == 3
    assert view.grew == 0


async def test_a_line_that_comes_twice_in_a_file_is_one_memory(api: AsyncClient) -> None:
    report = await _import(api, _line("小明养了两只猫"), _line("小明养了两只猫 "), _line("小明养了两只猫"))
    assert (report["lines"], report["new"], report["known"]) == (3, 1, 2)


async def test_unknown_groups_get_a_row_and_are_not_enabled(api: AsyncClient) -> None:
    await _import(api, _line("这里是新群", group_id=OTHER_GROUP), _line("阿青在学吉他", group_id=None, user_id=FRIEND))
    places = (await api.get("/api/conversations")).json()["items"]
    assert {(place["kind"], place["target_id"], place["enabled"]) for place in places} == {
        ("group", OTHER_GROUP, None),
        ("private", FRIEND, None),
    }


async def test_bad_lines_are_told_by_number_and_the_others_go_in(api: AsyncClient) -> None:
    report = await _import(
        api,
        b"\xef\xbb\xbf" + _line("第一条").encode(),
        "",
        "{",
        _line("第四行", kind="rumour"),
        _line("长" * 501),
        b'{"group_id": 7000000101, "kind": "fact", "content": "\xff\xfe"}',
        _line("自相矛盾", subject="member", subject_id=0),
        _line("x" * LINE_BYTES),
        "\r",
        _line("最后一条") + "\r",
    )
    assert (report["lines"], report["new"], report["failed"]) == (8, 2, 6)
    errors = {error["line"]: error["detail"] for error in report["errors"]}  # type: ignore[index, union-attr]
    assert list(errors) == [3, 4, 5, 6, 7, 8]
    assert "JSON" in errors[3]
    assert "kind" in errors[4]
    assert "500" in errors[5]
    assert "KiB" in errors[8]
    assert [item["content"] for item in await _items(api)] == ["最后一条", "第一条"]


async def test_only_the_first_bad_lines_are_named(api: AsyncClient) -> None:
    report = await _import(api, *["{"] * 100)
    assert (report["failed"], len(report["errors"])) == (100, 20)  # type: ignore[arg-type]


async def test_many_lines_in_odd_pieces_all_arrive(api: AsyncClient, view: View) -> None:
    text = "\n".join(_line(f"小明的第{number}件事") for number in range(1201)).encode()

    async def pieces() -> AsyncIterator[bytes]:
        for start in range(0, len(text), 4099):
            yield text[start : start + 4099]

    answer = await api.post("/api/memories/import", content=pieces())
    assert (answer.json()["lines"], answer.json()["new"]) == (1201, 1201)
    assert view.grew == 1


async def test_waiting_returns_when_all_have_a_vector(api: AsyncClient, view: View) -> None:
    report = await _import(api, _line("小明养了两只猫"), _line("阿伟怕辣", subject_id=WEI), wait=True)
    assert (report["new"], report["embedded"], report["detail"]) == (2, True, None)
    async with view.database.connection() as conn:
        row = await (await conn.execute("SELECT count(*) FROM memories WHERE embedding IS NOT NULL")).fetchone()
    assert row == (2,)
    [best, *_] = (await api.get("/api/recall", params={"group_id": GROUP, "q": "小明养了两只猫"})).json()["items"]
    assert (best["content"], best["vector_rank"], best["text_rank"]) == ("小明养了两只猫", 1, 1)


async def test_without_waiting_the_vectors_come_later(api: AsyncClient) -> None:
    report = await _import(api, _line("小明养了两只猫"))
    assert report["embedded"] is False
    assert "wait=true" in str(report["detail"])


async def test_waiting_for_a_dead_service_still_stores_and_says_so(api: AsyncClient, view: View) -> None:
    view.backend.away = "连不上向量服务"
    report = await _import(api, _line("小明养了两只猫"), wait=True)
    assert (report["new"], report["embedded"]) == (1, False)
    assert "连不上向量服务" in str(report["detail"])
    assert len(await _items(api)) == 1
    [found] = (await api.get("/api/recall", params={"group_id": GROUP, "q": "两只猫"})).json()["items"]
    assert (found["vector_rank"], found["text_rank"]) == (None, 1)


async def test_what_comes_out_goes_in_elsewhere_as_it_was(api: AsyncClient, view: View) -> None:
    async with view.database.connection() as conn:
        await conn.execute("INSERT INTO accounts (account_id) VALUES (%(bot)s)", {"bot": BOT})
    times = {"created_at": "2026-01-02T03:04:05Z", "updated_at": "2026-02-03T04:05:06Z", "used_at": "2026-03-04T05:06:07Z"}
    await _import(
        api,
        _line("小明养了两只猫", kind="preference", uses=7, **times),
        _line("小明以前养狗", status="archived", locked=False, **times),
        _line("群里周末打桌游", subject_id=0, kind="event"),
        _line("小满答应讲故事", subject="bot", subject_id=0),
        _line("别处的", group_id=OTHER_GROUP),
    )
    lines = await _export(api, group_id=GROUP)
    assert [(line["subject"], line["subject_id"], line["kind"], line["status"]) for line in lines] == [
        ("member", MING, "preference", "active"),
        ("member", MING, "fact", "archived"),
        ("group", 0, "event", "active"),
        ("bot", 0, "fact", "active"),
    ]
    assert (lines[0]["locked"], lines[0]["uses"], lines[1]["locked"]) == (True, 7, False)
    assert {name: lines[0][name] for name in times} == times
    for item in await _items(api):
        assert (await api.delete(f"/api/memories/{item['id']}")).status_code == 204
    report = await _import(api, *(json.dumps(line) for line in lines))
    assert (report["new"], report["failed"]) == (4, 0)
    assert await _export(api, group_id=GROUP) == lines
    assert len(await _export(api)) == 5


async def test_a_large_export_is_whole(api: AsyncClient) -> None:
    await _import(api, *(_line(f"小明的第{number}件事") for number in range(777)))
    assert [line["content"] for line in await _export(api, group_id=GROUP)] == [f"小明的第{n}件事" for n in range(777)]


async def test_an_export_of_nothing_is_empty_and_of_nowhere_404(api: AsyncClient, seeded: Seeded) -> None:
    assert seeded
    assert await _export(api, group_id=GROUP) == []
    answer = await api.get("/api/memories/export", params={"group_id": OTHER_GROUP})
    assert (answer.status_code, answer.json()) == (404, {"detail": "没有这个会话"})


async def test_an_import_may_be_larger_than_other_bodies_but_not_without_end(api: AsyncClient, view: View) -> None:
    lines = [_line(f"小明的第{number}件事", note="长" * 900) for number in range(200)]
    assert sum(map(len, lines)) * 3 > 300_000
    assert (await _import(api, *lines))["new"] == 200
    assert imports.IMPORT_BYTES >= 64 * 1024 * 1024
    headers = {"Content-Length": str(imports.IMPORT_BYTES + 1)}
    answer = await api.post("/api/memories/import", content=b"{", headers=headers)
    assert answer.status_code == 413
    assert "256 MiB" in answer.json()["detail"]
    assert view.grew == 1


async def test_an_import_that_does_not_say_how_large_it_is_has_an_end_too(
    api: AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(imports, "IMPORT_BYTES", 100_000)

    async def pieces() -> AsyncIterator[bytes]:
        number = 0
        while True:
            number += 1
            yield _line(f"小明的第{number}件事").encode() + b"\n"

    assert (await api.post("/api/memories/import", content=pieces())).status_code == 413


async def test_who_hangs_up_keeps_what_was_stored(view: View, api: AsyncClient) -> None:
    sent = [_line(f"小明的第{number}件事").encode() + b"\n" for number in range(600)]
    request = Request({"type": "http", "method": "POST", "headers": []}, receive=_hanging_up(sent))
    report = await imports.import_memories(request, view, wait=True)
    assert (report.new, report.embedded) == (500, False)
    assert len(await _export(api, group_id=GROUP)) == 500


def _hanging_up(pieces: list[bytes]) -> Callable[[], Awaitable[dict[str, object]]]:
    waiting = iter(pieces)

    async def receive() -> dict[str, object]:
        piece = next(waiting, None)
        return {"type": "http.disconnect"} if piece is None else {"type": "http.request", "body": piece, "more_body": True}

    return receive


async def test_without_the_database_neither_way_works(api: AsyncClient, view: View) -> None:
    await view.database.close()
    for answer in (
        await api.post("/api/memories/import", content=_line("小明养了两只猫").encode()),
        await api.get("/api/memories/export"),
    ):
        assert (answer.status_code, answer.json()) == (503, {"detail": "数据库暂时连不上，请稍后再试"})
