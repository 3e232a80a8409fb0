"""The scheduled upkeep: it comes soon after a start, and is not skipped by a machine that slept."""

from __future__ import annotations

import subprocess
import sys

from settings import ROOT

# NoneBot is one for a process: it is asked in a process of its own.
ASK = """
from datetime import UTC, datetime
import nonebot
nonebot.init(driver="~fastapi", log_level="ERROR")
nonebot.load_plugin("plugins.schedule.schedule")
from nonebot_plugin_apscheduler import scheduler
[job] = scheduler.get_jobs()
print(job.id, job.misfire_grace_time, int((job.next_run_time - datetime.now(UTC)).total_seconds()))
"""


def test_upkeep_runs_soon_after_a_start_and_is_never_skipped() -> None:
    told = subprocess.run([sys.executable, "-c", ASK], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True)
    job, grace, seconds = told.stdout.split()
    assert (job, grace) == ("upkeep", "None")
    assert 0 < int(seconds) <= 600
