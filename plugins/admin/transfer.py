"""``python -m plugins.admin.transfer``: bring memories in and out, and messages in, over the API, with progress shown."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import httpx
from pydantic import BaseModel, ValidationError
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from plugins.admin.memory_lines import ImportReport, LinesReport

PIECE_BYTES = 64 * 1024
POLL_SECONDS = 1.0
CONNECT_SECONDS = 10


class TransferFailed(Exception):
    """The transfer did not take place; the text says why, in Chinese."""


class _Embedded(BaseModel):
    """As much of ``GET /api/embedding`` as a progress bar shows."""

    memories_total: int = 0
    memories_done: int = 0


@dataclass(frozen=True, slots=True)
class Door:
    """Where the bot's API is, and what opens it."""

    url: str
    token: str
    transport: httpx.AsyncBaseTransport | None = None

    def client(self) -> httpx.AsyncClient:
        """Make a client that waits as long as it takes: a large import is embedded before it answers."""
        return httpx.AsyncClient(
            base_url=self.url.rstrip("/"),
            headers=[(b"Authorization", f"Bearer {self.token}".encode())],
            timeout=httpx.Timeout(None, connect=CONNECT_SECONDS),
            transport=self.transport,
            trust_env=False,
        )


async def import_file(door: Door, file: Path, *, wait: bool, console: Console) -> ImportReport:
    """Send a JSONL file and say how far it is. Raises TransferFailed and OSError."""
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[shown]}"), TimeElapsedColumn())
    with Progress(*columns, console=console) as progress:
        sent = progress.add_task("上传", total=await asyncio.to_thread(os.path.getsize, file), shown="")
        vectors = progress.add_task("向量", total=None, shown="", visible=wait)
        async with door.client() as client:
            watching = asyncio.create_task(_watch(client, progress, vectors)) if wait else None
            try:
                answer = await client.post("/api/memories/import", params={"wait": wait}, content=_pieces(file, progress, sent))
            except httpx.HTTPError as error:
                raise TransferFailed(_unreachable(door, error)) from error
            finally:
                if watching is not None:
                    watching.cancel()
        report = ImportReport.model_validate_json(_good(answer).content)
        if report.embedded:
            progress.update(vectors, total=1, completed=1, shown="100%")
    return report


async def import_messages(door: Door, file: Path, params: dict[str, int], *, console: Console) -> LinesReport:
    """Send a JSONL file of messages and say how far it is. Raises TransferFailed and OSError."""
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[shown]}"), TimeElapsedColumn())
    with Progress(*columns, console=console) as progress:
        sent = progress.add_task("上传", total=await asyncio.to_thread(os.path.getsize, file), shown="")
        async with door.client() as client:
            try:
                answer = await client.post("/api/messages/import", params=params, content=_pieces(file, progress, sent))
            except httpx.HTTPError as error:
                raise TransferFailed(_unreachable(door, error)) from error
    return LinesReport.model_validate_json(_good(answer).content)


async def _pieces(file: Path, progress: Progress, sent: TaskID) -> AsyncIterator[bytes]:
    """Read a file and show how much of it is gone."""
    with file.open("rb") as source:
        while piece := await asyncio.to_thread(source.read, PIECE_BYTES):
            yield piece
            progress.advance(sent, len(piece))
            progress.update(sent, shown=f"{progress.tasks[sent].percentage:.0f}%")


async def _watch(client: httpx.AsyncClient, progress: Progress, task: TaskID) -> None:
    """Show how many memories have a vector, as the bot tells; what cannot be asked is not shown."""
    while True:
        await asyncio.sleep(POLL_SECONDS)
        with suppress(httpx.HTTPError, ValidationError):
            status = _Embedded.model_validate_json((await client.get("/api/embedding")).content)
            shown = f"{status.memories_done}/{status.memories_total}"
            progress.update(task, total=status.memories_total, completed=status.memories_done, shown=shown)


async def export_file(door: Door, file: Path, params: dict[str, int], *, console: Console) -> int:
    """Write memories into a JSONL file, whole or not at all; returns how many. Raises TransferFailed and OSError."""
    aside = file.with_name(f"{file.name}.part")
    lines = 0
    columns = (TextColumn("{task.description}"), DownloadColumn(), TimeElapsedColumn())
    try:
        with Progress(*columns, console=console) as progress, aside.open("wb") as target:
            task = progress.add_task("下载", total=None)
            async with door.client() as client, client.stream("GET", "/api/memories/export", params=params) as answer:
                if answer.is_error:
                    await answer.aread()
                async for piece in _good(answer).aiter_bytes():
                    target.write(piece)
                    lines += piece.count(b"\n")
                    progress.update(task, advance=len(piece))
        aside.replace(file)
    except httpx.HTTPError as error:
        raise TransferFailed(_unreachable(door, error)) from error
    finally:
        aside.unlink(missing_ok=True)
    return lines


def _good(answer: httpx.Response) -> httpx.Response:
    """Pass a good answer on. Raises TransferFailed with the server's own words."""
    if not answer.is_error:
        return answer
    try:
        detail = str(answer.json()["detail"])
    except (ValueError, KeyError, TypeError):
        detail = answer.text[:200]
    raise TransferFailed(f"没有成功（{answer.status_code}）：{detail}")


def _unreachable(door: Door, error: httpx.HTTPError) -> str:
    return f"连不上 {door.url}，或中途断开了：{str(error) or type(error).__name__}"


def _say(console: Console, text: str) -> None:
    console.print(text, markup=False, highlight=False, soft_wrap=True)


def _told(console: Console, report: LinesReport) -> int:
    """Say how an import went; returns the exit code."""
    _say(console, report.summary())
    for error in report.errors:
        _say(console, f"  第 {error.line} 行：{error.detail}")
    return 1 if report.failed else 0


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m plugins.admin.transfer", description="导入或导出记忆，导入聊天记录（JSONL）")
    parser.add_argument("what", choices=("import", "export", "import-messages"), help="记忆进、记忆出、聊天记录进")
    parser.add_argument("file", type=Path, help="JSONL 文件")
    parser.add_argument("--url", default="http://127.0.0.1:8080", help="机器人的地址")
    parser.add_argument("--token", default=os.environ.get("ADMIN_TOKEN", ""), help="管理令牌；不写则用环境变量 ADMIN_TOKEN")
    parser.add_argument("--group-id", type=int, help="只导出这个群；聊天记录属于这个群")
    parser.add_argument("--user-id", type=int, help="只导出这个好友；聊天记录属于这个好友")
    parser.add_argument("--no-wait", action="store_true", help="导入后不等向量算完")
    return parser


async def run(arguments: Sequence[str] | None, console: Console, transport: httpx.AsyncBaseTransport | None = None) -> int:
    """Do what the arguments say; returns the exit code. Prints one line on how it went."""
    given = _arguments().parse_args(arguments)
    door = Door(given.url, given.token, transport)
    try:
        named = {"group_id": given.group_id, "user_id": given.user_id}
        wanted = {name: number for name, number in named.items() if number is not None}
        if given.what == "import":
            return _told(console, await import_file(door, given.file, wait=not given.no_wait, console=console))
        if given.what == "import-messages":
            return _told(console, await import_messages(door, given.file, wanted, console=console))
        lines = await export_file(door, given.file, wanted, console=console)
        _say(console, f"导出了 {lines} 条记忆到 {given.file}")
    except (TransferFailed, OSError) as error:
        _say(console, str(error))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(run(None, Console(stderr=True))))
