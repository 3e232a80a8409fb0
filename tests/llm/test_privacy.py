"""What people say goes to the model's service and nowhere else."""

from __future__ import annotations

import os
import subprocess
import sys

from settings import ROOT

ASK = """
import agent.graph
import llm.client
from langsmith.utils import tracing_is_enabled
print(tracing_is_enabled())
"""


def test_no_tracing_service_hears_along_whatever_the_machine_is_set_to() -> None:
    names = ("LANGSMITH_TRACING", "LANGCHAIN_TRACING", "LANGSMITH_TRACING_V2", "LANGCHAIN_TRACING_V2")
    told = subprocess.run(
        [sys.executable, "-c", ASK],
        cwd=ROOT,
        env=os.environ | dict.fromkeys(names, "true"),
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert told.stdout.strip() == "False"
