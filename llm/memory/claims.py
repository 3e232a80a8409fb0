"""What a claim must look like: it stands alone, says one thing, and is short. Pure."""

from __future__ import annotations

import re
from itertools import accumulate, pairwise

import rjieba

from db.memory_models import CONTENT_CHARS

_BLANKS = re.compile(r"\s+")
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff\ud800-\udfff]")
_SENTENCE_END = re.compile(r"[。！？!?；;]+(?=.)")
SENTENCES = 2
_LEANING = frozenset(
    (
        *("他", "她", "它", "他们", "她们", "它们", "对方", "此人", "这人", "那人", "这位", "那位", "刚才", "刚刚", "方才"),
        *("上述", "这件事", "那件事", "这个人", "那个人", "该用户", "该成员", "当时"),
    )
)
_PERSONS = frozenset(("我", "你", "您", "我们", "你们", "咱们", "俺"))
_TWO_WORDS = frozenset(
    (
        *(("这个", "人"), ("那个", "人"), ("这", "人"), ("那", "人"), ("该", "用户"), ("该", "成员")),
        *(("这", "件事"), ("那", "件事"), ("这件", "事"), ("那件", "事")),
    )
)
# A title or a saying is not what the claim itself says.
_QUOTED = re.compile('《[^》]*》|〈[^〉]*〉|“[^”]*”|‘[^’]*’|「[^」]*」|『[^』]*』|"[^"]*"')
# These read like a speaker or a day, and are names.
_NAMES = re.compile(r"我的世界(?!观)|明日方舟|明日之后|今日头条|今日说法|后天性")
_SAID_ABOVE = re.compile(r"如上所述|(?:上面|前面|上文|前文)(?:所述|说|提|讲)")
_DAYS = re.compile(
    r"今[天日晚早年]|明[天日晚早年]|昨[天日晚夜]|大?[前后]天|[去前后]年|[这那前]几天|那天|"
    r"上上周|下下周|[上下这本]周末?|[上下这]个?月|本月|[上下这]个?星期|[上下这]个?礼拜"
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
    if not any(char.isalnum() for line in lines for char in line):
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
    own = _NAMES.sub(" ", _QUOTED.sub(" ", claim))
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
    above = _SAID_ABOVE.search(own)
    if above is not None:
        return f"“{above[0]}”离开上下文就看不懂了，请写出名字或具体的事"
    day = _moving_day(own)
    return f"“{day}”以后就不准了，请写出日期" if day else ""


def _moving_day(own: str) -> str:
    """Find words for a day that moves with the day they are said on, from a word's beginning to a word's end; empty: none."""
    at, before = 0, ""
    guessed: list[str] = rjieba.cut(own)
    ends = set(accumulate(map(len, guessed)))
    for word in guessed:
        found = _DAYS.match(own, at)
        name = word.startswith("明") and before in _BEFORE_MING
        if found is not None and not name and (len(found[0]) <= len(word) or found.end() in ends):
            return max(word, found[0], key=len)
        at, before = at + len(word), word
    return ""
