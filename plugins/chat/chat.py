"""The chat plugin: opens the bot when the server starts, and listens to NapCat's socket."""

from __future__ import annotations

import signal
from typing import cast

import nonebot
from nonebot.adapters.onebot.v11 import Bot
from nonebot.log import logger
from nonebot.plugin import PluginMetadata

from db.checks import DatabaseProblem
from db.spool import SpoolProblem
from plugins.chat.welcome import next_steps
from plugins.napcat import NapCatAdapter
from plugins.runtime import close_runtime, fail_startup, get_settings, open_runtime

__plugin_meta__ = PluginMetadata(
    name="群友",
    description="听群里的话，存下来，想一想，开口或安静",
    usage="/群友 帮助",
    supported_adapters={"~onebot.v11"},
)

driver = nonebot.get_driver()


@driver.on_startup
async def start() -> None:
    """Open the bot. What cannot work ends the process with one sentence instead of a traceback."""
    adapter = nonebot.get_adapter(NapCatAdapter)

    def find_bot(account_id: int) -> Bot | None:
        return cast("Bot | None", adapter.bots.get(str(account_id)))

    try:
        runtime = await open_runtime(find_bot)
    except (DatabaseProblem, SpoolProblem, OSError) as error:
        fail_startup(str(error))
        signal.raise_signal(signal.SIGINT)  # lets the server end in order; bot.py then exits with 1
        return
    adapter.listener = runtime.chat
    for line in next_steps(get_settings()):
        logger.success(line)


@driver.on_shutdown
async def stop() -> None:
    """Close the bot."""
    nonebot.get_adapter(NapCatAdapter).listener = None
    await close_runtime()
