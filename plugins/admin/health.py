"""``GET /api/health``: can it work? Open to all, so it says nothing that a stranger may not know."""

from __future__ import annotations

import asyncio
import tomllib
from datetime import UTC, datetime
from typing import Literal

from fastapi import APIRouter, Response
from pydantic import BaseModel, Field

from db import accounts
from db.pool import DatabaseUnavailable
from plugins.admin.access import PossibleView
from plugins.admin.ports import ModelsHealth, RuntimeView
from settings import ROOT

PROBE_SECONDS = 1.5
_NO_VECTORS = {"off": "没有可用的向量模型，只按文字找", "down": "向量模型没有正常回答，暂时只按文字找"}
VERSION: str = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]


class DatabaseHealth(BaseModel):
    """Whether the database answers."""

    ok: bool


class ModelHealth(BaseModel):
    """Whether the chat model answers, as its last calls tell. Null: not known."""

    ok: bool | None
    name: str = Field(description="模型名；演示模型为 demo")


class EmbeddingHealth(BaseModel):
    """Whether the embedding works. Null: not known yet, or there is none."""

    ok: bool | None
    model: str
    detail: str | None = Field(default=None, description="不行或没有时说明，中文；原因在 /api/embedding")


class AccountHealth(BaseModel):
    """An own account: NapCat connected, and online at QQ."""

    account_id: int
    connected: bool
    online: bool


class LanesHealth(BaseModel):
    """Turns running, turns waiting for a place, and how many may run at once."""

    running: int = 0
    waiting: int = 0
    limit: int = 0


class SpoolHealth(BaseModel):
    """Frames on disk that wait for the database."""

    pending: int = 0
    bytes: int = 0
    full: bool = False


class LearnerHealth(BaseModel):
    """Conversations being learned from now, how many may be at once, and when it last looked who is due."""

    running: int = 0
    at_once: int = 0
    ticked_at: datetime | None = None


class Health(BaseModel):
    """``ok``; ``degraded``: it works in part; ``starting`` and ``down`` come with 503."""

    status: Literal["ok", "degraded", "starting", "down"]
    problems: list[str] = Field(description="现在有哪些不正常，中文")
    version: str
    uptime_seconds: int
    demo: bool = Field(description="演示模型在回答：没有设置 LLM_BASE_URL")
    database: DatabaseHealth
    model: ModelHealth
    embedding: EmbeddingHealth
    accounts: list[AccountHealth]
    lanes: LanesHealth
    spool: SpoolHealth
    learner: LearnerHealth


router = APIRouter(tags=["健康"])


@router.get("/health", summary="能不能正常工作", responses={503: {"model": Health}})
async def health(view: PossibleView, response: Response) -> Health:
    """Tell whether the bot can work; 503 while it starts and while the database is away."""
    report = await _examine(view) if view else _starting()
    if report.status in {"starting", "down"}:
        response.status_code = 503
    return report


def _starting() -> Health:
    return Health(
        status="starting",
        problems=["机器人还在启动"],
        version=VERSION,
        uptime_seconds=0,
        demo=False,
        database=DatabaseHealth(ok=False),
        model=ModelHealth(ok=None, name=""),
        embedding=EmbeddingHealth(ok=None, model=""),
        accounts=[],
        lanes=LanesHealth(),
        spool=SpoolHealth(),
        learner=LearnerHealth(),
    )


async def _examine(view: RuntimeView) -> Health:
    known, model_ok, embedding = await asyncio.gather(_accounts(view), _probe(view.models), _embedding(view))
    demo = view.settings.demo
    lanes, spool, learner = view.lanes_status(), view.spool_status(), view.learner.activity()
    problems = _problems(known, model_ok=model_ok, spool_full=spool.full)
    if embedding.ok is False:
        problems.append("向量服务没有正常回答，现在只按文字找记忆，请检查 EMBEDDING_BASE_URL、EMBEDDING_API_KEY、EMBEDDING_MODEL")
    return Health(
        status="down" if known is None else "degraded" if problems else "ok",
        problems=problems,
        version=VERSION,
        uptime_seconds=max(0, int((datetime.now(UTC) - view.started_at).total_seconds())),
        demo=demo,
        database=DatabaseHealth(ok=known is not None),
        model=ModelHealth(ok=model_ok, name="demo" if demo else view.settings.llm_model),
        embedding=embedding,
        accounts=[AccountHealth(account_id=a.account_id, connected=a.connected, online=a.online) for a in known or ()],
        lanes=LanesHealth(running=lanes.running, waiting=lanes.waiting, limit=lanes.limit),
        spool=SpoolHealth(pending=spool.pending, bytes=spool.bytes, full=spool.full),
        learner=LearnerHealth(running=learner.running, at_once=learner.at_once, ticked_at=learner.ticked_at),
    )


async def _accounts(view: RuntimeView) -> list[accounts.Account] | None:
    """Read the own accounts; None when the database does not answer in time."""
    try:
        async with asyncio.timeout(PROBE_SECONDS):
            # A query to a server that hangs is slow to cancel; the ping is not.
            if not await view.database.ping():
                return None
            async with view.database.connection() as conn:
                return await accounts.everyone(conn)
    except (TimeoutError, DatabaseUnavailable):
        return None


async def _probe(models: ModelsHealth) -> bool | None:
    """Ask how the model's service is; None when that does not get an answer in time."""
    try:
        async with asyncio.timeout(PROBE_SECONDS):
            return (await models.probe()).ok
    except TimeoutError:
        return None


async def _embedding(view: RuntimeView) -> EmbeddingHealth:
    """Ask how the embedding is. The local model is part of the program: without it nothing is broken, only less is found."""
    try:
        async with asyncio.timeout(PROBE_SECONDS):
            status = await view.embeddings.probe()
    except TimeoutError:
        return EmbeddingHealth(ok=None, model=view.settings.embedding_model)
    if status.state in {"ok", "starting"}:
        return EmbeddingHealth(ok=True if status.state == "ok" else None, model=status.model)
    configured = bool(view.settings.embedding_base_url)
    return EmbeddingHealth(ok=False if configured else None, model=status.model, detail=_NO_VECTORS[status.state])


def _problems(known: list[accounts.Account] | None, *, model_ok: bool | None, spool_full: bool) -> list[str]:
    found: list[str] = []
    if known is None:
        found.append("数据库连不上：收到的消息先存在磁盘上，恢复后补录")
    elif not any(account.connected for account in known):
        found.append("没有 QQ 账号连上，请在 NapCat 里启用 Websocket 客户端")
    elif not any(account.connected and account.online for account in known):
        found.append("QQ 账号已掉线，请在 NapCat 里重新登录")
    if model_ok is not True:
        found.append("模型服务没有正常回答，请检查 LLM_BASE_URL、LLM_API_KEY、LLM_MODEL 和网络")
    if spool_full:
        found.append("磁盘暂存区已满，新消息会丢失")
    return found
