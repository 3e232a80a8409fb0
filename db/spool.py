"""A bounded queue on disk for frames that come in while the database is away."""

from __future__ import annotations

import io
import json
import logging
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock, Timeout
from pydantic import TypeAdapter, ValidationError

logger = logging.getLogger(__name__)

MEBIBYTE = 1024 * 1024
_SEGMENT_BYTES = 4 * MEBIBYTE


class SpoolProblem(Exception):
    """The spool cannot be used; the text is one Chinese sentence."""


@dataclass(frozen=True, slots=True)
class SpoolRecord:
    """One frame as it came. ``received_at`` is in seconds since 1970."""

    account_id: int
    received_at: float
    raw: str


@dataclass(frozen=True, slots=True, order=True)
class _Place:
    """A byte in the queue: everything before it is done with."""

    segment: int = 0
    offset: int = 0


@dataclass(slots=True)
class _Entry:
    record: SpoolRecord
    end: _Place
    lines: int


_PLACE = TypeAdapter(_Place)


class Spool:
    """First in, first out, across restarts; for one process and one thread.

    A record is in the operating system's hands when ``append`` returns, so it outlives the process. After a
    crash the last acknowledged records may come again. Raises SpoolProblem, OSError when it cannot be opened.
    """

    def __init__(self, folder: Path, *, max_bytes: int = 64 * MEBIBYTE) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._max_bytes = max_bytes
        self._segment_bytes = max(1, min(_SEGMENT_BYTES, max_bytes // 4))
        self._lock = FileLock(folder / "lock", timeout=0)
        try:
            self._lock.acquire()
        except Timeout as error:
            raise SpoolProblem(f"{folder} 正被另一个进程使用：请只运行一个程序，或换一个 PORT 或 DATA_DIR") from error
        self._file: io.FileIO | None = None
        self._window: deque[_Entry] = deque()
        self._done = self._read_place()
        self._sizes = {int(path.stem): _mend(path) for path in folder.glob("*.jsonl")}
        self._last = max([self._done.segment, *self._sizes])
        self._forget_done_segments()
        self._scanned = self._start()
        self._pending = sum(self._count(number) for number in self._sizes)

    @property
    def pending(self) -> int:
        """How many records wait."""
        return self._pending

    @property
    def size_bytes(self) -> int:
        """How much disk the queue takes."""
        return sum(self._sizes.values())

    def append(self, record: SpoolRecord) -> bool:
        """Put a record at the end; False when the queue or the disk is full."""
        fields = [record.account_id, record.received_at, record.raw]
        line = json.dumps(fields, ensure_ascii=True, separators=(",", ":")).encode("ascii") + b"\n"
        if self.size_bytes + len(line) > self._max_bytes:
            return False
        try:
            file = self._writable(len(line))
            if not self._write(file, line):
                return False
        except OSError:
            logger.exception("写不进暂存文件夹 %s，这一条没有存下", self._folder)
            return False
        self._pending += 1
        return True

    def peek(self, limit: int) -> list[SpoolRecord]:
        """Read the oldest records, which stay until they are acknowledged. Raises OSError."""
        self._fill(limit)
        return [entry.record for _, entry in zip(range(limit), self._window, strict=False)]

    def ack(self, count: int) -> None:
        """Be done with the oldest ``count`` records. Raises ValueError when there are fewer."""
        if count <= 0:
            return
        self._fill(count)
        if count > len(self._window):
            raise ValueError(f"only {len(self._window)} records wait, not {count}")
        for _ in range(count):
            entry = self._window.popleft()
            self._done = entry.end
            self._pending -= entry.lines
        self._settle()

    def close(self) -> None:
        """Let go of the files; what waits stays on disk."""
        self._close_file()
        self._lock.release()

    def _path(self, segment: int) -> Path:
        return self._folder / f"{segment:012d}.jsonl"

    def _read_place(self) -> _Place:
        try:
            return _PLACE.validate_json((self._folder / "done.json").read_bytes())
        except FileNotFoundError:
            return _Place()
        except ValidationError:
            logger.warning("%s 里的进度读不懂，从头读起", self._folder)
            return _Place()

    def _start(self) -> _Place:
        """The first byte not done with."""
        first = min(self._sizes, default=self._last + 1)
        return self._done if self._done.segment == first else _Place(first)

    def _count(self, segment: int) -> int:
        """Count the lines that wait in a segment."""
        with self._path(segment).open("rb") as file:
            file.seek(self._done.offset if segment == self._done.segment else 0)
            return sum(chunk.count(b"\n") for chunk in iter(lambda: file.read(MEBIBYTE), b""))

    def _writable(self, length: int) -> io.FileIO:
        """Give the open segment, a new one when there is none or it would grow too long."""
        if self._file is not None and self._sizes[self._last] + length <= self._segment_bytes:
            return self._file
        self._close_file()
        number = self._last + 1
        self._file = io.FileIO(self._path(number), "xb")
        self._last = number
        self._sizes[number] = 0
        return self._file

    def _write(self, file: io.FileIO, line: bytes) -> bool:
        """Write a whole line or nothing. Raises OSError."""
        size = self._sizes[self._last]
        written = 0
        try:
            written = file.write(line)
        finally:
            if written < len(line):
                file.truncate(size)
                file.seek(size)
        if written < len(line):
            logger.error("磁盘满了，暂存文件夹 %s 存不下新的消息", self._folder)
            return False
        self._sizes[self._last] = size + written
        return True

    def _close_file(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            file.close()

    def _fill(self, limit: int) -> None:
        """Read on until the window holds ``limit`` records or the queue ends."""
        if len(self._window) >= limit:
            return
        skipped = 0
        for end, record in self._scan():
            if record is None:
                skipped += 1
            else:
                self._window.append(_Entry(record, end, skipped + 1))
                skipped = 0
            self._scanned = end
            if len(self._window) >= limit:
                break
        if skipped and self._window:
            self._window[-1].end = self._scanned
            self._window[-1].lines += skipped
        elif skipped:
            self._done = self._scanned
            self._pending -= skipped
            self._settle()

    def _scan(self) -> Iterator[tuple[_Place, SpoolRecord | None]]:
        """Read the lines after the window, with the place behind each; None for one that makes no sense."""
        for segment in sorted(number for number in self._sizes if number >= self._scanned.segment):
            offset = self._scanned.offset if segment == self._scanned.segment else 0
            with self._path(segment).open("rb") as file:
                file.seek(offset)
                for line in file:
                    offset += len(line)
                    yield _Place(segment, offset), _parse(line)

    def _settle(self) -> None:
        """Remember what is done with, then drop the segments that hold nothing else."""
        draft = self._folder / "done.new"
        try:
            draft.write_bytes(_PLACE.dump_json(self._done))
            draft.replace(self._folder / "done.json")
        except OSError:
            # Records may come again; freeing the disk matters more.
            logger.exception("记不下暂存文件夹 %s 的进度", self._folder)
        self._forget_done_segments()

    def _forget_done_segments(self) -> None:
        for number, size in sorted(self._sizes.items()):
            if _Place(number, size) > self._done:
                break
            if number == self._last:
                self._close_file()
            self._path(number).unlink(missing_ok=True)
            del self._sizes[number]


def _mend(path: Path) -> int:
    """Cut off a last line that a crash tore; returns the size of what is whole."""
    with path.open("rb+") as file:
        size = whole = file.seek(0, io.SEEK_END)
        while whole and _byte_before(file, whole) != b"\n":
            start = max(0, whole - MEBIBYTE)
            file.seek(start)
            whole = start + file.read(whole - start).rfind(b"\n") + 1
        if whole < size:
            logger.warning("%s 的最后一条记录没有写完，已去掉", path)
            file.truncate(whole)
    return whole


def _byte_before(file: io.BufferedRandom, place: int) -> bytes:
    file.seek(place - 1)
    return file.read(1)


def _parse(line: bytes) -> SpoolRecord | None:
    try:
        match json.loads(line):
            case [int(account_id), float() | int() as received_at, str(raw)]:
                return SpoolRecord(account_id, float(received_at), raw)
            case _:
                pass
    except ValueError:
        pass
    logger.error("暂存的一条记录读不懂，已跳过：%r", line[:200])
    return None
