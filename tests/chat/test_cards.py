"""Cards → one readable line."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugins.chat.cards import Card, read_json_card, read_xml_card


@pytest.mark.parametrize(
    ("card", "shown"),
    [
        ({"app": "com.tencent.miniapp_01", "meta": {"d": {"title": "菜谱", "desc": ""}}}, "[小程序: 菜谱]"),
        ({"app": "com.tencent.miniapp_01", "meta": {}, "prompt": "[QQ小程序]菜谱"}, "[卡片: [QQ小程序]菜谱]"),
        ({"app": "com.tencent.structmsg", "view": "music", "meta": {"music": {"title": "歌"}}}, "[音乐: 歌]"),
        ({"app": "com.tencent.map", "meta": {"x": {"address": "乙路"}}}, "[位置: 乙路]"),
        ({"app": "com.tencent.contact.lua", "prompt": "推荐群聊", "meta": {"c": {"nickname": "甲群"}}}, "[推荐群: 甲群]"),
        ({"app": "com.tencent.mannounce", "meta": {"m": {"text": "明天\n休息", "encode": 0}}}, "[群公告: 明天 休息]"),
        ({"app": "com.tencent.mannounce", "meta": {"m": {"text": "不是 base64", "encode": 1}}}, "[群公告: 不是 base64]"),
        ({"app": "com.tencent.tuwen.lua", "meta": {"news": {"title": "文", "jumpUrl": ""}}}, "[分享: 文]"),
        ({"app": "com.tencent.multimsg", "meta": {"detail": {"news": "x"}}}, "[聊天记录]"),
        ({"app": "com.tencent.unknown", "prompt": "看\n这里"}, "[卡片: 看 这里]"),
        ({"app": 5, "meta": [1], "prompt": None}, "[卡片]"),
        ({}, "[卡片]"),
    ],
)
def test_json_cards(card: dict[str, Any], shown: str) -> None:
    assert read_json_card(card).shown == shown
    assert read_json_card(json.dumps(card)).shown == shown


def test_a_forward_card_names_four_lines_and_its_id() -> None:
    news = [{"text": f"甲: {i}"} for i in range(6)]
    card = {"app": "com.tencent.multimsg", "meta": {"detail": {"resid": "R", "news": news}}}
    assert read_json_card(card) == Card("[聊天记录: 甲: 0 / 甲: 1 / 甲: 2 / 甲: 3 / …]", "R")


def test_broken_announcement_bytes_do_not_matter() -> None:
    text = base64.b64encode(b"\xff\xfe\x00\x00ok").decode()
    shown = read_json_card({"app": "com.tencent.mannounce", "meta": {"m": {"text": text, "encode": 1}}}).shown
    assert shown.startswith("[群公告: ")
    assert "\x00" not in shown


@pytest.mark.parametrize("data", ["", "{", "[1]", "3", "[" * 100_000, "{" * 300_000, None, 5, ["x"], "NaN"])
def test_what_is_no_card_reads_as_a_card_without_words(data: Any) -> None:
    assert read_json_card(data) == Card("[卡片]")


@pytest.mark.parametrize(
    ("xml", "card"),
    [
        ('<msg serviceID="35" m_resid="a&amp;b"/>', Card("[聊天记录]", "a&b")),
        ('<msg serviceID="35"/>', Card("[聊天记录]")),
        ('<msg brief="[分享] 好东西"/>', Card("[卡片: [分享] 好东西]")),
        ('<msg url="https://x.example.invalid"><title size="25">薯</title></msg>', Card("[分享: 薯 https://x.example.invalid]")),
        ("<msg/>", Card("[卡片]")),
        ("不是 XML", Card("[卡片]")),
    ],
)
def test_xml_cards(xml: str, card: Card) -> None:
    assert read_xml_card(xml) == card


@given(st.text(st.characters(), max_size=200) | st.text('<>"= msgtiledurbf&;#x0', max_size=200))
def test_any_text_is_some_card(text: str) -> None:
    read_json_card(text).shown.encode()
    read_xml_card(text).shown.encode()
