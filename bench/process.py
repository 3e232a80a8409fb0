"""The bot, or the baseline, as a process of its own with settings of its own."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

import httpx
import psutil

from bench.data.groups import Group
from bench.model import FakeModel
from bench.ports import free_port
from settings import ROOT, Settings

TOKEN = "bench-onebot-token"
BOT_PY = (sys.executable, "bot.py")
NB_RUN = (str(Path(sys.executable).parent / "nb"), "run")
BARE = (sys.executable, "-m", "bench.bare")
START_SECONDS = 120.0
_MIB = 1024 * 1024


@dataclass(slots=True)
class Process:
    """One started program that answers ``/api/health``. ``ready_seconds``: from its start to the first 200."""

    command: Sequence[str]
    data_dir: Path
    settings: Mapping[str, str]
    port: int = field(default_factory=free_port)
    ready_seconds: float = 0.0
    _child: asyncio.subprocess.Process | None = None

    @property
    def url(self) -> str:
        """Where it answers."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def log(self) -> Path:
        """What it printed."""
        return self.data_dir.with_suffix(".log")

    async def __aenter__(self) -> Process:
        """Start it and wait until it is healthy. Raises RuntimeError when it ends or does not become so."""
        environment = {**os.environ, **self.settings, "PORT": str(self.port), "DATA_DIR": str(self.data_dir)}
        environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        started = time.perf_counter()
        with self.log.open("ab") as log:
            self._child = await asyncio.create_subprocess_exec(
                *self.command, cwd=ROOT, env=environment, stdout=log, stderr=log, start_new_session=True
            )
        try:
            await self._until_healthy(started)
        except BaseException:
            await self.stop()
            raise
        self.ready_seconds = time.perf_counter() - started
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Stop it."""
        await self.stop()

    async def _until_healthy(self, started: float) -> None:
        async with httpx.AsyncClient() as client:
            while not await self._healthy(client):
                if self._child is None or self._child.returncode is not None or time.perf_counter() - started > START_SECONDS:
                    raise RuntimeError(f"{self.command} did not start:\n{self.log.read_text(errors='replace')[-2000:]}")
                await asyncio.sleep(0.02)

    async def _healthy(self, client: httpx.AsyncClient) -> bool:
        try:
            return (await client.get(f"{self.url}/api/health", timeout=5)).status_code == 200
        except httpx.HTTPError:
            return False

    async def stop(self) -> None:
        """Ask the whole group to end, as Ctrl-C does, and wait."""
        if self._child is not None and self._child.returncode is None:
            os.killpg(self._child.pid, signal.SIGTERM)
            await asyncio.wait_for(self._child.wait(), 60)

    def python(self) -> psutil.Process:
        """The process that runs the bot itself: the launcher's child, or the one that was started."""
        own = self._own()
        return next((process for process in own[1:] if "bot.py" in " ".join(process.cmdline())), own[0])

    def rss(self) -> float:
        """Resident memory of the bot's own process, MiB."""
        return self.python().memory_info().rss / _MIB

    def rss_with_launcher(self) -> float:
        """Resident memory of all started processes but the database's, MiB."""
        return sum(process.memory_info().rss for process in self._own()) / _MIB

    def _own(self) -> list[psutil.Process]:
        if self._child is None:
            raise RuntimeError("not started")
        first = psutil.Process(self._child.pid)
        return [first, *(child for child in first.children(recursive=True) if not child.name().startswith("postgres"))]


def scratch() -> tempfile.TemporaryDirectory[str]:
    """Make a folder for one benchmark's databases and logs."""
    return tempfile.TemporaryDirectory(prefix="qunyou-bench-", ignore_cleanup_errors=True)


def bot_settings(groups: Sequence[Group], model: FakeModel | None = None, **changed: str) -> dict[str, str]:
    """Give every setting its default, so that no file and no environment changes what is measured; then what is needed."""
    plain = {name.upper(): _as_text(info.default) for name, info in Settings.model_fields.items()}
    plain |= {
        "ONEBOT_ACCESS_TOKEN": TOKEN,
        "ADMIN_TOKEN": "bench-admin-token",
        "ENABLED_GROUPS": ",".join(str(group.group_id) for group in groups),
        "QUIET_HOURS": "",
        "LEARNER_SECONDS": "0",
        "TALK_FREQUENCY": "0",
        "TYPING_CHARS_PER_SECOND": "0",
    }
    if model is not None:
        plain |= {"LLM_BASE_URL": model.url, "LLM_API_KEY": "bench", "LLM_MODEL": "bench"}
    return plain | changed


def _as_text(default: object) -> str:
    if default is None:
        return ""
    return "[]" if isinstance(default, tuple) else str(default)
