"""The spool: in order, bounded, and whole after a kill at any point."""

from __future__ import annotations

import errno
import io
import json
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from db.migrate import ROOT
from db.spool import Spool, SpoolProblem, SpoolRecord


def record(number: int, text: str = "") -> SpoolRecord:
    return SpoolRecord(5000000011, 1764500000.25 + number, text or f'{{"message_id": {number}}}')


def files(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.jsonl"))


def drain(spool: Spool) -> list[SpoolRecord]:
    records = spool.peek(1_000_000)
    spool.ack(len(records))
    return records


def test_records_come_out_in_order_and_once(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    records = [record(number) for number in range(10)]
    assert all(spool.append(one) for one in records)
    assert spool.pending == 10
    assert spool.peek(3) == records[:3]
    assert spool.peek(4) == records[:4]
    spool.ack(3)
    assert spool.pending == 7
    assert spool.peek(2) == records[3:5]
    assert drain(spool) == records[3:]
    assert spool.pending == 0
    assert spool.peek(1) == []
    spool.close()


def test_a_drained_spool_takes_no_disk_and_goes_on(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    for number in range(3):
        assert spool.append(record(number))
        assert drain(spool) == [record(number)]
        assert (spool.size_bytes, files(tmp_path)) == (0, [])
    spool.close()
    again = Spool(tmp_path)
    assert again.pending == 0
    assert again.append(record(7))
    assert drain(again) == [record(7)]
    again.close()


def test_what_waits_outlives_the_process_and_what_is_done_does_not_come_again(tmp_path: Path) -> None:
    first = Spool(tmp_path)
    for number in range(5):
        first.append(record(number))
    first.ack(2)
    first.close()
    second = Spool(tmp_path)
    assert second.pending == 3
    second.append(record(5))
    assert [one.received_at for one in drain(second)] == [record(number).received_at for number in range(2, 6)]
    second.close()


@pytest.mark.parametrize("text", ["第一行\n第二行\r\n", "\ud83d lone \udc00", "\x00\u2028\u2029", '"\\', "群友👋" * 1000])
def test_any_text_survives(tmp_path: Path, text: str) -> None:
    first = Spool(tmp_path)
    first.append(record(1, text))
    first.close()
    second = Spool(tmp_path)
    assert second.peek(10) == [record(1, text)]
    second.close()


def test_a_full_spool_says_so_and_takes_again_after_it_was_read(tmp_path: Path) -> None:
    spool = Spool(tmp_path, max_bytes=4000)
    stored = 0
    while spool.append(record(stored, "x" * 100)):
        stored += 1
    assert 20 < stored < 40
    assert spool.size_bytes <= 4000
    assert sum(file.stat().st_size for file in files(tmp_path)) == spool.size_bytes
    assert spool.pending == stored
    spool.ack(stored // 2)
    assert spool.append(record(stored, "x" * 100))
    assert not spool.append(record(0, "x" * 5000))
    assert len(drain(spool)) == stored - stored // 2 + 1
    spool.close()


def test_a_torn_last_line_is_dropped_and_later_records_are_whole(tmp_path: Path) -> None:
    first = Spool(tmp_path)
    first.append(record(1))
    first.append(record(2))
    first.close()
    file = files(tmp_path)[-1]
    file.write_bytes(file.read_bytes()[:-7])
    second = Spool(tmp_path)
    assert second.pending == 1
    second.append(record(3))
    assert drain(second) == [record(1), record(3)]
    assert files(tmp_path) == []
    second.close()


def test_a_line_that_makes_no_sense_is_skipped(tmp_path: Path) -> None:
    first = Spool(tmp_path)
    first.append(record(1))
    first.append(record(2))
    first.close()
    file = files(tmp_path)[-1]
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"\xff\n" + lines[0] + b'{"a": 1}\n[1, 2]\n' + lines[1] + b"null\n")
    second = Spool(tmp_path)
    assert second.pending == 6
    assert second.peek(1) == [record(1)]
    second.ack(1)
    assert drain(second) == [record(2)]
    assert (second.pending, files(tmp_path)) == (0, [])
    second.close()


def test_a_spool_of_nonsense_only_empties_itself(tmp_path: Path) -> None:
    (tmp_path / "000000000003.jsonl").write_bytes(b"\xff\n\xfe\n")
    spool = Spool(tmp_path)
    assert spool.peek(10) == []
    assert (spool.pending, files(tmp_path)) == (0, [])
    spool.close()


def test_a_lost_or_broken_progress_repeats_but_loses_nothing(tmp_path: Path) -> None:
    first = Spool(tmp_path)
    for number in range(3):
        first.append(record(number))
    first.ack(2)
    first.close()
    (tmp_path / "done.json").write_bytes(b'{"segm')
    second = Spool(tmp_path)
    assert drain(second) == [record(0), record(1), record(2)]
    second.close()


def test_more_cannot_be_acknowledged_than_waits(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    spool.append(record(1))
    with pytest.raises(ValueError, match="only 1 records"):
        spool.ack(2)
    assert drain(spool) == [record(1)]
    spool.close()


def test_one_folder_belongs_to_one_process(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    with pytest.raises(SpoolProblem, match="正被另一个进程使用"):
        Spool(tmp_path)
    spool.close()
    Spool(tmp_path).close()


@pytest.mark.parametrize("fits", [0, 5])
def test_a_full_disk_leaves_the_records_before_it_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fits: int) -> None:
    class FullDisk(io.FileIO):
        def write(self, data: bytes, /) -> int:  # type: ignore[override]
            super().write(data[:fits])
            if not fits:
                raise OSError(errno.ENOSPC, "No space left on device")
            return fits

    spool = Spool(tmp_path)
    assert spool.append(record(1))
    spool.close()
    spool = Spool(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(io, "FileIO", FullDisk)
        assert not spool.append(record(2))
    assert spool.pending == 1
    spool.close()
    again = Spool(tmp_path)
    assert drain(again) == [record(1)]
    again.close()


WRITER = """
import sys
from pathlib import Path
from db.spool import Spool, SpoolRecord
spool = Spool(Path(sys.argv[1]), max_bytes=100_000_000)
number = 0
while True:
    spool.append(SpoolRecord(5000000011, float(number), "x" * (number % 977)))
    number += 1
    if number % 7 == 0:
        waiting = spool.peek(3)
        spool.ack(len(waiting))
        print(waiting[-1].received_at, number - 1, flush=True)
    if number == int(sys.argv[2]):
        sys.stdin.readline()
"""


@pytest.mark.parametrize("after", [70, 700, 7000])
def test_a_killed_process_loses_nothing(tmp_path: Path, after: int) -> None:
    command = [sys.executable, "-c", WRITER, str(tmp_path), str(after * 2)]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        line = ""
        for _ in range(after // 7):
            line = process.stdout.readline()
        process.send_signal(signal.SIGKILL)
        line = (process.stdout.read().strip().splitlines() or [line])[-1]
    done, written = (int(float(part)) for part in line.split())
    spool = Spool(tmp_path)
    numbers = [int(one.received_at) for one in drain(spool)]
    assert numbers == list(range(numbers[0], numbers[-1] + 1))
    assert done - 3 < numbers[0] <= done + 4
    assert numbers[-1] >= written
    spool.close()


steps = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.text(max_size=40)), st.tuples(st.sampled_from(["ack", "peek", "reopen"]), st.just(""))
    ),
    max_size=60,
)


@settings(max_examples=40, deadline=None)
@given(steps)
def test_it_behaves_like_a_list(actions: list[tuple[str, str]]) -> None:
    folder = Path(tempfile.mkdtemp(prefix="qunyou-spool-"))
    spool, model = Spool(folder, max_bytes=1000), list[SpoolRecord]()
    for number, (action, text) in enumerate(actions):
        if action == "append":
            one = SpoolRecord(number, float(number), json.dumps(text))
            if spool.append(one):
                model.append(one)
        elif action == "ack":
            spool.ack(min(2, len(model)))
            del model[:2]
        elif action == "reopen":
            spool.close()
            spool = Spool(folder, max_bytes=1000)
        else:
            assert spool.peek(3) == model[:3]
        assert spool.pending == len(model)
    assert drain(spool) == model
    spool.close()
    shutil.rmtree(folder)
