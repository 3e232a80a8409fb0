"""Who uses the embedded server: processes that live, under the pid and time of birth they had."""

from __future__ import annotations

import os
from pathlib import Path

from db.handles import HandleFile


def test_handles_of_dead_processes_and_reused_pids_are_dropped(tmp_path: Path) -> None:
    handles = HandleFile(tmp_path / "handles.json")
    own = handles.add()
    dead = '{"pid": 4194304, "created": 1.0, "token": "dead"}'
    reused = f'{{"pid": {os.getpid()}, "created": 12.0, "token": "reused"}}'
    text = (tmp_path / "handles.json").read_text()
    (tmp_path / "handles.json").write_text(f"{text[:-1]},{dead},{reused}]")
    assert handles.live() == [own]
    assert handles.remove(own) == []


def test_a_broken_handle_file_counts_as_empty(tmp_path: Path) -> None:
    (tmp_path / "handles.json").write_text('[{"pid": 12')
    assert HandleFile(tmp_path / "handles.json").live() == []
