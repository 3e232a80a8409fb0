"""Sees at start whether a PostgreSQL is fit for us, and says in one sentence what is wrong."""

from __future__ import annotations

import re
from dataclasses import dataclass

import psycopg
from psycopg.rows import class_row

MIN_SERVER = 15
MIN_VECTOR = (0, 8)
SETUP_LOCK = 5_716_030_942
"""The advisory lock of everything that changes a database's tables or extensions."""


class DatabaseProblem(Exception):
    """The database cannot serve us; the text is one Chinese sentence that says why and how to mend it."""


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """What a server says about itself. Versions of extensions are None where there are none."""

    version: int
    """As PostgreSQL numbers it: 180006 is 18.6."""
    encoding: str
    read_only: bool
    vector_installed: str | None
    vector_available: str | None
    trgm_installed: str | None
    trgm_available: str | None


async def check_database(url: str) -> None:
    """See that a database can serve us, before or after its tables exist.

    Raises DatabaseProblem, psycopg.OperationalError when it cannot be reached.
    """
    async with await psycopg.AsyncConnection.connect(url, autocommit=True, connect_timeout=10) as connection:
        facts = await _read_facts(connection)
        sentence = complaint(facts)
        if sentence is not None:
            raise DatabaseProblem(sentence)
        if facts.vector_installed is None or facts.trgm_installed is None:
            sees_chinese = await _try_extensions(connection)
        else:
            sees_chinese = await _sees_chinese(connection)
    if not sees_chinese:
        raise DatabaseProblem(
            "数据库的字符分类不认识汉字（show_trgm('黑话') 为空），中文检索会失效："
            "请用 CREATE DATABASE 名字 TEMPLATE template0 ENCODING 'UTF8' LOCALE 'C.UTF-8' 重建数据库"
        )


def complaint(facts: ServerFacts) -> str | None:
    """Say what about a server does not fit, or None."""
    if facts.version < MIN_SERVER * 10_000:
        return f"PostgreSQL 版本太旧（{facts.version // 10_000}）：需要 {MIN_SERVER} 或更新的版本"
    if facts.encoding != "UTF8":
        return f"数据库的编码是 {facts.encoding}：请用 ENCODING 'UTF8' 重建数据库"
    if facts.read_only:
        return "数据库是只读的：请连接主库，或取消 default_transaction_read_only"
    if facts.trgm_installed is None and facts.trgm_available is None:
        return "数据库服务器没有 pg_trgm 扩展：请安装 PostgreSQL 的 contrib 包（例如 apt install postgresql-contrib）"
    return _vector_complaint(facts)


def _vector_complaint(facts: ServerFacts) -> str | None:
    wanted = ".".join(map(str, MIN_VECTOR))
    if facts.vector_installed is not None:
        if _numbers(facts.vector_installed) >= MIN_VECTOR:
            return None
        if facts.vector_available is not None and _numbers(facts.vector_available) >= MIN_VECTOR:
            return f"数据库里的 pgvector 是旧版 {facts.vector_installed}：请在这个库里执行 ALTER EXTENSION vector UPDATE"
        return f"pgvector 版本太旧（{facts.vector_installed}）：请在服务器上升级到 {wanted}，再执行 ALTER EXTENSION vector UPDATE"
    if facts.vector_available is None:
        return (
            "数据库服务器没有 pgvector 扩展：请安装它（例如使用 pgvector/pgvector 镜像，或 apt install postgresql-18-pgvector）"
        )
    if _numbers(facts.vector_available) < MIN_VECTOR:
        return f"数据库服务器上的 pgvector 版本太旧（{facts.vector_available}）：请升级到 {wanted} 或更新"
    return None


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version))


async def _read_facts(connection: psycopg.AsyncConnection) -> ServerFacts:
    async with connection.cursor(row_factory=class_row(ServerFacts)) as cursor:
        await cursor.execute(
            """
            SELECT current_setting('server_version_num')::integer AS version,
                   current_setting('server_encoding') AS encoding,
                   current_setting('transaction_read_only')::boolean AS read_only,
                   max(installed_version) FILTER (WHERE name = 'vector') AS vector_installed,
                   max(default_version) FILTER (WHERE name = 'vector') AS vector_available,
                   max(installed_version) FILTER (WHERE name = 'pg_trgm') AS trgm_installed,
                   max(default_version) FILTER (WHERE name = 'pg_trgm') AS trgm_available
            FROM pg_available_extensions
            """
        )
        facts = await cursor.fetchone()
    if facts is None:
        raise DatabaseProblem("数据库没有说明自己的版本：请确认 DATABASE_URL 指向 PostgreSQL")
    return facts


async def _try_extensions(connection: psycopg.AsyncConnection) -> bool:
    """Make the extensions for a moment; tells whether trigrams see Chinese. Raises DatabaseProblem."""
    try:
        async with connection.transaction(force_rollback=True):
            await connection.execute("SELECT pg_advisory_xact_lock(%(key)s)", {"key": SETUP_LOCK})
            await connection.execute("CREATE EXTENSION IF NOT EXISTS pg_trgm")
            await connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
            return await _sees_chinese(connection)
    except psycopg.errors.InsufficientPrivilege as error:
        raise DatabaseProblem(
            "数据库用户无权创建扩展：请让数据库管理员在这个库里执行 CREATE EXTENSION pg_trgm; CREATE EXTENSION vector;"
        ) from error


async def _sees_chinese(connection: psycopg.AsyncConnection) -> bool:
    try:
        row = await (await connection.execute("SELECT cardinality(show_trgm('黑话')) > 0")).fetchone()
    except psycopg.errors.UndefinedFunction as error:
        raise DatabaseProblem(
            "pg_trgm 装在 search_path 之外的模式里：请执行 ALTER EXTENSION pg_trgm SET SCHEMA public"
        ) from error
    return row == (True,)
