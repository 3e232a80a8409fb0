"""Which process is which: a name that tells other processes whether its bearer still lives."""

from __future__ import annotations

import os
import platform

import psutil


def worker_name() -> str:
    """Name this process so that others can tell whether it still lives: host, pid, time of birth."""
    return f"{platform.node()}:{os.getpid()}:{psutil.Process().create_time():.2f}"


def is_dead(worker: str) -> bool:
    """Tell whether a worker is a process of this host that is gone. Of other hosts nothing is known."""
    parts = worker.rsplit(":", 2)
    if len(parts) != 3 or parts[0] != platform.node() or not parts[1].isdecimal():
        return False
    try:
        return abs(psutil.Process(int(parts[1])).create_time() - float(parts[2])) > 1.0
    except (psutil.NoSuchProcess, ValueError):
        return True
    except psutil.AccessDenied:
        return False
