"""``/群友`` commands as people type them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugins.chat.commands_text import Command, read_command, read_minutes


@pytest.mark.parametrize(
    ("text", "command"),
    [
        ("/群友 状态", Command("status")),
        ("／群友　状态", Command("status")),
        ("  / 群友   状态  ", Command("status")),
        ("/群友状态", Command("status")),
        ("/群友 开启", Command("enable")),
        ("/群友 关闭", Command("disable")),
        ("/群友 停", Command("stop")),
        ("/群友停", Command("stop")),
        ("/群友 忘记我", Command("forget")),
        ("/群友 别记我", Command("unlearn")),
        ("/群友别记我", Command("unlearn")),
        ("/群友 可以记我", Command("learn")),
        ("/群友 帮助", Command("help")),
        ("/群友", Command("help")),
        ("/群友 安静", Command("quiet", minutes=30)),
        ("/群友 安静 30m", Command("quiet", minutes=30)),
        ("/群友 安静 2h", Command("quiet", minutes=120)),
        ("/群友 安静 90", Command("quiet", minutes=90)),
        ("/群友 安静 ９０", Command("quiet", minutes=90)),
        ("/群友 安静 1h 30m", Command("quiet", minutes=90)),
        ("/群友 安静 2小时", Command("quiet", minutes=120)),
        ("/群友 安静 7d", Command("quiet", minutes=10080)),
        ("/群友 安静 取消", Command("unquiet")),
        ("/群友 人格", Command("persona")),
        ("/群友 人格 傲娇 猫", Command("persona", name="傲娇 猫")),
    ],
)
def test_commands_are_read(text: str, command: Command) -> None:
    assert read_command(text) == command


@pytest.mark.parametrize(
    "text",
    [
        "",
        "群友 状态",
        "/群友们好",
        "/群友好多",
        "说 /群友 状态",
        "//群友 状态",
        "/帮助",
        "/",
        "我是/群友",
        "/群友，在吗",
        "/群友 停" + " " * 1000,
    ],
)
def test_talk_is_no_command(text: str) -> None:
    assert read_command(text) is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("/群友 起飞", "没有「起飞」这个命令"),
        ("/群友 忘记我 吧", "后面不用写别的"),
        ("/群友 安静 很久", "没看懂"),
        ("/群友 安静 -5", "没看懂"),
        ("/群友 安静 0", "1 分钟到 7 天"),
        ("/群友 安静 8d", "1 分钟到 7 天"),
        ("/群友 安静 10081", "1 分钟到 7 天"),
        ("/群友 安静 999999h", "1 分钟到 7 天"),
        ("/群友 安静 9999999999", "没看懂"),
    ],
)
def test_what_is_not_understood_says_so(text: str, said: str) -> None:
    command = read_command(text)
    assert command is not None
    assert command.kind == "help"
    assert said in command.error


def test_minutes() -> None:
    assert [read_minutes(text) for text in ("1", "半小时", "1天2小时3分钟", "2H", "", "m", "1.5h", "5x")] == [
        1, 30, 1563, 120, None, None, None, None,
    ]  # fmt: skip


@given(st.text("/／群友 安静停0123456789mhd天半小时\n", max_size=24))
def test_any_command_is_within_its_bounds(text: str) -> None:
    command = read_command(text)
    if command is not None and command.kind == "quiet":
        assert 1 <= command.minutes <= 7 * 24 * 60
