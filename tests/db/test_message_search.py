"""Searching messages on a real database: both legs, every filter, and what stands around a hit."""

from __future__ import annotations

import logging
from datetime import timedelta

import pytest

from db import forget, message_search
from db.memory_models import Vector
from db.message_search import HITS, MessageQuery, search_messages
from db.pool import Database, DatabaseUnavailable
from db.search_terms import count_terms
from db.timewords import TimeRange
from tests.db.talk import BOT, GROUP2, MING, START, WANG, WEI, Talk


@pytest.fixture
async def talk(database: Database) -> Talk:
    """A group in which something was said."""
    group = Talk(database)
    await group.say_all(
        [
            ("早上好呀", MING),
            ("今天去吃火锅吗", WEI),
            ("好啊，几点", WANG),
            ("六点，老地方", WEI),
            ("我带桌游过去", MING),
            ("昨天的火锅太辣了", WANG),
        ]
    )
    return group


async def test_a_word_is_found_in_running_text_with_the_lines_around_it(talk: Talk) -> None:
    [hit] = await talk.find("桌游")
    assert (hit.line.body, hit.line.pos, hit.line.sender_id, hit.message) == ("我带桌游过去", 5, MING, talk.rows[4])
    assert [line.body for line in hit.before] == ["好啊，几点", "六点，老地方"]
    assert [line.body for line in hit.after] == ["昨天的火锅太辣了"]
    assert (hit.text_rank, hit.vector_rank, hit.score, hit.conversation_id) == (1, None, 1 / 61, talk.id)


async def test_of_equals_the_newest_is_first(talk: Talk) -> None:
    assert await talk.bodies("火锅") == ["昨天的火锅太辣了", "今天去吃火锅吗"]


async def test_short_words_other_scripts_and_whole_sentences_find(talk: Talk) -> None:
    wanted = {
        "v2.3": "这个游戏更新到v2.3了",
        "yyds": "YYDS！",
        "c++": "Ｃ＋＋好难",
        "三月五号": "三月五号开学",
        "小明": "小明同学迟到了",
        "两只猫": "養了兩隻貓",
        "兩條狗": "养了两条狗",
        "有人周末一起打羽毛球吗": "周末打羽毛球的来报名",
        "kubernets": "kubernetes装好了",
    }
    await talk.say_all([(said, MING) for said in wanted.values()])
    await talk.say_all([(f"没什么事{number}", WEI) for number in range(20)])
    assert {query: (await talk.bodies(query))[0] for query in wanted} == wanted


async def test_one_letter_is_found_alone_and_anywhere_in_words(talk: Talk) -> None:
    await talk.say_all([("猫", MING), ("猫咪真可爱", MING), ("小猫咪睡了", MING), ("我家也有猫", MING), ("狗也行", MING)])
    assert await talk.bodies("貓") == ["猫", "我家也有猫", "小猫咪睡了", "猫咪真可爱"]


async def test_what_holds_more_of_the_query_is_first(talk: Talk) -> None:
    assert (await talk.bodies("昨天的火锅"))[0] == "昨天的火锅太辣了"
    assert (await talk.bodies("今天吃火锅"))[0] == "今天去吃火锅吗"


async def test_rare_words_count_more_once_words_were_counted(talk: Talk, database: Database) -> None:
    await talk.say("我要去北京出差")
    await talk.say_all([(f"今天的天气不错呀{number}", WEI) for number in range(40)])
    async with database.connection() as conn:
        await count_terms(conn)
    assert (await talk.bodies("北京那边的天气"))[0] == "我要去北京出差"


async def test_quotes_and_names_of_senders_are_not_searched(talk: Talk) -> None:
    await talk.say("收到", quote_name="阿伟", quote_text="明天交报告")
    assert await talk.bodies("报告") == []
    assert await talk.bodies("阿伟") == []


async def test_windows_that_overlap_show_each_line_once_and_the_better_hit_has_it(talk: Talk) -> None:
    hits = await talk.find("火锅")
    assert [hit.line.pos for hit in hits] == [6, 2]
    assert [[line.pos for line in (*hit.before, *hit.after)] for hit in hits] == [[4, 5], [1, 3]]


async def test_filters_of_sender_and_time_are_inside(talk: Talk) -> None:
    assert await talk.bodies("火锅", sender_ids=(WEI,)) == ["今天去吃火锅吗"]
    assert await talk.bodies("火锅", sender_ids=(WEI, WANG)) == ["昨天的火锅太辣了", "今天去吃火锅吗"]
    second, sixth = START + timedelta(minutes=1), START + timedelta(minutes=5)
    assert await talk.bodies("火锅", when=TimeRange(second, sixth)) == ["今天去吃火锅吗"]
    assert await talk.bodies("火锅", when=TimeRange(second + timedelta(seconds=1), sixth + timedelta(seconds=1))) == [
        "昨天的火锅太辣了"
    ]


async def test_a_turn_finds_and_shows_nothing_that_came_later(talk: Talk) -> None:
    [hit] = await talk.find("火锅", before_pos=4)
    assert (hit.line.pos, [line.pos for line in hit.after]) == (2, [3])
    assert await talk.bodies("", sender_ids=(WEI,), before_pos=4) == ["今天去吃火锅吗"]


async def test_other_conversations_are_neither_searched_nor_shown(talk: Talk, database: Database) -> None:
    other = Talk(database, GROUP2)
    await other.say("这里也吃火锅")
    assert "这里也吃火锅" not in await talk.bodies("火锅")
    assert await other.bodies("火锅") == ["这里也吃火锅"]
    both = await search_messages(database, MessageQuery((talk.id, other.id), "火锅"))
    assert [hit.conversation_id for hit in both] == [other.id, talk.id, talk.id]
    assert (both[0].before, both[0].after) == ((), ())
    assert await search_messages(database, MessageQuery((), "火锅")) == []


async def test_what_was_withdrawn_or_forgotten_is_neither_hit_nor_neighbour(talk: Talk, database: Database) -> None:
    space = await talk.embed(dict.fromkeys(talk.rows, (1.0, 0.0)))
    vector = Vector(space, (1.0, 0.0))
    await talk.withdraw(talk.rows[1])
    async with database.transaction() as conn:
        await forget.member(conn, talk.id, WANG)
    hits = await talk.find("火锅", vector)
    shown = {line.body for hit in hits for line in (hit.line, *hit.before, *hit.after)}
    assert shown == {"早上好呀", "六点，老地方", "我带桌游过去"}
    assert await talk.find("火锅") == []
    assert await talk.bodies("", sender_ids=(WEI, WANG)) == ["六点，老地方"]
    [hit] = await talk.find("桌游")
    assert [line.body for line in (*hit.before, *hit.after)] == ["早上好呀", "六点，老地方"]


async def test_commands_are_neither_hit_nor_neighbour_and_nudges_are_only_neighbours(talk: Talk) -> None:
    await talk.say("/群友 火锅", is_command=True)
    await talk.say("小明 戳了戳 火锅", kind="poke", text="")
    await talk.say("火锅 戳了戳 小明", WANG, kind="poke", text="")
    hits = await talk.find("火锅")
    assert [hit.line.pos for hit in hits] == [6, 2]
    assert [line.pos for line in hits[0].after] == [8, 9]
    assert 9 not in [hit.line.pos for hit in await talk.find("", sender_ids=(WANG,))]


async def test_without_words_a_sender_or_a_time_lists_the_newest_page_by_page(talk: Talk) -> None:
    await talk.say("补来的老话", WEI, at=START - timedelta(days=3))
    hits = await talk.find("  ", sender_ids=(WEI,), limit=2)
    assert [hit.line.body for hit in hits] == ["六点，老地方", "今天去吃火锅吗"]
    assert {(hit.score, hit.text_rank, hit.vector_rank) for hit in hits} == {(0.0, None, None)}
    assert await talk.bodies("", sender_ids=(WEI,), limit=2, offset=2) == ["补来的老话"]
    assert await talk.bodies("", when=TimeRange(START - timedelta(days=4), START)) == ["补来的老话"]
    assert await talk.bodies("") == []


async def test_pages_follow_each_other_and_are_bounded(talk: Talk) -> None:
    await talk.say_all([(f"第{number}次吃火锅", MING) for number in range(60)])
    first, second = await talk.find("火锅", limit=99), await talk.find("火锅", limit=HITS, offset=HITS)
    assert (len(first), len(second)) == (HITS, HITS)
    assert not {hit.message for hit in first} & {hit.message for hit in second}
    assert await talk.find("火锅", limit=0) == []
    assert len(await talk.find("火锅", limit=HITS, offset=60)) == 2


async def test_a_common_word_finds_the_newest_however_many_hold_it(talk: Talk, monkeypatch: pytest.MonkeyPatch) -> None:
    await talk.say_all([(f"火锅{number}", MING) for number in range(50)])
    monkeypatch.setattr(message_search, "FETCHED", 10)
    assert await talk.bodies("火锅", limit=3) == ["火锅49", "火锅48", "火锅47"]


async def test_meaning_finds_what_no_word_does_and_both_together_are_first(talk: Talk) -> None:
    space = await talk.embed({talk.rows[3]: (1.0, 0.0), talk.rows[5]: (0.8, 0.6), talk.rows[0]: (0.0, 1.0)})
    hits = await talk.find("火锅", Vector(space, (1.0, 0.0)))
    ranks = [(hit.line.pos, hit.text_rank, hit.vector_rank) for hit in hits]
    assert ranks == [(6, 1, 2), (4, None, 1), (2, 2, None), (1, None, 3)]
    assert hits[0].score == pytest.approx(1 / 61 + 1 / 62)


async def test_vectors_of_another_space_are_never_compared(talk: Talk) -> None:
    await talk.embed({talk.rows[0]: (1.0, 0.0, 0.0)}, model="旧")
    space = await talk.embed({talk.rows[1]: (0.0, 1.0)}, model="新")
    assert await talk.bodies("没有这个词呢", Vector(space, (1.0, 0.0))) == ["今天去吃火锅吗"]


@pytest.mark.parametrize("filtered", ["sender", "time", "before", "conversation"])
async def test_a_filtered_search_by_meaning_gives_as_many_rows_as_exist(talk: Talk, database: Database, filtered: str) -> None:
    """300 messages are nearer than the ten that fit the filter."""
    noise, wanted = (talk, talk) if filtered != "conversation" else (Talk(database, GROUP2), talk)
    rows = await wanted.say_all([(f"要找的第{number}句", WANG) for number in range(10)], at=START + timedelta(days=1))
    before = max(message.line.pos for message in await wanted.find("", sender_ids=(WANG,))) + 1
    near = await noise.say_all([(f"别的第{number}句", MING) for number in range(300)], at=START + timedelta(days=2))
    space = await wanted.embed(dict.fromkeys(rows, (0.6, 0.8)) | {talk.rows[5]: (0.0, 1.0)})
    await noise.embed(dict.fromkeys(near, (1.0, 0.0)))
    only: dict[str, object] = {
        "sender": {"sender_ids": (WANG,)},
        "time": {"when": TimeRange(START + timedelta(hours=23), START + timedelta(hours=25))},
        "before": {"before_pos": before},
        "conversation": {},
    }
    hits = await wanted.find("zzzz", Vector(space, (1.0, 0.0)), limit=10, **only[filtered])
    assert [hit.message for hit in hits] == sorted(rows, reverse=True)


async def test_only_the_newest_vectors_of_a_conversation_are_compared(talk: Talk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(message_search, "NEWEST", 2)
    space = await talk.embed({row: (1.0, float(no)) for no, row in enumerate(talk.rows)})
    assert await talk.bodies("zzzz", Vector(space, (1.0, 0.0))) == ["我带桌游过去", "昨天的火锅太辣了"]


async def test_a_leg_that_fails_is_left_out_and_logged(talk: Talk, caplog: pytest.LogCaptureFixture) -> None:
    space = await talk.embed(dict.fromkeys(talk.rows, (1.0, 0.0)))
    with caplog.at_level(logging.WARNING):
        assert await talk.bodies("桌游", Vector(space, (1.0, 0.0, 0.0))) == ["我带桌游过去"]
    assert "查找消息：向量一路出错" in caplog.text


async def test_a_database_that_is_away_is_told(talk: Talk, database: Database) -> None:
    await database.close()
    with pytest.raises(DatabaseUnavailable):
        await talk.find("火锅", Vector(1, (1.0, 0.0)))


HOSTILE = [
    "%",
    "_",
    "%火锅%",
    "'; DROP TABLE messages; --",
    "\\",
    "\x00火锅\x00",
    "\ud800",
    "😂",
    "👨‍👩‍👧",
    "火锅" * 5000,
    "{火锅}",
    "%(text)s %s",
    " ' 火锅 ' ",
    "(((",
    "[图片]",
    "𠀀",
    "\u202e锅火",
    "٣٤",
]


async def test_hostile_text_is_only_text(talk: Talk) -> None:
    known = set(await talk.bodies("", sender_ids=(MING, WEI, WANG)))
    for text in HOSTILE:
        assert set(await talk.bodies(text)) <= known, text
    stored = [text.replace("\x00", "").replace("\ud800", "") for text in HOSTILE]
    await talk.say_all([(text, BOT) for text in stored])
    for text in HOSTILE:
        assert set(await talk.bodies(text)) <= known.union(stored), text
        assert len(await talk.bodies(text, sender_ids=(BOT,), when=TimeRange(START, START + timedelta(days=9)))) <= 10
    assert await talk.bodies("桌游") == ["我带桌游过去"]


async def test_percent_signs_match_nothing_but_themselves(talk: Talk) -> None:
    assert await talk.bodies("%") == []
    assert await talk.bodies("%锅%") == await talk.bodies("锅")


async def test_the_words_come_from_the_index_at_100_000_messages(talk: Talk, database: Database) -> None:
    async with database.transaction() as conn:
        await conn.execute(
            """
            INSERT INTO messages (conversation_id, pos, sender_id, sender_name, text, body, search, sent_at)
            SELECT %(group)s, 10 + n, 5000000011 + n %% 3, '某', 't', 't', concat(
                   ' ', chr(20000 + n %% 700), chr(20001 + n %% 700), ' ', chr(21000 + n %% 61), chr(21001 + n %% 61),' '),
                   %(start)s::timestamptz + n * interval '1 second'
            FROM generate_series(1, 100000) AS n
            """,
            {"group": talk.id, "start": START},
        )
        await conn.execute("ANALYZE messages")
    rare, common = chr(20005) + chr(20006), chr(21005) + chr(21006)
    for text, more in (
        (f"{rare}{common}", {}),
        (common, {"sender_ids": (WEI,)}),
        ("kubernetes", {}),
        ("火锅", {"when": TimeRange(START, START + timedelta(days=9))}),
    ):
        lines = await plan(database, MessageQuery((talk.id,), text, **more))
        assert sum("Bitmap Index Scan on messages_text" in line for line in lines) == 3  # words, what is like them, letters
        assert not any("Seq Scan on messages" in line for line in lines)
    assert len(await talk.find(f"{rare}{common}")) == 10


async def plan(database: Database, query: MessageQuery) -> list[str]:
    """How PostgreSQL would run the text leg."""
    words = message_search.read_query(0, query.text)
    assert words is not None
    async with database.transaction() as conn:
        cur = await conn.execute(
            "EXPLAIN " + message_search._TEXT_LEG, message_search._text_values(words, query, 30), prepare=False
        )
        return [str(row[0]) for row in await cur.fetchall()]
