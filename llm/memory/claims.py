"""What a claim must look like: it stands alone, says one thing, and is short. Pure."""

from __future__ import annotations

import re
from itertools import pairwise

import rjieba

from db.memory_models import CONTENT_CHARS

_BLANKS = re.compile(r"\s+")
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff\ud800-\udfff]")
_SENTENCE_END = re.compile(r"[。！？!?；;]+(?=.)")
SENTENCES = 2
_LEANING = frozenset(
    (
        *("他", "她", "它", "他们", "她们", "它们", "对方", "此人", "这人", "那人", "这位", "那位", "刚才", "刚刚", "方才"),
        *("上述", "这件事", "那件事", "这个人", "那个人", "该用户"),
    )
)
_PERSONS = frozenset(("我", "你", "您", "我们", "你们", "咱们", "俺"))
_TWO_WORDS = frozenset(
    (
        *(("这个", "人"), ("那个", "人"), ("这", "人"), ("那", "人"), ("该", "用户")),
        *(("这", "件事"), ("那", "件事"), ("这件", "事"), ("那件", "事")),
    )
)
# A title or a saying is not what the claim itself says.
_QUOTED = re.compile('《[^》]*》|〈[^〉]*〉|“[^”]*”|‘[^’]*’|「[^」]*」|『[^』]*』|"[^"]*"')
_DAYS = (
    *(
        "今天",
        "今日",
        "今晚",
        "今早",
        "明天",
        "明日",
        "明晚",
        "后天",
        "昨天",
        "昨日",
        "昨晚",
        "前天",
        "下周",
        "上周",
        "这周",
        "本周",
    ),
    *("下个月", "上个月", "这个月", "明年", "去年", "今年"),
)
# 小明天天迟到 is cut as 小 明天 天.
_BEFORE_MING = frozenset("小阿老大李王张刘陈杨赵黄周吴徐孙朱马胡郭林何高罗")


class ClaimUnfit(ValueError):
    """A claim cannot be kept as it is; the text says why and how to mend it, in Chinese."""


def read_claim(text: str, *, about_bot: bool = False) -> str:
    """Clean a claim. Raises ClaimUnfit when it is empty, too long, several claims, or leans on what was said around it.

    A claim about the bot itself may say 我.
    """
    lines = [line for line in (_clean(line) for line in text.splitlines()) if line]
    if not lines:
        raise ClaimUnfit("内容是空的")
    if len(lines) > 1:
        raise ClaimUnfit("一次只记一件事，写成一行")
    claim = lines[0]
    if len(claim) > CONTENT_CHARS:
        raise ClaimUnfit(f"太长了（{len(claim)} 字），最多 {CONTENT_CHARS} 字")
    if len(_SENTENCE_END.findall(claim)) >= SENTENCES:
        raise ClaimUnfit("一次只记一件事，最多两句")
    leaning = _leaning(claim, about_bot=about_bot)
    if leaning:
        raise ClaimUnfit(leaning)
    return claim


def _clean(line: str) -> str:
    return _BLANKS.sub(" ", _CONTROL.sub(" ", line)).strip()


def _leaning(claim: str, *, about_bot: bool) -> str:
    """Say which word needs its surroundings to be understood; empty: none does."""
    own = _QUOTED.sub(" ", claim)
    if not any(char.isalnum() for char in own):
        own = claim
    # Unknown words are guessed for days only: guessing would glue 他 to what follows it.
    words: list[str] = rjieba.cut(own, False)
    pairs = ["".join(pair) for pair in pairwise(words) if pair in _TWO_WORDS]
    for word in (*words, *pairs):
        if word in _LEANING or word in pairs:
            return f"“{word}”离开上下文就看不懂了，请写出名字或具体的事"
        if word in _PERSONS and not (about_bot and word == "我"):
            return f"“{word}”以后分不清是谁，请写出名字"
    guessed: list[str] = rjieba.cut(own)
    for before, word in pairwise(["", *guessed]):
        if word.startswith(_DAYS) and not (word.startswith("明") and before in _BEFORE_MING):
            return f"“{word}”以后就不准了，请写出日期"
    return ""
