"""Brings a database's tables up to date, cheaply when they are."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
from pathlib import Path

import psycopg
from pydantic import TypeAdapter

from db.checks import DatabaseProblem

logger = logging.getLogger(__name__)

ROOT = Path(__file__).resolve().parent.parent
VERSIONS = Path(__file__).parent / "migrations" / "versions"
_UPGRADE_SECONDS = 3600
_APPLIED = TypeAdapter(list[str])


def known_revisions() -> list[str]:
    """List the revisions that this program has, oldest first: the numbers before their files' names."""
    return sorted(path.name.split("_", 1)[0] for path in VERSIONS.glob("[0-9]*_*.py"))


async def migrate(url: str) -> list[str]:
    """Apply the revisions that a database lacks; returns those applied, oldest first.

    Alembic is loaded in a child process only, and only when there is something to do.
    Raises DatabaseProblem, psycopg.OperationalError when the database cannot be reached.
    """
    known = known_revisions()
    current = await current_revision(url)
    if current == known[-1]:
        return []
    if current is not None and current not in known:
        raise DatabaseProblem(
            f"数据库已被更新的版本升级过（表结构 {current}，本程序只认识到 {known[-1]}）：请升级程序，或换一个数据库"
        )
    applied = await asyncio.to_thread(_upgrade, url)
    if applied:
        logger.info("数据库表结构已更新：%s", "、".join(applied))
    return applied


async def current_revision(url: str) -> str | None:
    """Read which revision a database is at; None before the first."""
    async with await psycopg.AsyncConnection.connect(url, autocommit=True, connect_timeout=10) as connection:
        table = await connection.execute("SELECT to_regclass('alembic_version') IS NOT NULL")
        if await table.fetchone() != (True,):
            return None
        row = await (await connection.execute("SELECT version_num FROM alembic_version")).fetchone()
        return None if row is None else str(row[0])


def _upgrade(url: str) -> list[str]:
    """Run the upgrade in a child. The URL may hold a password: it goes in by stdin, unseen in process lists."""
    done = subprocess.run(
        [sys.executable, "-X", "utf8", "-m", "db.migrations.upgrade"],
        input=url,
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        cwd=ROOT,
        timeout=_UPGRADE_SECONDS,
        check=False,
    )
    if done.returncode != 0:
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        logger.error("数据库升级的完整输出：\n%s", done.stderr)
        raise DatabaseProblem(f"数据库表结构升级失败，数据没有改动：{lines[-1] if lines else '没有留下说明'}")
    return _APPLIED.validate_json(done.stdout)
