"""`make demo-console` leaves nothing behind when a part of it does not start, or a signal comes while it starts."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.waiting import until

TOOL = Path(__file__).resolve().parents[2] / "tools" / "demo_console.py"
STARTS = """
import importlib.util, sys
spec = importlib.util.spec_from_file_location("demo_console", sys.argv[1])
demo = importlib.util.module_from_spec(spec)
spec.loader.exec_module(demo)
import signal
signal.signal(signal.SIGTERM, demo.leave)
demo.READY_SECONDS_MAX = float(sys.argv[2])
sys.executable = sys.argv[3]
demo.started("registry", ready="ready ")
"""
PART = """#!/bin/sh
sleep 1000 &
echo $$ $! > {told}.new
mv {told}.new {told}
wait
"""
"""A part that never gets ready, with a process of its own."""


def gone(number: int) -> bool:
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return True
    return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0] == "Z"


@pytest.mark.parametrize("told_to_end", [False, True])
def test_a_part_that_does_not_start_is_ended_with_what_it_has_started(tmp_path: Path, told_to_end: bool) -> None:
    part, told = tmp_path / "part", tmp_path / "told"
    part.write_text(PART.format(told=told))
    part.chmod(0o755)
    patience = "600" if told_to_end else "0.5"
    demo = subprocess.Popen(
        [sys.executable, "-c", STARTS, str(TOOL), patience, str(part)], stderr=subprocess.PIPE, text=True
    )
    until(told.exists)
    if told_to_end:
        demo.send_signal(signal.SIGTERM)
    said = demo.communicate(timeout=60)[1]
    assert demo.returncode == (128 + signal.SIGTERM if told_to_end else 1), said
    for number in map(int, told.read_text().split()):
        until(lambda number=number: gone(number), f"process {number} is gone")
