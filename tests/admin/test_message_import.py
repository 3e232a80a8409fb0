"""A group's past over HTTP: in once, in order, without a turn, and then learned."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TypeAlias

from httpx import AsyncClient

from db import conversations, forget, ingest
from db.models import Conversation, ConversationKey
from db.sightings import NewMessage, Stored
from learner.service import Crew, Learner
from plugins.admin.message_importing import LINE_BYTES
from tests.admin.seed import BOT, FRIEND, GROUP, MING, OTHER_GROUP, WEI, Seeded, View
from tests.learner.engine_world import Scripted, Tokens

Item: TypeAlias = dict[str, object]
START = datetime(2025, 5, 1, 12, 0, tzinfo=UTC)


def a_line(number: int, text: str, sender: int = MING, **fields: object) -> str:
    moment = (START + timedelta(minutes=number)).isoformat()
    return json.dumps({"sender_id": sender, "sender_name": "小明", "text": text, "sent_at": moment} | fields, ensure_ascii=False)


async def bring(api: AsyncClient, *lines: str | bytes, **where: int) -> Item:
    body = b"\n".join(line.encode() if isinstance(line, str) else line for line in lines)
    answer = await api.post("/api/messages/import", params=where or {"group_id": OTHER_GROUP}, content=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def stored(api: AsyncClient, group: int = OTHER_GROUP) -> list[Item]:
    return (await api.get("/api/messages", params={"group_id": group, "limit": 1000})).json()["items"]


async def place_of(view: View, group: int) -> Conversation:
    async with view.database.connection() as conn:
        found = await conversations.find(conn, ConversationKey("group", group))
    assert found is not None
    return found


async def test_a_past_comes_in_in_order_and_a_second_time_adds_nothing(api: AsyncClient, view: View) -> None:
    lines = [a_line(number, f"第{number}句", WEI if number % 2 else MING) for number in range(1201)]
    first = await bring(api, *lines)
    assert (first["lines"], first["new"], first["known"], first["failed"]) == (1201, 1201, 0, 0)
    items = await stored(api)
    assert [item["text"] for item in items] == [f"第{number}句" for number in range(201, 1201)]
    assert [item["pos"] for item in items] == list(range(202, 1202))
    assert {item["backfilled"] for item in items} == {True}
    again = await bring(api, *lines)
    assert (again["new"], again["known"], (await place_of(view, OTHER_GROUP)).last_pos) == (0, 1201, 1201)


async def test_what_the_api_gives_goes_in_elsewhere_as_it_was_with_its_quotes(
    api: AsyncClient, view: View, seeded: Seeded
) -> None:
    async with view.database.connection() as conn:
        await conn.execute(
            """
            UPDATE messages m SET quoted_id = q.id FROM messages q
            WHERE m.conversation_id = %(group)s AND m.pos = 3 AND q.conversation_id = m.conversation_id AND q.pos = 1
            """,
            {"group": seeded.group},
        )
    given = await stored(api, GROUP)
    report = await bring(api, *(json.dumps(item) for item in given))
    assert (report["new"], report["failed"]) == (5, 0)
    kept = ("kind", "sender_id", "sender_name", "is_self", "text", "display", "quote_name", "sent_at", "withdrawn_at")
    assert [[item[name] for name in kept] for item in await stored(api)] == [[item[name] for name in kept] for item in given]


async def test_what_is_there_already_is_recognised(api: AsyncClient, seeded: Seeded) -> None:
    assert seeded
    given = await stored(api, GROUP)
    report = await bring(api, *(json.dumps(item) for item in given), group_id=GROUP)
    assert (report["new"], report["known"]) == (0, 5)
    assert await stored(api, GROUP) == given


async def test_messages_are_recognised_by_an_accounts_id(api: AsyncClient, view: View, seeded: Seeded) -> None:
    async with view.database.connection() as conn:
        await conn.execute(
            "INSERT INTO message_keys SELECT %(bot)s, -77, id FROM messages WHERE conversation_id = %(group)s AND pos = 1",
            {"bot": BOT, "group": seeded.group},
        )
    report = await bring(api, a_line(1, "同一条", account_id=BOT, message_id=-77), group_id=GROUP)
    assert (report["new"], report["known"]) == (0, 1)


async def test_an_id_that_belongs_to_another_group_stays_there(api: AsyncClient, view: View, seeded: Seeded) -> None:
    async with view.database.connection() as conn:
        await conn.execute("INSERT INTO accounts (account_id) VALUES (%(bot)s) ON CONFLICT DO NOTHING", {"bot": BOT})
        await conn.execute(
            "INSERT INTO message_keys SELECT %(bot)s, -77, id FROM messages WHERE conversation_id = %(group)s AND pos = 1",
            {"bot": BOT, "group": seeded.group},
        )
    report = await bring(api, a_line(1, "别的群的", account_id=BOT, message_id=-77), group_id=OTHER_GROUP)
    assert (report["new"], report["known"]) == (1, 0)
    async with view.database.connection() as conn:
        cur = await conn.execute(
            """
            SELECT m.conversation_id FROM message_keys k JOIN messages m ON m.id = k.message
            WHERE k.account_id = %(bot)s AND k.message_id = -77
            """,
            {"bot": BOT},
        )
        assert await cur.fetchall() == [(seeded.group,)]


async def test_equal_words_of_one_moment_are_as_many_as_they_were(api: AsyncClient) -> None:
    lines = [a_line(1, "哈哈"), a_line(1, "哈哈"), a_line(1, "哈哈", WEI), a_line(2, "哈哈")]
    assert (await bring(api, *lines))["new"] == 4
    assert (await bring(api, *lines))["new"] == 0
    listed = [a_line(5, "在", id=901), a_line(5, "在", id=902), a_line(5, "在", id=901)]
    assert (await bring(api, *listed))["new"] == 2


async def test_quotes_are_linked_within_a_file(api: AsyncClient) -> None:
    await bring(
        api,
        a_line(1, "吃什么", id=71),
        a_line(2, "火锅", WEI, quoted_id=71, quote_name="小明", quote_text="吃什么", display="[回复 小明:「吃什么」] 火锅"),
        a_line(3, "好", quoted_id=404, quote_name="", quote_text=None),
    )
    asked, told, lost = await stored(api)
    assert (told["quoted_id"], told["text"], lost["quoted_id"]) == (asked["id"], "火锅", None)
    assert told["display"] == "[回复 小明:「吃什么」] 火锅"


async def test_nothing_is_quoted_of_what_was_withdrawn_or_is_not_there(api: AsyncClient) -> None:
    await bring(
        api,
        a_line(1, "机密话", id=71, withdrawn_at=(START + timedelta(minutes=2)).isoformat()),
        a_line(3, "回你", WEI, quoted_id=71, quote_name="小明", quote_text="机密话", display="[回复 小明:「机密话」] 回你"),
        a_line(4, "也回你", WEI, quoted_id=404, quote_name="小明", quote_text="别的机密话"),
    )
    assert [(item["text"], item["quote_name"], item["quote_text"]) for item in (await stored(api))[1:]] == [
        ("回你", "小明", None),
        ("也回你", "", None),
    ]


async def test_what_is_quoted_of_a_member_is_forgotten_with_them_and_does_not_come_back(api: AsyncClient, view: View) -> None:
    asked = a_line(1, "吃什么", id=71)
    replies = [
        a_line(number, f"火锅{number}", WEI, quoted_id=71, quote_name="小明", quote_text="吃什么") for number in range(2, 4)
    ]
    await bring(api, asked, replies[0])
    assert (await stored(api))[1]["quote_text"] == "吃什么"
    place = await place_of(view, OTHER_GROUP)
    async with view.database.transaction() as conn:
        await forget.member(conn, place.id, MING)
    await bring(api, asked, *replies)
    assert [(item["quote_name"], item["quote_text"]) for item in (await stored(api))[1:]] == [("", None), ("", None)]


async def test_an_order_that_contradicts_what_is_stored_does_not_swallow_messages(api: AsyncClient, seeded: Seeded) -> None:
    assert seeded
    lines = [a_line(1, "我的第一句", 5000000031, real_seq=101), a_line(2, "我的第二句", 5000000031, real_seq=103)]
    assert (await bring(api, *lines, group_id=GROUP))["new"] == 2
    assert (await bring(api, *lines, group_id=GROUP))["new"] == 0


async def hear(view: View, group: int, message_id: int, text: str, **fields: object) -> Stored:
    """Store a message as QQ tells it, from 阿伟 and now unless ``fields`` say else."""
    place = await place_of(view, group)
    told = {"sender_id": WEI, "sender_name": "阿伟", "sent_at": datetime.now(UTC), "real_seq": None} | fields
    message = NewMessage(place.id, BOT, message_id, text=text, body=text, **told)  # pyright: ignore[reportArgumentType]
    async with view.database.transaction() as conn:
        [locked] = await conversations.some(conn, [place.id])
        last = {locked.id: locked.last_pos}
        [stored_at] = await ingest.store(conn, [message], last)
        await conversations.take_positions(conn, list(last), list(last.values()))
    return stored_at


async def test_another_groups_order_does_not_swallow_what_is_said_later(api: AsyncClient, view: View, seeded: Seeded) -> None:
    assert seeded
    given = await stored(api, GROUP)
    numbers = [item["real_seq"] for item in given if item["real_seq"] is not None]
    await bring(api, *(json.dumps(item) for item in given))
    heard = await hear(view, OTHER_GROUP, 987654, "@小满 在吗", real_seq=numbers[0], call="mention", called_account=BOT)
    assert heard.fresh
    assert (await stored(api))[-1]["text"] == "@小满 在吗"


async def test_nothing_calls_for_a_turn(api: AsyncClient, view: View) -> None:
    await bring(api, *(a_line(number, "小满 在吗 @小满") for number in range(20)))
    place = await place_of(view, OTHER_GROUP)
    assert (place.last_pos, place.watermark, place.diced_pos, place.enabled) == (20, 20, 20, None)
    async with view.database.connection() as conn:
        assert await conversations.waiting(conn, datetime.now(UTC)) == []
        assert (await conversations.unread(conn, place)).people == 0
        assert await (await conn.execute("SELECT message FROM owed")).fetchall() == []


async def test_what_was_unread_before_stays_unread(api: AsyncClient, view: View, seeded: Seeded) -> None:
    assert seeded
    await bring(api, a_line(1, "旧的"), group_id=GROUP)
    place = await place_of(view, GROUP)
    assert (place.last_pos, place.watermark) == (6, 4)
    async with view.database.connection() as conn:
        assert (await conversations.unread(conn, place)).people == 1


async def test_senders_become_members_and_those_known_stay_as_they_are(api: AsyncClient, view: View, seeded: Seeded) -> None:
    async with view.database.connection() as conn:
        await conn.execute(
            """
            INSERT INTO members (conversation_id, user_id, no, nickname, card, left_at)
            VALUES (%(group)s, %(wei)s, 7, '阿伟', '伟哥', now())
            """,
            {"group": seeded.group, "wei": WEI},
        )
    await bring(api, a_line(1, "在", WEI), a_line(2, "在", 5000000031, sender_name="新来的\u202e"), group_id=GROUP)
    async with view.database.connection() as conn:
        rows = await (
            await conn.execute(
                "SELECT user_id, nickname, card, left_at IS NULL FROM members WHERE conversation_id = %(g)s ORDER BY user_id",
                {"g": seeded.group},
            )
        ).fetchall()
    assert rows == [(WEI, "阿伟", "伟哥", False), (5000000031, "新来的", "", True)]


async def test_the_bots_own_words_stay_its_own(api: AsyncClient, view: View) -> None:
    async with view.database.connection() as conn:
        await conn.execute("INSERT INTO accounts (account_id) VALUES (%(bot)s)", {"bot": BOT})
    await bring(api, a_line(1, "我说的", BOT), a_line(2, "别处的我", 5000000099, is_self=True))
    assert [item["is_self"] for item in await stored(api)] == [True, True]


async def test_bad_lines_are_told_and_the_others_go_in(api: AsyncClient) -> None:
    report = await bring(
        api,
        b"\xef\xbb\xbf" + a_line(1, "第一条").encode(),
        "{",
        a_line(2, "没有人", sender=0),
        a_line(3, ""),
        a_line(4, "长" * 20_001),
        a_line(5, "两处", group_id=GROUP, user_id=FRIEND),
        a_line(6, "x" * LINE_BYTES),
        json.dumps({"sender_id": MING, "text": "没有时间"}),
        json.dumps({"sender_id": MING, "text": "没有时区", "sent_at": "2026-01-01T00:00:00"}),
        a_line(9, "控制\0字符\r\n"),
        a_line(10, "😀" * 5000),
        "[1, 2]",
    )
    assert (report["lines"], report["new"], report["failed"]) == (12, 3, 9)
    assert [item["text"] for item in await stored(api)] == ["第一条", "控制\ufffd字符\n", "😀" * 5000]


async def test_a_line_may_say_where_it_belongs_and_must_where_the_address_does_not(api: AsyncClient, view: View) -> None:
    answer = await api.post(
        "/api/messages/import",
        content="\n".join(
            [a_line(1, "群里", group_id=GROUP), a_line(2, "私下", FRIEND, user_id=FRIEND), a_line(3, "哪里")]
        ).encode(),
    )
    report = answer.json()
    assert (report["new"], report["failed"]) == (2, 1)
    assert "group_id" in report["errors"][0]["detail"]
    assert (await place_of(view, GROUP)).last_pos == 1


async def test_an_import_has_an_end_and_a_door(api: AsyncClient) -> None:
    headers = {"Content-Length": str(2**30)}
    assert (await api.post("/api/messages/import?group_id=7000000102", content=b"{", headers=headers)).status_code == 413
    wrong = {"Authorization": "Bearer wrong"}
    assert (await api.post("/api/messages/import?group_id=7000000102", content=b"{}", headers=wrong)).status_code == 401
    both = await api.post("/api/messages/import", params={"group_id": GROUP, "user_id": FRIEND}, content=b"{}")
    assert both.status_code == 422


async def test_a_past_can_be_learned(api: AsyncClient, view: View) -> None:
    view.learner = Learner(view.database, Tokens(), Crew([Scripted()]), view.settings)
    await bring(api, *(a_line(number, f"第{number}句") for number in range(120)))
    report = (await api.post("/api/learner/run", json={"group_id": OTHER_GROUP})).json()
    assert (report["learned"], report["counts"]) == (True, {"topics": 120})


async def test_who_was_forgotten_does_not_come_back_with_the_same_file(api: AsyncClient, view: View) -> None:
    lines = [a_line(number, f"第{number}句") for number in range(3)]
    await bring(api, *lines)
    place = await place_of(view, OTHER_GROUP)
    async with view.database.transaction() as conn:
        await forget.member(conn, place.id, MING)
    assert (await bring(api, *lines))["new"] == 0
    assert {item["text"] for item in await stored(api)} == {""}


async def test_what_was_forgotten_does_not_come_back_from_a_file_and_what_came_after_does(api: AsyncClient, view: View) -> None:
    await bring(api, a_line(0, "开头", WEI))
    await hear(view, OTHER_GROUP, 55, "我的秘密", sender_id=MING, sent_at=START + timedelta(minutes=5), real_seq=900)
    place = await place_of(view, OTHER_GROUP)
    async with view.database.transaction() as conn:
        await forget.member(conn, place.id, MING)
    report = await bring(api, a_line(4, "更早的秘密"), a_line(5, "我的秘密"), a_line(5, "别人的", WEI), a_line(6, "我回来了"))
    assert (report["lines"], report["new"], report["failed"]) == (4, 2, 2)
    assert report["errors"] == [{"line": number, "detail": "这位成员要求过忘记，那之前说的不再存下"} for number in (1, 2)]
    assert [item["text"] for item in await stored(api)] == ["开头", "", "别人的", "我回来了"]


async def test_a_member_who_was_forgotten_elsewhere_is_not_refused(api: AsyncClient, view: View, seeded: Seeded) -> None:
    assert seeded
    async with view.database.transaction() as conn:
        await forget.member(conn, (await place_of(view, GROUP)).id, MING)
    assert (await bring(api, a_line(1, "这个群的话")))["new"] == 1
