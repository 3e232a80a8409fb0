"""What NapCat says when a message did not go out."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from db.models import SendReason
from plugins.chat.failures import read_failure, unconfirmed

EVENT = "EventChecker Failed: NTEvent serviceAndMethod:NodeIKernelMsgService/sendMsg ListenerName:x EventRet:\n"


def said(result: int, words: str) -> str:
    """A failed send as NapCat words it."""
    return f'{EVENT}{{\n    "result": {result},\n    "errMsg": "{words}"\n}}\n'


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (said(110, ""), "removed"),
        (said(110, "发送失败，你已被移出该群，请重新加群。"), "removed"),
        ("你不是该群成员", "removed"),
        ("群聊不存在", "removed"),
        ("You are not in the group", "removed"),
        (said(120, ""), "muted"),
        (said(120, "已被禁言，不能发送消息"), "muted"),
        ("本群全员禁言中", "muted"),
        ("the bot is muted", "muted"),
        ("账号已离线", "offline"),
        ("登录已失效，请重新登录", "offline"),
        ("rich media transfer failed", "rich_media"),
        ("富媒体上传失败", "rich_media"),
        ("获取用户 uid 失败：uid 不存在", "unknown_user"),
        ("群成员 5000000099 未找到", "unknown_user"),
        ("消息体无法解析, 请检查是否发送了不支持的消息类型", "other"),
        (said(299, "消息被拦截"), "other"),
        ("commuted", "other"),
        ("", "other"),
    ],
)
def test_a_refusal_is_understood(words: str, reason: SendReason) -> None:
    failure = read_failure(words)
    assert (failure.status, failure.reason) == ("refused", reason)
    assert failure.detail


@pytest.mark.parametrize(
    "words",
    [
        'Error: Timeout: NTEvent serviceAndMethod:NodeIKernelMsgService/sendMsg EventRet:\n{"result": 0, "errMsg": ""}',
        "发送超时",
        "Request timed out",
    ],
)
def test_a_timeout_is_unknown(words: str) -> None:
    failure = read_failure(words)
    assert (failure.status, failure.reason) == ("unknown", "unconfirmed")


def test_a_reason_beats_the_word_timeout() -> None:
    assert read_failure('Timeout EventRet: {"result": 120, "errMsg": ""}').reason == "muted"


def test_the_first_text_that_says_something_counts() -> None:
    assert read_failure("", "  ", "已被禁言").reason == "muted"


def test_what_qq_said_is_the_detail_and_short() -> None:
    assert read_failure(said(299, "消息被拦截")).detail == "消息被拦截"
    assert len(read_failure("长" * 5000).detail) == 300


@given(st.text(max_size=200), st.text(max_size=50))
def test_any_words_are_read(one: str, two: str) -> None:
    failure = read_failure(one, two)
    assert failure.status in {"refused", "unknown"}
    assert len(failure.detail) <= 300
    assert "\n" not in failure.detail


def test_no_answer_is_unknown() -> None:
    assert unconfirmed("没有收到回应").status == "unknown"
