"""Scheduled jobs: the learner looks who is due, old rows go, member lists are read again, search is kept in order."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta

import nonebot
from nonebot.log import logger
from nonebot.plugin import PluginMetadata

from db.pool import DatabaseUnavailable
from learner.service import Closed
from plugins.runtime import Runtime, get_runtime, get_settings
from plugins.schedule.chores import clean, make_searchable

nonebot.require("nonebot_plugin_apscheduler")
from nonebot_plugin_apscheduler import scheduler  # noqa: E402 - the plugin must be loaded first

__plugin_meta__ = PluginMetadata(name="群友定时任务", description="学习，清理过期数据，刷新成员列表，照看索引", usage="自动运行")


async def run_upkeep(runtime: Runtime) -> None:
    """Clean up."""
    now, days = datetime.now(UTC), runtime.settings.retention_days
    gone = await clean(runtime.database, now - timedelta(days=days), now)
    if gone:
        logger.info(f"清理了 {gone} 条超过 {days} 天的消息")


async def run_members(runtime: Runtime) -> None:
    """Read member lists again."""
    await runtime.chat.refresh_members()


async def run_indexes(runtime: Runtime) -> None:
    """Give big groups the index over their vectors, and take away what nobody needs."""
    await runtime.tend_indexes()


async def run_terms(runtime: Runtime) -> None:
    """Count how common words are: rare ones tell more."""
    await runtime.count_terms()


async def run_search(runtime: Runtime) -> None:
    """Make findable what was stored before there was a search."""
    filled = await make_searchable(runtime.database)
    if filled:
        runtime.keeper.poke()
        logger.info(f"补好了 {filled} 条旧消息，现在也搜得到")


async def run_learner(runtime: Runtime) -> None:
    """Learn from the conversations that are due."""
    with suppress(Closed):
        await runtime.learner.tick()


def _running(what: str, work: Callable[[Runtime], Awaitable[None]]) -> Callable[[], Awaitable[None]]:
    """Make work a job that is skipped while the bot does not run, and comes again when the database is away."""

    async def run() -> None:
        runtime = get_runtime()
        if runtime is None:
            return
        try:
            await work(runtime)
        except DatabaseUnavailable as error:
            logger.warning(f"{what}时数据库连不上，下次再来：{error}")
        except Exception:  # noqa: BLE001 - a background job
            logger.exception(f"{what}时出错，下次再来")

    return run


def _every(
    name: str, what: str, work: Callable[[Runtime], Awaitable[None]], *, minutes: int, first: timedelta | None = None
) -> None:
    """Schedule a job."""
    scheduler.add_job(  # pyright: ignore[reportUnknownMemberType] - APScheduler 3 has no types
        _running(what, work),
        "interval",
        minutes=minutes,
        id=name,
        jitter=minutes * 5,
        next_run_time=datetime.now(UTC) + (timedelta(minutes=minutes) if first is None else first),
        max_instances=1,
        coalesce=True,
        misfire_grace_time=None,
    )


async def schedule_learner() -> None:
    """Let the learner look every LEARNER_SECONDS who is due; 0: never by itself."""
    seconds = get_settings().learner_seconds
    if seconds <= 0:
        logger.info("LEARNER_SECONDS=0：只在有人从接口叫它学的时候学")
        return
    scheduler.add_job(  # pyright: ignore[reportUnknownMemberType] - APScheduler 3 has no types
        _running("学习", run_learner),
        "interval",
        seconds=seconds,
        id="learner",
        # One works at a time: the learner sees to that itself, so a long tick is no warning every minute.
        max_instances=2,
        coalesce=True,
        misfire_grace_time=None,
    )


nonebot.get_driver().on_startup(schedule_learner)

# A computer that is switched off every evening cleans up too: what is rare comes soon after the start.
_every("upkeep", "清理过期数据", run_upkeep, minutes=6 * 60, first=timedelta(minutes=5))
_every("members", "刷新成员列表", run_members, minutes=60)
_every("indexes", "照看向量索引", run_indexes, minutes=60, first=timedelta(minutes=10))
_every("terms", "数词频", run_terms, minutes=4 * 60, first=timedelta(minutes=15))
_every("search", "补旧消息的可查找文字", run_search, minutes=30, first=timedelta(minutes=1))
