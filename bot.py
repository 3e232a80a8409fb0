"""Starts the bot: reads the settings, then NoneBot with its driver, adapter and plugins."""

from __future__ import annotations

import gc

gc.disable()  # what is imported below is never freed: collecting meanwhile costs a tenth of the start

import json
import logging
import os
import signal
import socket
import sys

import nonebot
import psutil
from nonebot.log import LoguruHandler, logger

from persona.loader import PersonaMissing, load_persona
from plugins.admin.token import FILE_NAME, admin_token
from plugins.napcat import MAX_FRAME_BYTES, NapCatAdapter
from plugins.runtime import configure, startup_failure
from settings import Settings, SettingsError, load_settings, read_environment

PLUGINS = ("plugins.chat.chat", "plugins.admin.admin", "plugins.schedule.schedule")
# psycopg's async connections do not work on Windows' default loop.
LOOP = "asyncio:SelectorEventLoop" if sys.platform == "win32" else "auto"
GRACE_SECONDS = 10
ROOMS = ("agent", "db", "learner", "llm", "persona", "plugins")


def checked_settings() -> Settings:
    """Read and check the settings. Raises SettingsError."""
    settings = load_settings(read_environment())
    try:
        load_persona(settings.persona, settings.data_dir)
    except PersonaMissing as error:
        raise SettingsError(f"设置有误：PERSONA={settings.persona}：{error}") from error
    return settings


def port_is_free(host: str, port: int) -> bool:
    """Tell whether the server could listen there."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as trial:
        if sys.platform != "win32":  # a port in its last minute of TIME_WAIT counts as free, as for the server
            trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trial.bind((host, port))
        except OSError:
            return False
    return True


def start_nonebot(settings: Settings) -> None:
    """Initialise NoneBot with our settings and load the plugins."""
    # NoneBot reads this one as JSON before it looks at what is passed; we read it more kindly.
    os.environ["SUPERUSERS"] = json.dumps([str(user) for user in settings.superusers])
    nonebot.init(
        driver="~fastapi",
        host="127.0.0.1" if settings.host == "localhost" else settings.host,
        port=settings.port,
        log_level=settings.log_level,
        superusers={str(user) for user in settings.superusers},
        onebot_access_token=settings.onebot_access_token or None,
        fastapi_openapi_url="/openapi.json",
        fastapi_docs_url="/docs",
        fastapi_include_adapter_schema=False,
    )
    show_logs()
    token = admin_token(settings)
    if token.made:
        logger.success(f"已生成管理令牌 ADMIN_TOKEN（只显示这一次，保存在 {settings.data_dir / FILE_NAME}）：{token.value}")
    configure(settings, token)
    nonebot.get_driver().register_adapter(NapCatAdapter)  # pyright: ignore[reportUnknownMemberType] - untyped kwargs
    for name in PLUGINS:
        if nonebot.load_plugin(name) is None:
            give_up(f"插件 {name} 没有加载成功，原因见上面的日志")


def show_logs() -> None:
    """Let the rooms speak through NoneBot's log; libraries only when something is wrong."""
    logging.basicConfig(handlers=[LoguruHandler(level=logging.WARNING)], level=logging.WARNING, force=True)
    logging.getLogger("uvicorn").propagate = False
    for room in ROOMS:
        logger_of_room = logging.getLogger(room)
        logger_of_room.handlers = [LoguruHandler()]
        logger_of_room.setLevel(logging.INFO)
        logger_of_room.propagate = False


def give_up(reason: str) -> None:
    """Say why and exit with 1, also for ``nb run``, which hides how its child ended."""
    sys.stderr.write(f"{reason}\n")
    sys.stderr.flush()
    parent = psutil.Process().parent()
    if parent is not None and is_nb_run(parent):
        os.kill(parent.pid, signal.SIGTERM if sys.platform == "win32" else signal.SIGUSR1)
    sys.exit(1)


def is_nb_run(process: psutil.Process) -> bool:
    """Tell whether a process is ``nb run`` for us."""
    try:
        words = process.cmdline()
    except psutil.Error:
        return False
    return "run" in words and any(os.path.basename(word).split(".")[0] in {"nb", "nb_cli"} for word in words)


def main() -> None:
    """Run until stopped."""
    try:
        settings = checked_settings()
    except SettingsError as error:
        give_up(str(error))
        return
    if not port_is_free(settings.host, settings.port):
        give_up(f"{settings.host} 的 PORT={settings.port} 用不了：可能已有一个在运行，先关掉它，或在 .env 里换一个 PORT")
    start_nonebot(settings)
    gc.freeze()
    gc.enable()
    nonebot.run(
        loop=LOOP,
        ws_max_size=MAX_FRAME_BYTES,
        access_log=False,
        timeout_graceful_shutdown=GRACE_SECONDS,
    )
    if (failure := startup_failure()) is not None:
        give_up(f"启动不了：{failure}")


if __name__ == "__main__":
    main()
