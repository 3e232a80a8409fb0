"""Which role answers, and how: small pure rules, each taking what is known and the parameters so far."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from llm.types import ModelRole, Params


@dataclass(frozen=True, slots=True)
class Features:
    """What the rules look at: the latest call's text, and the roles for which a model of their own is set."""

    text: str
    roles: frozenset[ModelRole]


Rule: TypeAlias = Callable[[Features, Params], Params]

_MENTION = re.compile(r"@\S+")
_FENCE = re.compile(r"```|~~~")
_SYNTAX = re.compile(
    r"\bdef \w+\(|\bfunction\b.*\(|\bclass \w+|\bimport \w+|#include\s*<|=>\s*\{|\bconsole\.log\b|\bprintf?\(|"
    r"\bselect\b.+\bfrom\b|Traceback \(most recent|\b\w+(Error|Exception)\b|\bsegfault\b|\w+\.(py|js|ts|cpp|java|rs|go)\b|;\s*\}",
    re.IGNORECASE | re.DOTALL,
)
_LANGUAGE = re.compile(
    r"(?<![a-z])(python|java(script)?|typescript|golang|rust|c\+\+|c#|php|sql|html|css|bash|shell|regex|docker|git|linux|vue|react)(?![a-z])",
    re.IGNORECASE,
)
_CODING = re.compile(
    r"代码|编程|报错|编译|函数|正则|脚本|接口|数据库|算法|调试|爬虫|语法|变量|循环|递归|运行不了|跑不起来|(?<![a-z])bug(?![a-z])",
    re.IGNORECASE,
)
_ASKING = re.compile(r"怎么|如何|为什么|为啥|帮我|写个|写一个|改一下|看看|看下|是啥意思|解释|[?？]")
_SMALL = re.compile(
    r"(你好|您好|哈喽|嗨|早|早安|早上好|上午好|中午好|下午好|晚上好|晚安|在|在吗|在不在|在不|嗯+|哦+|噢+|好|好的|好滴|好嘞|ok|okay|收到|"
    r"知道了|明白了?|了解|谢谢|谢了|多谢|感谢|thanks|thx|辛苦了?|哈+|呵+|6+|草|笑死|行|可以|拜拜|再见|hi|hello|hey)"
    r"[呀啊呢吧哈哦喔啦了~～!！.。,，、\s]*",
    re.IGNORECASE,
)
SMALL_TALK_CHARS = 12


def is_about_code(text: str) -> bool:
    """Tell whether a text holds code, or asks about programming."""
    if _FENCE.search(text) or _SYNTAX.search(text):
        return True
    named = bool(_LANGUAGE.search(text))
    coding = bool(_CODING.search(text))
    return (named and coding) or ((named or coding) and bool(_ASKING.search(text)))


def is_small_talk(text: str) -> bool:
    """Tell whether a text is only a greeting or an acknowledgement."""
    bare = _MENTION.sub(" ", text).strip(" ，,。.!！~～")
    return 0 < len(bare) <= SMALL_TALK_CHARS and _SMALL.fullmatch(bare) is not None


def by_content(features: Features, params: Params) -> Params:
    """Code goes to the code model and small talk to the fast one, where these are set."""
    if "code" in features.roles and is_about_code(features.text):
        return replace(params, role="code")
    if "fast" in features.roles and is_small_talk(features.text):
        return replace(params, role="fast")
    return params


def by_role(_features: Features, params: Params) -> Params:
    """Code and extraction want a steady hand; the fast role wants no reasoning. Chat is as the service likes it."""
    if params.role in {"code", "learner"}:
        return replace(params, temperature=0.2)
    if params.role == "fast":
        return replace(params, thinking=False)
    return params


ROUTE: tuple[Rule, ...] = (by_content,)
TUNE: tuple[Rule, ...] = (by_role,)


def compose(features: Features, params: Params, rules: Sequence[Rule] = (*ROUTE, *TUNE)) -> Params:
    """Apply rules one after another."""
    for rule in rules:
        params = rule(features, params)
    return params


def choose_role(text: str, roles: frozenset[ModelRole]) -> ModelRole:
    """Choose the role for a turn from the latest call's text; ``chat`` unless a better one is set."""
    return compose(Features(text, roles), Params(), ROUTE).role
