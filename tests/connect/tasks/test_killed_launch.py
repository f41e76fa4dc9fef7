"""What is killed before it answers is followed by another: a worker without Spark would fail every task for ever."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.slow]

ROOT = Path(__file__).parents[3]
SCRIPT = """
import os, signal, sys, threading, time
from ottla.spark import SparkJobs
from tests.processes import below, command_of

def kill_the_first():
    while not (found := [pid for pid in below(os.getpid()) - {os.getpid()} if sys.argv[1] in command_of(pid)]):
        time.sleep(0.01)
    os.kill(found[0], signal.SIGKILL)

threading.Thread(target=kill_the_first).start()
jobs = SparkJobs({"tasks.slots": "2"})
jobs.start()
print(jobs.spark.sparkContext.parallelize([1, 2]).sum())
jobs.stop()
"""


@pytest.mark.parametrize(
    "whom",
    ["spark.deploy", "spark.launcher.Main", "-m ottla.spark.connect.daemon", "ottla.spark.fork_server"],
    ids=["jvm", "launcher", "python", "fork-server"],
)
def test_a_session_of_which_a_process_is_killed_while_it_starts_is_started_again(whom: str, tmp_path: Path) -> None:
    script = tmp_path / "start.py"
    script.write_text(SCRIPT)
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    ran = subprocess.run(
        [sys.executable, str(script), whom],
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
        env={**os.environ, "PYTHONPATH": path},
    )
    assert ran.stdout == "3\n", ran.stderr
