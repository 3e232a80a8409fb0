"""Scheduled jobs: what is older than the owner wants to keep goes, member lists are read again."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import nonebot
from nonebot.log import logger
from nonebot.plugin import PluginMetadata

from db import upkeep, withdraw
from db.pool import Database, DatabaseUnavailable
from plugins.runtime import get_runtime

nonebot.require("nonebot_plugin_apscheduler")
from nonebot_plugin_apscheduler import scheduler  # noqa: E402 - the plugin must be loaded first

__plugin_meta__ = PluginMetadata(name="群友定时任务", description="清理过期数据，刷新成员列表", usage="自动运行")

PIECE = 1000
REST_SECONDS = 0.2
EARLY_DAYS = 7
FIRST_AFTER = timedelta(minutes=5)
"""A computer that is switched off every evening cleans up too."""


async def clean(database: Database, before: datetime, now: datetime) -> int:
    """Delete everything older than ``before``; returns how many messages went. Short statements, so nothing waits long."""
    gone, piece = 0, PIECE
    while piece == PIECE:
        async with database.connection() as conn:
            piece = await upkeep.old_messages(conn, before, limit=PIECE)
        gone += piece
        await asyncio.sleep(REST_SECONDS)
    piece = PIECE
    while piece == PIECE:
        async with database.connection() as conn:
            piece = await upkeep.old_turns(conn, before, limit=PIECE)
        await asyncio.sleep(REST_SECONDS)
    async with database.connection() as conn:
        await upkeep.old_records(conn, before)
        await withdraw.forget_early(conn, now - timedelta(days=EARLY_DAYS))
    return gone


async def run_upkeep() -> None:
    """Clean up, if the bot runs."""
    runtime = get_runtime()
    if runtime is None:
        return
    now = datetime.now(UTC)
    try:
        gone = await clean(runtime.database, now - timedelta(days=runtime.settings.retention_days), now)
    except DatabaseUnavailable as error:
        logger.warning(f"清理过期数据时数据库连不上，下次再来：{error}")
        return
    if gone:
        logger.info(f"清理了 {gone} 条超过 {runtime.settings.retention_days} 天的消息")


async def run_refresh() -> None:
    """Read member lists again, if the bot runs."""
    runtime = get_runtime()
    if runtime is None:
        return
    try:
        await runtime.chat.refresh_members()
    except DatabaseUnavailable as error:
        logger.warning(f"刷新成员列表时数据库连不上，下次再来：{error}")


scheduler.add_job(  # pyright: ignore[reportUnknownMemberType] - APScheduler 3 has no types
    run_upkeep,
    "interval",
    hours=6,
    id="upkeep",
    jitter=600,
    next_run_time=datetime.now(UTC) + FIRST_AFTER,
    max_instances=1,
    coalesce=True,
    misfire_grace_time=None,
)
scheduler.add_job(  # pyright: ignore[reportUnknownMemberType] - APScheduler 3 has no types
    run_refresh,
    "interval",
    hours=1,
    id="members",
    jitter=300,
    max_instances=1,
    coalesce=True,
    misfire_grace_time=None,
)
