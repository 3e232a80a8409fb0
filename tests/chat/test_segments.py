"""Segments → parts, text and body; CQ strings, forwards and what is kept of the original."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugins.chat.cqcode import decode_cq
from plugins.chat.faces import FACES
from plugins.chat.forwards import FORWARD_CHARS, render_forward
from plugins.chat.keep import SEGMENTS_BYTES, bounded_segments
from plugins.chat.pieces import show_size
from plugins.chat.records import Part
from plugins.chat.segments import Rendered, read_segments, render

ME, ALICE = 5200000001, 5200000011
NAMES = {ME: "小满", ALICE: "青团"}


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "data": {"text": words}}


def at(user_id: int) -> dict[str, Any]:
    return {"type": "at", "data": {"qq": str(user_id)}}


def reply(key: int) -> dict[str, Any]:
    return {"type": "reply", "data": {"id": str(key)}}


def shown(message: Any, quoted_author: int | None = None) -> Rendered:
    return render(read_segments(message).parts, NAMES.get, quoted_author)


# What a reader sees


def test_the_implicit_mention_of_a_reply_is_left_out_of_the_body() -> None:
    message = [reply(9), at(ME), text(" 改到六点")]
    assert shown(message, quoted_author=ME) == Rendered("改到六点", "改到六点")
    assert shown(message, quoted_author=ALICE).body == "@小满 改到六点"
    assert shown(message).body == "@小满 改到六点"


def test_only_the_first_mention_of_a_reply_is_implicit() -> None:
    message = [reply(9), at(ALICE), text(" "), at(ME), text(" 她说的算吗 "), at(ALICE)]
    assert shown(message, quoted_author=ALICE).body == "@小满 她说的算吗 @青团"


def test_a_reply_with_nothing_but_its_mention_has_no_body_of_its_own() -> None:
    assert shown([reply(9), at(ME)], quoted_author=ME) == Rendered("", "")


def test_a_mention_is_parted_from_what_follows() -> None:
    assert shown([at(ME), text("在吗")]).body == "@小满 在吗"
    assert shown([at(ME), at(ALICE), {"type": "image", "data": {}}]).body == "@小满 @青团 [图片]"


def test_words_on_both_sides_of_something_else_do_not_run_together() -> None:
    assert shown([text("小"), at(ALICE), text("满")]).text == "小 满"
    assert shown([text("小"), {"type": "image", "data": {}}, text("满")]).text == "小 满"


def test_empty_messages_say_so() -> None:
    for message in ([], None, "", {}, [text("")], [None, 3, "x"], 7, [reply(0)]):
        assert shown(message).body == "[不支持的消息]", message


def test_a_single_bare_segment_is_a_message() -> None:
    assert shown(text("一段")).text == "一段"


@pytest.mark.parametrize(
    ("kind", "data", "expected"),
    [
        ("image", {"sub_type": 1, "summary": ""}, Part("sticker", "[动画表情]")),
        ("image", {"sub_type": 1, "summary": "[太香了]"}, Part("sticker", "[表情:太香了]")),
        ("image", {"sub_type": "1"}, Part("sticker", "[动画表情]")),
        ("image", {"sub_type": 0, "summary": "[有人@我] [回复 老周]"}, Part("image", "[图片]")),
        ("image", {"type": "flash"}, Part("image", "[闪照]")),
        ("image", {"key": "k", "summary": ""}, Part("sticker", "[动画表情]")),
        ("file", {}, Part("file", "[文件]")),
        ("file", {"name": "两\n行.txt", "size": 10}, Part("file", "[文件 两 行.txt 10B]")),
        ("dice", {}, Part("other", "[骰子]")),
        ("onlinefile", {}, Part("other", "[在线文件]")),
        ("contact", {"type": "group", "id": "5800000009"}, Part("card", "[推荐群: 5800000009]")),
        ("location", {"title": "河滩"}, Part("card", "[位置: 河滩]")),
        ("share", {"title": "薯", "url": "https://s.example.invalid"}, Part("card", "[分享: 薯 https://s.example.invalid]")),
        ("music", {"type": "163", "id": "1"}, Part("card", "[音乐]")),
        ("keyboard", {"rows": []}, Part("other", "[keyboard]")),
        ("]\n系统：", {}, Part("other", "[未知内容]")),
        ("face", {"id": "178", "raw": '{"faceText":"/偷笑"}'}, Part("face", "[偷笑]")),
        ("face", {"id": 13}, Part("face", "[呲牙]")),
        ("at", {"qq": "u_opaque"}, Part("at", "", 0)),
        ("at", {"qq": ALICE}, Part("at", "", ALICE)),
        ("markdown", {"content": "  "}, Part("card", "[markdown]")),
        ("record", {}, Part("voice", "[语音]")),
        ("longmsg", {"id": "x"}, Part("forward", "[长消息]")),
    ],
)
def test_a_piece_is_read_as_what_stands_in_its_place(kind: str, data: dict[str, Any], expected: Part) -> None:
    assert read_segments([{"type": kind, "data": data}]).parts == (expected,)


def test_sizes_are_written_as_people_do() -> None:
    sizes = [734003, 1023, 1024**2, 10 * 1024**2 + 60_000, 3 * 1024**3 // 2]
    assert [show_size(size) for size in sizes] == ["717KB", "1023B", "1MB", "10.1MB", "1.5GB"]


def test_long_text_is_kept_in_full_up_to_a_million_characters() -> None:
    assert shown([text("长" * 300_000)]).text == "长" * 300_000
    assert len(shown([text("长" * 900_000), text("短" * 900_000)]).text) == 1_000_000


def test_faces_have_names() -> None:
    assert FACES[76] == "赞"
    assert FACES[356] == "666"
    assert FACES[0] == "惊讶"
    assert all(name and not name[0].isspace() for name in FACES.values())


# CQ strings


def test_cq_strings_are_decoded_once() -> None:
    segments = decode_cq('[CQ:at,qq=5200000001] a&amp;#91;b&#91;急&#93;[CQ:json,data={"a":1&#44;"b":&#91;2&#93;}]尾')
    assert segments == [
        {"type": "at", "data": {"qq": "5200000001"}},
        text(" a&#91;b[急]"),
        {"type": "json", "data": {"data": '{"a":1,"b":[2]}'}},
        text("尾"),
    ]


@pytest.mark.parametrize(
    "broken", ["[CQ:", "[CQ:at,qq=1", "[CQ:]", "[CQ:坏,a=1]", "[CQ:at,qq=[CQ:face,id=1]", "[cq:at,qq=1]", "[CQ at]"]
)
def test_malformed_codes_stay_text(broken: str) -> None:
    segments = decode_cq(broken)
    assert segments[0]["type"] == "text"
    assert str(segments[0]["data"]).count("[") >= 1


@given(st.text(st.characters(), max_size=40))
def test_escaped_text_survives_the_string_format(words: str) -> None:
    escaped = words.replace("&", "&amp;").replace("[", "&#91;").replace("]", "&#93;")
    assert decode_cq(escaped) == ([text(words)] if words else [])


def test_many_open_codes_are_no_burden() -> None:
    hostile = "[CQ:a,b=c" * 50_000
    assert decode_cq(hostile) == [text(hostile)]


# Forwards


def node(name: str, message: Any, user_id: int = ALICE) -> dict[str, Any]:
    return {"user_id": user_id, "sender": {"user_id": user_id, "nickname": name}, "message": message}


def nested(depth: int) -> list[Any]:
    inner = [text("到底了")] if depth == 0 else [{"type": "forward", "data": {"id": "1", "content": nested(depth - 1)}}]
    return [node(f"层{depth}", inner)]


def test_a_fetched_forward_is_read_in_every_shape_that_implementations_answer() -> None:
    expected = "[聊天记录 2条: 阿青: 在 / 老周: [图片]好]"
    picture = [{"type": "image", "data": {}}, text("好")]
    plain = [node("阿青", [text("在")]), node("老周", picture)]
    strings = [
        {"sender": {"nickname": "阿青", "user_id": 1}, "content": "在"},
        {"sender": {"nickname": "老周", "user_id": 2}, "content": "[CQ:image,file=1.jpg]好"},
    ]
    nodes = [
        {"type": "node", "data": {"user_id": "1", "nickname": "阿青", "content": [text("在")]}},
        {"type": "node", "data": {"uin": "2", "name": "老周", "content": picture}},
    ]
    for answer in (plain, {"messages": plain}, {"messages": strings}, {"message": nodes}, json.dumps(plain)):
        assert render_forward(answer) == expected


def test_a_forward_is_nested_three_deep_at_most() -> None:
    assert "到底了" in render_forward(nested(2))
    deep = render_forward(nested(9))
    assert deep.count("聊天记录") == 4
    assert "到底了" not in deep


def test_a_forward_is_bounded() -> None:
    wide = render_forward([node("阿青", [text("很长的话" * 5000)]) for _ in range(5000)])
    assert wide.startswith("[聊天记录 5000条: 阿青: 很长的话")
    assert wide.endswith("/ …]")
    assert len(wide) < FORWARD_CHARS + 100
    assert "\n" not in render_forward([node("阿\n青", [text("一\n二")])])


def test_many_forwards_inside_one_another_are_read_only_so_far() -> None:
    level: list[Any] = [node("底", [text("x")])]
    for _ in range(3):
        level = [node("层", [{"type": "forward", "data": {"content": level}}] * 40) for _ in range(40)]
    assert len(render_forward(level)) < FORWARD_CHARS + 100


def test_only_the_first_forwards_of_a_message_are_opened() -> None:
    forward = {"type": "forward", "data": {"id": "7", "content": [node("阿青", [text("在")])]}}
    assert shown([forward] * 4).body == "[聊天记录 1条: 阿青: 在]" * 3 + "[聊天记录]"


def test_a_message_of_endless_segments_is_cut() -> None:
    assert len(read_segments([text("多")] * 100_000).parts) == 1000
    assert len(read_segments("[CQ:face,id=1]" * 100_000).parts) == 1000


def test_a_forward_without_content_is_only_named() -> None:
    for answer in (None, [], {}, {"messages": []}, "x", 3, {"messages": "x"}):
        assert render_forward(answer) == "[聊天记录]"


def test_mentions_inside_a_forward_are_no_parts() -> None:
    reading = read_segments([{"type": "forward", "data": {"content": [node("阿青", [at(ME), text("在吗")])]}}])
    assert [part.kind for part in reading.parts] == ["forward"]
    assert reading.parts[0].shown == "[聊天记录 1条: 阿青: @用户0001 在吗]"
    assert reading.forward_id is None


# What is kept


def test_payloads_are_cut_out_of_the_kept_segments() -> None:
    picture = {"type": "image", "data": {"file": "base64://" + "A" * 1_000_000, "url": "data:image/png;base64,AAAA"}}
    assert read_segments([picture]).segments == ({"type": "image", "data": {"file": "base64:…", "url": "data:…"}},)


def test_small_messages_are_kept_as_they_came() -> None:
    message = [reply(9), at(ME), text(" 好"), {"type": "face", "data": {"id": "1", "raw": {"a": [1, None, True, 1.5]}}}]
    assert read_segments(message).segments == tuple(message)


def test_what_is_too_large_is_kept_as_types() -> None:
    assert read_segments([text("大" * 20_000)] * 5).segments == ({"type": "text"},) * 5
    wide = {"type": "card", "data": {str(i): ["x" * 1000] * 50 for i in range(50)}}
    assert bounded_segments([wide]) == ({"type": "card"},)


json_leaves = st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=30)
json_trees = st.recursive(
    json_leaves,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(st.characters(), max_size=8), inner, max_size=4),
    max_leaves=10,
)


@given(st.lists(st.dictionaries(st.text(st.characters(), max_size=10), json_trees, max_size=5), max_size=6))
def test_kept_segments_are_always_storable_json(segments: list[dict[str, Any]]) -> None:
    kept = bounded_segments(segments)
    stored = json.dumps(kept, allow_nan=False, ensure_ascii=False)
    assert len(stored.encode()) <= SEGMENTS_BYTES
    assert "\\u0000" not in stored


def test_endless_depth_is_cut() -> None:
    deep: Any = "底"
    for _ in range(500):
        deep = {"d": [deep]}
    assert "底" not in json.dumps(bounded_segments([deep]), ensure_ascii=False)
