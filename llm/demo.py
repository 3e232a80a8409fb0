"""The demo model: a few rules behind the same seam as a service, so that the whole chain works offline.

It is not a language model and says so. What it relies on in the prompt: a line of the last user message that begins
with ``【待回应】`` and lists the owed labels (``#12``), and lines of history ``#12 19:03 小明[3]: 你好``. Nothing owed
means silence.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from db.models import JsonObject
from llm.tokens import estimate
from llm.types import Answer, Params, Probe, Usage

DEMO_MODEL = "demo"
OWED_MARKER = "【待回应】"
SELF_INTRODUCTION = (
    "我现在是演示模型，不是语言模型，只会几句固定的话。"
    "在 .env 里设好 LLM_BASE_URL、LLM_API_KEY 和 LLM_MODEL 再重启，我就能真正聊天了"
)
_LABEL = re.compile(r"#(\d+)")
_LINE = re.compile(r"^#(\d+) (?:.*?\]: |.*?: )(.*)$", re.MULTILINE)
_AROUND = re.compile(r"^\[回复 .*?\] |@\S+")
_RULES: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE), said)
    for pattern, said in (
        (
            r"你是谁|你是什么|你是(不是)?.{0,4}(机器人|ai|人工智能|模型|真人)|机器人|演示|语言模型|llm|什么模型|自我介绍|怎么(设置|配置)",
            SELF_INTRODUCTION,
        ),
        (r"谢|thank|thx|辛苦", "不客气～"),
        (r"晚安|拜拜|再见|下线了", "好嘞，回头见～"),
        (r"早上好|早安|^早[呀啊]?[!！~～]?$", "早呀，今天也加油～"),
        (r"你好|您好|哈喽|嗨|晚上好|下午好|中午好|(?<![a-z])(hi|hello|hey)(?![a-z])", "你好呀～ 我在呢"),
        (r"在吗|在不在|还在|在么|人呢", "在的在的～"),
        (r"[?？]|吗$|怎么|什么|为什么|为啥|几点|多少|谁|哪", "这个问题我还答不上来：现在值班的是演示模型，不是语言模型"),
    )
)
_OTHERWISE = "收到～ 我先记下了"


class DemoBackend:
    """Answers with a call of ``speak`` when something is owed, else with ``stayQuiet``."""

    async def ask(self, model: str, messages: Sequence[BaseMessage], params: Params, *, within: float) -> Answer:
        """Answer by rule."""
        tools = {_name(tool) for tool in params.tools}
        text = owed_text(messages)
        if text is not None and "speak" in tools and not isinstance(messages[-1], ToolMessage):
            message = _call("speak", {"content": answer_to(text)})
        elif "stayQuiet" in tools:
            message = _call("stayQuiet", {"reason": "演示模型：没有待回应的消息"})
        else:
            message = AIMessage(content=answer_to(text or ""))
        prompt = sum(estimate(each.text) for each in messages)
        return Answer(message, Usage(prompt_tokens=prompt, completion_tokens=estimate(str(message.tool_calls))))

    def refused_format(self, model: str) -> bool:
        """Never asked for one."""
        return False

    async def reach(self) -> Probe:
        """Always there."""
        return Probe(True, 0, "演示模型在回答：它不是语言模型")

    async def aclose(self) -> None:
        """Nothing to let go of."""


def answer_to(text: str) -> str:
    """Choose a short sentence that fits what was said."""
    return next((said for pattern, said in _RULES if pattern.search(text)), _OTHERWISE)


def owed_text(messages: Sequence[BaseMessage]) -> str | None:
    """Find what the newest owed label says, without quote and mentions.

    Empty when its line is not shown, None when nothing is owed.
    """
    users = [message.text for message in messages if isinstance(message, HumanMessage)]
    owed = [int(label) for label in _LABEL.findall(_owed_line(users))]
    if not owed:
        return None
    lines = {int(label): said for text in users for label, said in _LINE.findall(text)}
    said = next((lines[label] for label in sorted(owed, reverse=True) if label in lines), "")
    return _AROUND.sub("", said).strip()


def _owed_line(users: Sequence[str]) -> str:
    """Only the last user message that has the marker counts: a history line cannot begin with it."""
    for text in reversed(users):
        for line in text.splitlines():
            if line.startswith(OWED_MARKER):
                return line
    return ""


def _call(name: str, arguments: dict[str, str]) -> AIMessage:
    return AIMessage(content="", tool_calls=[{"name": name, "args": arguments, "id": f"demo_{name}", "type": "tool_call"}])


def _name(tool: JsonObject) -> str:
    function = tool.get("function")
    name = function.get("name") if isinstance(function, Mapping) else None
    return name if isinstance(name, str) else ""
