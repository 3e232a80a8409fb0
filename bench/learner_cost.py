"""What learning costs in tokens for a thousand messages, by structured task, with a service that answers as a model might."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Mapping, Sequence
from zoneinfo import ZoneInfo

from langchain_core.messages import AIMessage, BaseMessage

from bench.data.history import make_history
from bench.mining_rows import fresh_server, opened, store
from bench.report import Section, table
from db.models import Json
from db.usage import TaskTokens
from learner.service import Learner
from llm.embedding.service import Embeddings
from llm.memory.service import MemoryService
from llm.service import ModelPlan, Models
from llm.tokens import estimate
from llm.types import Answer, Params, Probe, Usage
from llm.usage import UsageBook
from settings import Settings

TITLE = "学习：用多少 token"
MESSAGES = 2_000
SEED = 11
_LINE = re.compile(r"^#(\d+) (?:[\d: -]+ )?(\S+)\[(\d+)\]: (.*)$", re.MULTILINE)
_CANDIDATE = re.compile(r"^- (\S+)", re.MULTILINE)
_MEMBER = re.compile(r"\[(\d+)\] = user_id (\d+)")
_WANTED = re.compile(r"^要分的消息：(.*)$", re.MULTILINE)
_OPEN = re.compile(r"^T(\d+) ", re.MULTILINE)
_THREAD = re.compile(r"^【T(\d+)】", re.MULTILINE)
_ASKED = re.compile(r"^词：(\S+)", re.MULTILINE)
_GIST = "几个人说起周末要不要一起去吃火锅，有人嫌远，有人说可以拼车，最后没有定下来，等周五再问一次大家的时间"


class Plausible:
    """A service at the edge that answers each task about as long as a model would; its tokens are estimates."""

    def __init__(self, seed: int) -> None:
        self._rng = random.Random(seed)
        self._tasks: Mapping[str, Callable[[str], Json]] = {
            "topic_assignment": self._assignment,
            "topic_summary": self._summary,
            "memory_claims": self._claims,
            "memory_merge": lambda _: {"relation": "new", "which": 0, "text": ""},
            "slang_candidates": self._slang,
            "slang_meaning": self._meanings,
            "expressions": self._expressions,
            "member_profiles": self._profiles,
        }

    async def ask(self, model: str, messages: Sequence[BaseMessage], params: Params, *, within: float) -> Answer:
        """Answer the task that the schema is named after."""
        named = json.dumps(params.response_format, ensure_ascii=False)
        task = next(name for name in self._tasks if f'"name": "{name}"' in named)
        said = json.dumps(self._tasks[task](messages[-1].text), ensure_ascii=False)
        prompt = sum(estimate(message.text) for message in messages) + estimate(named)
        return Answer(AIMessage(said), Usage(prompt_tokens=prompt, completion_tokens=estimate(said)))

    def refused_format(self, model: str) -> bool:
        """It takes every format."""
        return False

    async def reach(self) -> Probe:
        """Always there."""
        return Probe(True, 0, "")

    async def aclose(self) -> None:
        """Nothing to let go of."""

    def _assignment(self, text: str) -> Json:
        wanted = _WANTED.search(text)
        labels = re.findall(r"\d+", wanted[1]) if wanted else []
        topics = [f"T{no}" for no in _OPEN.findall(text)[:2]] + ["N1", "0"]
        return {"assignments": [{"message": int(label), "topic": self._rng.choice(topics)} for label in labels]}

    def _summary(self, text: str) -> Json:
        item: dict[str, Json] = {"title": "周末火锅", "gist": _GIST, "open_loops": ["周五再问时间"], "keywords": ["火锅", "拼车"]}
        return {"topics": [{"topic": f"T{no}", **item} for no in _THREAD.findall(text)]}

    def _claims(self, text: str) -> Json:
        said = self._some(text, 2)
        return {
            "items": [
                {"subject": no, "kind": "preference", "content": f"喜欢第 {label} 家店的味道，常常一个人去", "evidence": [label]}
                for label, no in said
            ]
        }

    def _slang(self, text: str) -> Json:
        items: list[Json] = []
        for term in _CANDIDATE.findall(text)[:6]:
            labels = [int(label) for label, _, _, said in _LINE.findall(text) if term in said][:3]
            means: dict[str, Json] = {"meaning": "表示非常高兴，用来起哄", "meaning_without_context": "字面上看不出意思"}
            items.append({"term": term, **means, "confidence": 0.8, "evidence": labels or [1]})
        return {"items": items}

    def _meanings(self, text: str) -> Json:
        means: dict[str, Json] = {"meaning": "表示非常高兴，多半在起哄", "meaning_without_context": "字面上看不出意思"}
        return {"items": [{"term": term, **means, "confidence": 0.8, "change": "更常用来起哄"} for term in _ASKED.findall(text)]}

    def _expressions(self, text: str) -> Json:
        said = [(int(label), words) for label, _, _, words in _LINE.findall(text) if 4 <= len(words) <= 12][:2]
        return {
            "items": [
                {"situation": "有人说起今天的事", "phrase": words, "confidence": 0.7, "evidence": [no]} for no, words in said
            ]
        }

    def _profiles(self, text: str) -> Json:
        users = {no: int(user) for no, user in _MEMBER.findall(text)}
        members: list[Json] = []
        for _, no in self._some(text, 2):
            labels = [int(label) for label, _, who, _ in _LINE.findall(text) if who == no][:3]
            trait: dict[str, Json] = {"kind": "interest", "content": "喜欢做饭，常说起菜谱", "evidence": labels}
            if no in users and len(labels) > 1:
                members.append({"user_id": users[no], "add": [trait], "drop": []})
        return {"members": members}

    def _some(self, text: str, count: int) -> list[tuple[int, str]]:
        lines = [(int(label), no) for label, _, no, said in _LINE.findall(text) if said]
        return self._rng.sample(lines, min(count, len(lines)))


async def run(*, small: bool) -> Section:
    """Let the real learner learn a made-up history, and add up its calls."""
    count = 300 if small else MESSAGES
    history = make_history(SEED, 20_000)
    messages = history.messages[:count]
    settings = Settings.model_validate({"learner_daily_tokens": 10**9, "llm_base_url": "http://127.0.0.1:9/v1", "llm_model": "x"})
    async with fresh_server() as url, opened(url) as database:
        async with database.transaction() as conn:
            conversation = await store(conn, 0, history.people, messages)
        usage = UsageBook(database, ZoneInfo(settings.timezone))
        models = Models(Plausible(SEED), ModelPlan.from_settings(settings), usage)
        embeddings = Embeddings.from_settings(settings, database)
        await embeddings.open()
        memory = MemoryService(database, models, embeddings)
        learner = Learner.from_parts(database, models, memory, embeddings, settings)
        report = await learner.run(conversation)
        await learner.aclose()
        await embeddings.aclose()
        await usage.aclose()
    return Section("learner-cost", TITLE, _told(report.used, count, dict(report.counts), list(report.stopped.values())))


def _told(used: Sequence[TaskTokens], count: int, found: Mapping[str, int], stopped: Sequence[str]) -> str:
    each = 1_000 / count
    rows = [
        [
            item.task,
            f"{item.calls * each:.1f}",
            f"{item.prompt_tokens * each:,.0f}",
            f"{item.completion_tokens * each:,.0f}",
            f"{(item.prompt_tokens + item.completion_tokens) * each:,.0f}",
        ]
        for item in used
    ]
    rows.append(
        [
            "合计",
            f"{sum(item.calls for item in used) * each:.1f}",
            f"{sum(item.prompt_tokens for item in used) * each:,.0f}",
            f"{sum(item.completion_tokens for item in used) * each:,.0f}",
            f"{sum(item.prompt_tokens + item.completion_tokens for item in used) * each:,.0f}",
        ]
    )
    head = ["每 1,000 条消息", "调用", "输入 token", "输出 token", "合计 token"]
    counts = "、".join(f"{name} {number}" for name, number in sorted(found.items()))
    ended = f"没学完的：{'；'.join(stopped)}。" if stopped else ""
    return (
        f"造的一个群的 {count:,} 条消息，从头学到尾。模型服务是假的，回答的长短照真的来；token 是估计的（`llm/tokens.py`），"
        f"没有算服务的前缀缓存。{ended}\n\n{table(head, rows)}\n\n学到：{counts}。"
    )
