"""The scheduled upkeep: it comes soon after a start, and is not skipped by a machine that slept."""

from __future__ import annotations

import subprocess
import sys

import pytest

from settings import ROOT

# NoneBot is one for a process: it is asked in a process of its own.
ASK = """
from datetime import UTC, datetime
import nonebot
nonebot.init(driver="~fastapi", log_level="ERROR")
nonebot.load_plugin("plugins.schedule.schedule")
from nonebot_plugin_apscheduler import scheduler
jobs = {job.id: job for job in scheduler.get_jobs()}
soon = int((jobs["upkeep"].next_run_time - datetime.now(UTC)).total_seconds())
print(sorted((name, job.misfire_grace_time) for name, job in jobs.items()), soon, sep=";")
"""


ASK_LEARNER = """
import asyncio, sys
import nonebot
from plugins import runtime
from plugins.admin.token import AdminToken
from settings import load_settings
runtime.configure(load_settings({"learner_seconds": sys.argv[1]}), AdminToken("t", False))
nonebot.init(driver="~fastapi", log_level="ERROR")
nonebot.load_plugin("plugins.schedule.schedule")
from nonebot_plugin_apscheduler import scheduler
from plugins.schedule.schedule import schedule_learner
asyncio.run(schedule_learner())
job = scheduler.get_job("learner")
print(job and int(job.trigger.interval.total_seconds()))
"""


@pytest.mark.parametrize(("seconds", "told"), [("45", "45"), ("0", "None")])
def test_the_learner_looks_as_often_as_the_settings_say(seconds: str, told: str) -> None:
    command = [sys.executable, "-c", ASK_LEARNER, seconds]
    answer = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert answer.stdout.splitlines()[-1:] == [told], answer.stderr[-2000:]


def test_upkeep_runs_soon_after_a_start_and_is_never_skipped() -> None:
    told = subprocess.run([sys.executable, "-c", ASK], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True)
    jobs, seconds = told.stdout.splitlines()[-1].split(";")
    assert jobs == "[('indexes', None), ('members', None), ('search', None), ('terms', None), ('upkeep', None)]"
    assert 0 < int(seconds) <= 600
