"""The terminal command: a file in, a file out, and what it says."""

from __future__ import annotations

import io
import json
import os
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI
from httpx import ASGITransport
from rich.console import Console

from plugins.admin.router import build_router
from plugins.admin.transfer import run
from tests.admin.conftest import TOKEN
from tests.admin.seed import GROUP, MING, View


class Terminal:
    """The command, run against the API of a running bot."""

    def __init__(self, view: View) -> None:
        app = FastAPI()
        app.include_router(build_router(lambda: view, TOKEN))
        self.transport: httpx.AsyncBaseTransport = ASGITransport(app)
        self.text = io.StringIO()

    async def run(self, *words: str, token: str = TOKEN) -> int:
        """Run the command; what it prints is in ``text``."""
        self.text = io.StringIO()
        console = Console(file=self.text, force_terminal=True, width=200)
        return await run([*words, "--url", "http://bot", "--token", token], console, self.transport)


@pytest.fixture
def terminal(view: View) -> Terminal:
    """A terminal."""
    return Terminal(view)


def _file(folder: Path, *contents: str) -> Path:
    path = folder / "记忆.jsonl"
    lines = [{"group_id": GROUP, "subject_id": MING, "kind": "fact", "content": content} for content in contents]
    path.write_text("\n".join(json.dumps(line, ensure_ascii=False) for line in lines), encoding="utf-8")
    return path


async def test_a_file_goes_in_and_comes_out(terminal: Terminal, tmp_path: Path) -> None:
    assert await terminal.run("import", str(_file(tmp_path, "小明养了两只猫", "小明在杭州工作"))) == 0
    assert "2 行：新存下 2，本来就有 0，没读懂 0；向量都算好了" in terminal.text.getvalue()
    assert terminal.text.getvalue().count("100%") >= 2
    out = tmp_path / "备份.jsonl"
    assert await terminal.run("export", str(out), "--group-id", str(GROUP)) == 0
    assert "导出了 2 条记忆" in terminal.text.getvalue()
    assert [json.loads(line)["content"] for line in out.read_text(encoding="utf-8").splitlines()] == [
        "小明养了两只猫",
        "小明在杭州工作",
    ]
    assert sorted(os.listdir(tmp_path)) == ["备份.jsonl", "记忆.jsonl"]


async def test_a_groups_past_goes_in(terminal: Terminal, tmp_path: Path) -> None:
    path = tmp_path / "聊天.jsonl"
    said = {"sender_id": MING, "sender_name": "小明", "sent_at": "2026-01-02T03:04:05Z"}
    path.write_text("\n".join(json.dumps(said | {"text": text}) for text in ("早", "吃了吗")), encoding="utf-8")
    assert await terminal.run("import-messages", str(path), "--group-id", str(GROUP)) == 0
    assert "2 行：新存下 2，本来就有 0，没读懂 0" in terminal.text.getvalue()
    assert await terminal.run("import-messages", str(path)) == 1
    assert "不知道是哪个会话" in terminal.text.getvalue()


async def test_bad_lines_are_named_and_end_in_1(terminal: Terminal, tmp_path: Path) -> None:
    path = _file(tmp_path, "小明养了两只猫")
    path.write_text(path.read_text(encoding="utf-8") + "\n{\n", encoding="utf-8")
    assert await terminal.run("import", str(path), "--no-wait") == 1
    assert "第 2 行：" in terminal.text.getvalue()
    assert "新存下 1" in terminal.text.getvalue()


async def test_a_refusal_is_told_in_the_servers_words(terminal: Terminal, tmp_path: Path) -> None:
    path = _file(tmp_path, "小明养了两只猫")
    assert await terminal.run("import", str(path), token="wrong") == 1
    assert "401" in terminal.text.getvalue()
    assert "管理令牌" in terminal.text.getvalue()
    out = tmp_path / "out.jsonl"
    assert await terminal.run("export", str(out), token="wrong") == 1
    assert not out.exists()


async def test_a_file_that_is_not_there_and_a_bot_that_is_not_there_are_told(terminal: Terminal, tmp_path: Path) -> None:
    assert await terminal.run("import", str(tmp_path / "nowhere.jsonl")) == 1
    assert "nowhere.jsonl" in terminal.text.getvalue()

    def nobody(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("Connection refused", request=request)

    terminal.transport = httpx.MockTransport(nobody)
    for what in ("import", "export"):
        assert await terminal.run(what, str(_file(tmp_path, "小明养了两只猫"))) == 1
        assert "连不上 http://bot" in terminal.text.getvalue()


async def test_an_export_that_breaks_off_leaves_the_old_file(terminal: Terminal, tmp_path: Path) -> None:
    out = tmp_path / "备份.jsonl"
    out.write_text("旧的\n", encoding="utf-8")
    terminal.transport = httpx.MockTransport(lambda request: httpx.Response(200, stream=_Breaking()))
    assert await terminal.run("export", str(out)) == 1
    assert out.read_text(encoding="utf-8") == "旧的\n"
    assert os.listdir(tmp_path) == ["备份.jsonl"]


class _Breaking(httpx.AsyncByteStream):
    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield b'{"content": "half'
        raise httpx.ReadError("Connection lost")
