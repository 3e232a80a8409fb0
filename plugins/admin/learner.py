"""``/api/learner``: how far the learner is, and learning a conversation at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from fastapi import APIRouter, HTTPException
from pydantic import BaseModel, Field

from db import learner_status, reports
from db.learned_models import LEARN_TASKS, LearnTask
from db.learner_status import MOST_COUNTED, TaskStanding
from db.models import ConversationId, ConversationKey
from db.reports import ConversationRow
from db.usage import learner_tokens_by_conversation
from learner.service import DEMO_NOTE, Busy, Closed, Report
from plugins.admin.access import View
from plugins.admin.errors import ChineseRoute, Problem
from plugins.admin.params import InConversation, OptionalKey
from plugins.admin.places import find_place
from plugins.admin.ports import RuntimeView
from plugins.admin.times import day_start

router = APIRouter(route_class=ChineseRoute, prefix="/learner", tags=["学习"])


class TaskItem(BaseModel):
    """Where one task stands."""

    task: LearnTask
    active: bool = Field(description="现在能学；演示模型只能数词")
    cursor: int = Field(description="学到了第几条（pos）")
    lag_messages: int = Field(description=f"还有多少条没学，最多数到 {MOST_COUNTED}")
    lag_minutes: int = Field(description="没学的里面最早的那条存下来多少分钟了")
    failures: int = Field(description="连续失败了几次")
    last_error: str | None
    next_attempt: datetime | None = Field(description="失败后最早什么时候再试；null：随时")
    ran_at: datetime | None = Field(description="上一次学是什么时候")
    skipped: int = Field(description="因为怎么都学不了而跳过的消息")


class Standing(BaseModel):
    """How far a conversation is learned: the slowest of its tasks. ``group_id`` or ``user_id`` says which it is."""

    conversation_id: int
    group_id: int | None = Field(description="群号；私聊为 null")
    user_id: int | None = Field(description="好友的 QQ 号；群为 null")
    name: str
    enabled: bool = Field(description="在这里学：启用了，也没有关掉学习")
    last_pos: int = Field(description="最新消息的编号")
    cursor: int
    lag_messages: int
    lag_minutes: int
    last_error: str | None
    next_attempt: datetime | None = Field(description="最近的一次重试；null：没有在等的")
    tokens_today: int = Field(description="今天学习用掉的 token")
    tokens_limit: int
    tasks: list[TaskItem]


class Learning(BaseModel):
    """The learner, and how far it is with each conversation."""

    demo: bool
    note: str | None = Field(description="要知道的事，中文")
    every_seconds: float = Field(description="多久看一次该学谁；0：只在有人叫它学的时候学")
    running: int = Field(description="现在正在学几个会话")
    at_once: int
    ticked_at: datetime | None = Field(description="上一次看是什么时候")
    items: list[Standing]


class RunRequest(InConversation):
    """Whom to learn."""


class TokenUse(BaseModel):
    """What the model calls of one structured task used."""

    task: str
    calls: int
    prompt_tokens: int
    completion_tokens: int


class Tokens(BaseModel):
    """What a run used, all in all and by structured task, and what is left for today."""

    calls: int
    prompt_tokens: int
    completion_tokens: int
    total: int
    left_today: int
    by_task: list[TokenUse]


class RunReport(BaseModel):
    """What a run did."""

    group_id: int | None
    user_id: int | None
    learned: bool = Field(description="能学的都学完了")
    batches: int
    skipped: int = Field(description="跳过的消息")
    counts: dict[str, int] = Field(description="学到了多少，按名字")
    tokens: Tokens
    stopped: dict[LearnTask, str] = Field(description="没学完的任务和原因")
    note: str | None = Field(description="要知道的事，中文")


@router.get("", summary="学到哪里了", responses={404: {"model": Problem}})
async def read_learner(key: OptionalKey, view: View) -> Learning:
    """Tell for one conversation, or for all that are enabled or were learned from, how far the learner is."""
    place = None if key is None else await find_place(view, key)
    if key is not None and place is None:
        raise HTTPException(404, "没有这个会话")
    start = day_start(datetime.now(view.settings.zone))
    async with view.database.connection() as conn:
        rows = await reports.conversations(conn, day_start=start, only=None if place is None else place.id)
        standings = await learner_status.standings(conn, [ConversationId(row.id) for row in rows], LEARN_TASKS)
        used = await learner_tokens_by_conversation(conn, start)
    items = [_standing(view, row, [item for item in standings if item.conversation_id == row.id], used) for row in rows]
    activity = view.learner.activity()
    return Learning(
        demo=view.settings.demo,
        note=DEMO_NOTE if view.settings.demo else None,
        every_seconds=view.settings.learner_seconds,
        running=activity.running,
        at_once=activity.at_once,
        ticked_at=activity.ticked_at,
        items=[item for item in items if place is not None or item.enabled or item.cursor > 0 or item.last_error],
    )


def _standing(
    view: RuntimeView, row: ConversationRow, standings: Sequence[TaskStanding], used: Mapping[ConversationId, int]
) -> Standing:
    tasks = [_task(item, view.learner.tasks) for item in standings]
    active = [task for task in tasks if task.active] or tasks
    failed = [task for task in active if task.last_error is not None]
    waits = [task.next_attempt for task in active if task.next_attempt is not None]
    group = row.kind == "group"
    return Standing(
        conversation_id=row.id,
        group_id=row.target_id if group else None,
        user_id=None if group else row.target_id,
        name=row.name,
        enabled=row.learning and row.left_at is None and view.enabled(row.conversation),
        last_pos=row.last_pos,
        cursor=min(task.cursor for task in active),
        lag_messages=max(task.lag_messages for task in active),
        lag_minutes=max(task.lag_minutes for task in active),
        last_error=max(failed, key=lambda task: task.failures).last_error if failed else None,
        next_attempt=min(waits, default=None),
        tokens_today=used.get(ConversationId(row.id), 0),
        tokens_limit=view.settings.learner_daily_tokens,
        tasks=tasks,
    )


def _task(item: TaskStanding, active: Sequence[LearnTask]) -> TaskItem:
    now = datetime.now(UTC)
    return TaskItem(
        task=item.task,
        active=item.task in active,
        cursor=item.pos,
        lag_messages=item.lag,
        lag_minutes=0 if item.waiting_since is None else max(0, int((now - item.waiting_since).total_seconds() // 60)),
        failures=item.failures,
        last_error=item.last_error,
        next_attempt=item.retry_at if item.retry_at is not None and item.retry_at > now else None,
        ran_at=item.ran_at,
        skipped=item.skipped,
    )


@router.post(
    "/run",
    summary="现在就学一个会话，学完或预算用完才返回",
    responses={404: {"model": Problem}, 409: {"model": Problem}},
)
async def run_learner(request: RunRequest, view: View) -> RunReport:
    """Learn a conversation until nothing is left or the day's tokens are gone; failures before do not hold it up."""
    key = request.key
    place = await find_place(view, key)
    if place is None:
        raise HTTPException(404, "没有这个会话")
    if not place.conversation.learning:
        raise HTTPException(409, "这个会话关掉了学习：先在会话设置里打开 learning")
    try:
        report = await view.learner.run(place.id)
    except Busy as busy:
        raise HTTPException(409, "这个会话正在学习中，等它学完再来") from busy
    except LookupError as gone:
        raise HTTPException(404, "没有这个会话") from gone
    except Closed as closed:
        raise HTTPException(503, "机器人正在停止，没学完的下次再学") from closed
    return _report(key, report)


def _report(key: ConversationKey, report: Report) -> RunReport:
    by_task = [TokenUse.model_validate(item, from_attributes=True) for item in report.used]
    prompt, completion = sum(item.prompt_tokens for item in by_task), sum(item.completion_tokens for item in by_task)
    group = key.kind == "group"
    return RunReport(
        group_id=key.target_id if group else None,
        user_id=None if group else key.target_id,
        learned=report.learned,
        batches=report.batches,
        skipped=report.skipped,
        counts={name: count for name, count in sorted(report.counts.items()) if count},
        tokens=Tokens(
            calls=sum(item.calls for item in by_task),
            prompt_tokens=prompt,
            completion_tokens=completion,
            total=prompt + completion,
            left_today=report.left,
            by_task=by_task,
        ),
        stopped=dict(report.stopped),
        note=DEMO_NOTE if report.demo else "；".join(dict.fromkeys(report.stopped.values())) or None,
    )
