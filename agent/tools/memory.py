"""Keeping, finding and archiving memories."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field

from agent.naming import about, tagged_names
from agent.prompt.memories import day, memory_label
from agent.tools.asked import asker
from agent.tools.declaration import LARGEST, Label, OptionalLabel, Refused, Tool, ToolArgs, ToolContext, ToolResult
from agent.tools.subjects import read_subject
from db import memories
from db.memory_end import stand_again
from db.memory_lists import evidence_labels, newest
from db.memory_models import MEMORY_KINDS, Memory, MemoryId, MemoryKind, Scope, Wish
from llm.hygiene import cut, one_line
from llm.lines import label
from llm.memory.service import SaveRequest

logger = logging.getLogger(__name__)

SAVES = 3
"""Memories saved in one turn."""
PAGE = 6
CONTENT_CHARS = 120
VECTOR_SECONDS = 0.5

_KINDS: dict[MemoryKind, str] = {"fact": "事实", "preference": "偏好", "constraint": "限制", "goal": "目标", "event": "事件"}
_KIND_WORDS = {chinese: english for english, chinese in _KINDS.items()} | {"约束": "constraint", "计划": "goal"}
_WHY = {"refined": "已并入别的", "superseded": "已被取代", "agent": "已归档", "person": "已归档"}
_FOLLOWED = {"refines": "，并入了旧的", "supersedes": "，换掉了旧的", "contradicts": "，和旧的有出入，两条都在"}
_NUMBER = re.compile(r"\s*[mM#]?\s*(\d{1,18})\s*")


def _read_kind(value: object) -> object:
    if not isinstance(value, str):
        return value
    word = value.strip().lower()
    return _KIND_WORDS.get(word, word)


def _kinds(word: str) -> tuple[MemoryKind, ...] | None:
    """Read the kind to look for; None: any. Raises Refused."""
    kind = _read_kind(word)
    if not kind:
        return None
    for known in MEMORY_KINDS:
        if known == kind:
            return (known,)
    raise Refused(f"没有这种记忆，可用：{'、'.join(MEMORY_KINDS)}。")


def _read_number(value: object) -> object:
    """Read ``m12`` as 12."""
    match = _NUMBER.fullmatch(value) if isinstance(value, str) else None
    return int(match.group(1)) if match else value


def _possible(number: int) -> int:
    if not 0 < number <= LARGEST:
        raise ValueError("no such memory")
    return number


def _page(page: int) -> int:
    return min(max(page, 1), 50)


KindWord = Annotated[MemoryKind, BeforeValidator(_read_kind)]
MemoryNumber = Annotated[int, BeforeValidator(_read_number), AfterValidator(_possible)]
Page = Annotated[int, AfterValidator(_page)]


class SaveArgs(ToolArgs):
    """One claim, and the messages that support it."""

    subject: str = Field(description="成员号/群/自己/对方", min_length=1)
    kind: KindWord
    content: str = Field(description="一句单独看得懂的话", min_length=1)
    evidence: list[Label] = Field(description="作依据的消息编号")


class SearchArgs(ToolArgs):
    """What to find among the memories."""

    query: str = Field("", description="空则列最新的")
    subject: str = ""
    kind: str = ""
    history: bool = Field(False, description="也看归档的")
    page: Page = 1


class ArchiveArgs(ToolArgs):
    """Which memory, why, and at whose wish."""

    id: MemoryNumber
    reason: str = Field(min_length=1)
    asked_by: OptionalLabel = Field(None, description="主人要求的那条消息")


async def _save(ctx: ToolContext, args: SaveArgs) -> ToolResult:
    conversation = ctx.snapshot.request.conversation
    if not conversation.learning:
        return ToolResult("这里关了学习，不能记。", ok=False)
    if ctx.ledger.saves >= SAVES:
        return ToolResult(f"这一轮已经记了 {SAVES} 条，不能再记。", ok=False)
    request = SaveRequest(
        conversation_id=conversation.id,
        subject=await read_subject(ctx, args.subject),
        kind=args.kind,
        content=args.content,
        labels=tuple(args.evidence),
        shown=frozenset(ctx.ledger.shown),
        source="agent",
        turn_id=ctx.snapshot.request.turn_id,
    )
    saved = await ctx.memory.save(request, replace(ctx.call, task="memory_merge"))
    if saved.memory is None:
        return ToolResult(saved.reason or "没有记下。", ok=False)
    ctx.ledger.saves += 1
    ctx.ledger.memories.add(saved.memory.id)
    named = memory_label(saved.memory.id)
    if saved.how == "same":
        return ToolResult(f"已经记着 {named}，加上了依据")
    ctx.ledger.saved.add(saved.memory.id)
    return ToolResult(f"记下了 {named}{_FOLLOWED.get(saved.how, '')}")


async def _search(ctx: ToolContext, args: SearchArgs) -> ToolResult:
    scope = Scope(
        conversation_ids=(ctx.snapshot.request.conversation.id,),
        subjects=(await read_subject(ctx, args.subject),) if args.subject.strip() else None,
        kinds=_kinds(args.kind),
        statuses=("active", "archived") if args.history else ("active",),
    )
    offset = (args.page - 1) * PAGE
    query = one_line(args.query)
    if query:
        wish = Wish(limit=PAGE + 1, offset=offset)
        found = [item.memory for item in await ctx.memory.recall([query], scope, wish, within=VECTOR_SECONDS)]
    else:
        async with ctx.database.connection() as conn:
            found = (await newest(conn, scope, limit=offset + PAGE + 1))[offset:]
    if not found:
        return ToolResult("没有记着这样的事。" if args.page == 1 else "没有更多了。")
    return ToolResult(await _told(ctx, found, args.page))


async def _told(ctx: ToolContext, found: Sequence[Memory], page: int) -> str:
    subjects = [memory.subject for memory in found]
    names = await tagged_names(ctx.database, ctx.snapshot, (item.user_id for item in subjects if item.kind == "member"))
    async with ctx.database.connection() as conn:
        labels = await evidence_labels(conn, [memory.id for memory in found])
    shown = found[:PAGE]
    ctx.ledger.memories.update(memory.id for memory in shown)
    told = [_line(ctx, memory, names, labels.get(memory.id, ())) for memory in shown]
    if len(found) > PAGE:
        told.append(f"（还有，page={page + 1}）")
    return "\n".join(told)


def _line(ctx: ToolContext, memory: Memory, names: Mapping[int, str], labels: Sequence[int]) -> str:
    facts = [day(memory.created_at, ctx.snapshot.zone)]
    if labels:
        facts.append("依据 " + " ".join(label(pos) for pos in labels))
    if memory.locked:
        facts.append("主人写的")
    if memory.status == "archived":
        facts.append(_WHY.get(memory.archived_why or "", "已归档"))
    content = cut(one_line(memory.content), CONTENT_CHARS)
    head = f"{memory_label(memory.id)} {about(memory.subject, names)} {_KINDS[memory.kind]}"
    return f"{head}：{content}（{'，'.join(facts)}）"


async def _archive(ctx: ToolContext, args: ArchiveArgs) -> ToolResult:
    request = ctx.snapshot.request
    if args.id not in ctx.ledger.saved:
        if args.asked_by is None:
            raise Refused("只能归档这一轮自己记的；主人要求的，写明 asked_by。")
        said = await asker(ctx, args.asked_by)
        if said.sender_id not in request.superusers:
            raise Refused(f"{label(args.asked_by)} 不是主人说的，没有归档。")
    memory_id = MemoryId(args.id)
    async with ctx.database.transaction() as conn:
        memory = await memories.get(conn, memory_id)
        if memory is None or memory.conversation_id != request.conversation.id or memory.status != "active":
            raise Refused(f"没有生效中的 {memory_label(memory_id)}。")
        if memory.locked or not await memories.archive(conn, memory_id, "agent"):
            raise Refused(f"{memory_label(memory_id)} 是主人写定的，只能在页面上改。")
        if args.id in ctx.ledger.saved:
            await stand_again(conn, [memory_id])  # taking back a slip brings back what it had replaced
    logger.info("第 %s 轮归档了记忆 %d：%s", request.turn_id, memory_id, args.reason[:200])
    return ToolResult(f"{memory_label(memory_id)} 归档了。")


SAVE = Tool("saveMemory", "记一条长期有用的事", SaveArgs, "write", _save)
SEARCH = Tool("searchMemory", "查记忆", SearchArgs, "read", _search)
ARCHIVE = Tool("archiveMemory", "归档记忆", ArchiveArgs, "write", _archive)
