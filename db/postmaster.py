"""What runs on a database folder: its ``postmaster.pid`` and the process behind it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import psutil

PID_FILE = "postmaster.pid"


@dataclass(frozen=True, slots=True)
class Postmaster:
    """A running server. ``socket_dir`` is empty where it listens on TCP."""

    pid: int
    port: int
    socket_dir: str
    status: str
    """``ready``, ``starting`` or ``stopping``."""


def parse_pid_file(text: str) -> Postmaster | None:
    """Read the text of ``postmaster.pid``; None when it is empty, half-written or not one."""
    lines = [line.strip() for line in text.splitlines()]
    try:
        pid = int(lines[0])
        port = int(lines[3])
        socket_dir = lines[4]
    except (IndexError, ValueError):
        return None
    if pid <= 0:
        return None
    return Postmaster(pid, port, socket_dir, lines[7] if len(lines) > 7 else "starting")


def serves(pid: int, cluster: Path) -> bool:
    """Tell whether a living process is a PostgreSQL server of this folder."""
    try:
        process = psutil.Process(pid)
        if not process.name().lower().startswith("postgres") or process.status() == psutil.STATUS_ZOMBIE:
            return False
        if str(cluster) in process.cmdline():
            return True
        return os.path.realpath(process.cwd()) == os.path.realpath(cluster)
    except psutil.Error:
        return False


def find_postmaster(cluster: Path) -> Postmaster | None:
    """Find the server that runs on a folder, and remove a pid file that speaks of none.

    A file whose process is simply gone stays: PostgreSQL itself checks its shared memory for survivors.
    """
    path = cluster / PID_FILE
    try:
        text = path.read_text("utf-8", errors="replace")
    except FileNotFoundError:
        return None
    found = parse_pid_file(text)
    if found is not None and serves(found.pid, cluster):
        return found
    if found is None and (pid := _search(cluster)) is not None:
        return Postmaster(pid, 0, "", "starting")
    drop_false_lock(path, cluster)
    return None


def drop_false_lock(path: Path, cluster: Path) -> None:
    """Remove a lock file of PostgreSQL that names no process, a dead one not yet buried, or another program.

    The server would take such a process for itself and refuse to start. The caller holds our own lock.
    """
    try:
        pid = int(path.read_text("utf-8", errors="replace").split("\n", 1)[0])
    except FileNotFoundError:
        return
    except ValueError:
        pid = 0
    if pid <= 0 or (psutil.pid_exists(pid) and not serves(pid, cluster)):
        path.unlink(missing_ok=True)


def _search(cluster: Path) -> int | None:
    return next((pid for pid in psutil.pids() if serves(pid, cluster)), None)


def program_of(pid: int) -> Path | None:
    """Give the executable of a process, or None where it cannot be read."""
    try:
        return Path(psutil.Process(pid).exe())
    except psutil.Error:
        return None
