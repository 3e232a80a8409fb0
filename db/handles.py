"""Who uses the embedded server: one line per handle in a small file, so that the last one stops it."""

from __future__ import annotations

import logging
import os
import uuid
from dataclasses import dataclass
from pathlib import Path

import psutil
from pydantic import TypeAdapter, ValidationError

logger = logging.getLogger(__name__)
_CLOCK_SLACK_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Handle:
    """One use of the server by one process. ``created`` is the process's start, in seconds since 1970."""

    pid: int
    created: float
    token: str


_HANDLES = TypeAdapter(list[Handle])


class HandleFile:
    """The list of handles on disk. Every call must happen under the server's lock."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def live(self) -> list[Handle]:
        """Read the handles whose processes still live."""
        try:
            handles = _HANDLES.validate_json(self._path.read_bytes())
        except FileNotFoundError:
            return []
        except ValidationError:
            logger.warning("内置数据库的使用记录 %s 读不懂，按没有使用者处理", self._path)
            return []
        return [handle for handle in handles if _lives(handle)]

    def add(self) -> Handle:
        """Register this process."""
        handle = Handle(os.getpid(), psutil.Process().create_time(), uuid.uuid4().hex)
        self._write([*self.live(), handle])
        return handle

    def remove(self, handle: Handle) -> list[Handle]:
        """Take a handle out; returns those that are left."""
        left = [other for other in self.live() if other.token != handle.token]
        self._write(left)
        return left

    def _write(self, handles: list[Handle]) -> None:
        draft = self._path.with_suffix(".new")
        draft.write_bytes(_HANDLES.dump_json(handles))
        draft.replace(self._path)


def _lives(handle: Handle) -> bool:
    try:
        process = psutil.Process(handle.pid)
        if process.status() == psutil.STATUS_ZOMBIE:
            return False
        return abs(process.create_time() - handle.created) < _CLOCK_SLACK_SECONDS
    except psutil.NoSuchProcess:
        return False
    except psutil.AccessDenied:
        return True
