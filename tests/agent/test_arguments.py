"""What models send as arguments, and what becomes of it."""

from __future__ import annotations

from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from agent.tools.coerce import ArgumentsBroken, coerce_arguments, parse_arguments
from agent.tools.registry import TOOLS, Toolbox
from agent.tools.speak import SPEAK
from db.models import Json


class Sample(BaseModel):
    """Fields of every shape."""

    content: str
    reply_to: int | None = None
    mentions: list[str] = []
    then: Literal["end", "continue"] = "end"


@pytest.mark.parametrize(
    ("raw", "arguments"),
    [
        ({"content": "好"}, {"content": "好"}),
        ({"arguments": {"content": "好"}}, {"content": "好"}),
        ({"parameters": '{"content": "好"}'}, {"content": "好"}),
        ({"arguments": '{"arguments": "{\\"content\\": \\"好\\"}"}'}, {"content": "好"}),
        ('"{\\"content\\": \\"好\\"}"', {"content": "好"}),
        ({"name": "speak", "arguments": {"content": "好"}}, {"content": "好"}),
        ({"Content": "好", "replyTo": "12", "reply-to": "13"}, {"content": "好", "reply_to": "13"}),
        ({"content": "好", "reply_to": None, "mentions": "null"}, {"content": "好"}),
        ({"content": "好", "mentions": "[5000000012]"}, {"content": "好", "mentions": [5000000012]}),
        ({"content": "好", "mentions": 3}, {"content": "好", "mentions": [3]}),
        ({"content": "好", "mentions": "小明[1]"}, {"content": "好", "mentions": ["小明[1]"]}),
        ({"content": "好", "mentions": "1, 2"}, {"content": "好", "mentions": ["1", "2"]}),
        ({"content": "好", "mentions": ""}, {"content": "好", "mentions": []}),
        ({"content": "[1, 2]", "unknown": 1}, {"content": "[1, 2]"}),
        ({"content": "None", "then": "none"}, {"content": "None"}),
        ({"content": "好", "mentions": [None, 3]}, {"content": "好", "mentions": [3]}),
        ({"content": "好", "mentions": "['1', 小明[2]]"}, {"content": "好", "mentions": ["1", "小明[2]"]}),
        ({"content": "a\0\\u0000b", "mentions": ["小\0\0明"]}, {"content": "a\\u0000b", "mentions": ["小明"]}),
    ],
)
def test_arguments_are_mended(raw: Json, arguments: dict[str, Json]) -> None:
    assert coerce_arguments(raw, Sample) == arguments


@pytest.mark.parametrize("raw", ["[1]", "好", 3, [], '"好"'])
def test_what_is_no_object_is_refused(raw: Json) -> None:
    with pytest.raises(ArgumentsBroken):
        coerce_arguments(raw, Sample)


@pytest.mark.parametrize(
    "raw",
    [
        '{"content": "好"}',
        '```json\n{"content": "好"}\n```',
        '{"content": "好",}',
        '{"content": "好"',
        "{'content': '好'}",
        '调用：{"content": "好"}。',
    ],
)
def test_nearly_json_is_read(raw: str) -> None:
    assert parse_arguments(raw) == {"content": "好"}


def test_raw_line_breaks_in_a_text_are_kept() -> None:
    assert parse_arguments('{"content": "一\n二"}') == {"content": "一\n二"}


@pytest.mark.parametrize("raw", ['{"content": "说到一', '{"content": ', "content=好", "{" * 5000, '{"n": ' + "9" * 5000 + "}"])
def test_half_a_message_is_never_read(raw: str) -> None:
    with pytest.raises(ArgumentsBroken):
        parse_arguments(raw)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["arguments", "content", "mentions", "replyTo", "then", "x"]), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(_JSON)
def test_no_arguments_break_a_tool(raw: Json) -> None:
    for tool in TOOLS:
        try:
            prepared = tool.prepare(raw)
        except ArgumentsBroken:
            continue
        assert tool.prepare(prepared.arguments).identity == prepared.identity


def test_the_same_words_are_the_same_call_whatever_comes_after() -> None:
    first = SPEAK.prepare({"content": "好", "mentions": "[2]", "then": "continue"})
    second = SPEAK.prepare({"arguments": {"content": "好", "mentions": 2}})
    assert first.identity == second.identity
    assert (first.ending, second.ending) == (None, "spoke")


@pytest.mark.parametrize(
    ("given_label", "read"),
    [("#12", 12), ("12", 12), (12, 12), ("#12 小明", 12), ("#12小明", 12), ("", None), (0, None), ([12], 12), (True, None)],
)
def test_labels_are_read(given_label: Json, read: int | None) -> None:
    assert SPEAK.prepare({"content": "好", "reply_to": given_label}).arguments["reply_to"] == read


def test_an_empty_then_ends_the_turn() -> None:
    assert SPEAK.prepare({"content": "好", "then": ""}).ending == "spoke"


def test_tools_are_found_whatever_their_spelling() -> None:
    box = Toolbox("group")
    found = box.find("stay_quiet")
    assert found is not None
    assert found.name == "stayQuiet"
    assert box.find("functions.speak") is not None
    assert box.find("rm") is None
    not_in_private = {"getMemberInfo", "getGroupNotices", "getEssenceMessages", "poke", "reactToMessage"}
    assert set(box.names) - set(Toolbox("private").names) == not_in_private


def test_declarations_stay_small() -> None:
    assert len(Toolbox("group").declared_text) <= 4500
