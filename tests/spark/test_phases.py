"""What begins slowly says so: after a while, again and again, where a person looks, and never on standard output."""

from __future__ import annotations

import logging
import subprocess
import sys
import threading

import pytest

from ottla.spark import phases_told_by
from ottla.spark.phases import phase
from tests.waiting import until

SLOW = """
import threading, time
from ottla.spark.phases import phase

real, said = time.monotonic, threading.Event()

def now():
    if threading.current_thread() is not threading.main_thread():
        said.set()
    return real()

time.monotonic = now
with phase("starting", quiet_s=0, again_s=60):
    assert said.wait(30)
print("result")
"""
"""A phase that says something, and then a result."""


def test_a_phase_says_what_it_does_and_for_how_long_again_and_again() -> None:
    said: list[str] = []
    twice = threading.Event()

    def say(words: str) -> None:
        said.append(words)
        if len(said) == 2:
            twice.set()

    with phases_told_by(say), phase("starting Spark's JVM (2 of 3)", quiet_s=0, again_s=0.001):
        assert twice.wait(30)
    assert said[0] == "starting Spark's JVM (2 of 3) … 0 s"
    told = len(said)
    with phase("told to nobody who has gone", quiet_s=60):
        pass
    assert len(said) == told


def test_a_quick_phase_says_nothing_and_an_error_goes_through() -> None:
    said: list[str] = []
    with phases_told_by(said.append):
        with pytest.raises(ValueError, match="no Java"), phase("starting", quiet_s=60):
            raise ValueError("no Java")
        with phase("importing", quiet_s=60):
            pass
    assert said == []


@pytest.mark.parametrize("has_log", [True, False])
def test_a_process_with_a_log_has_it_there_and_one_without_on_standard_error(
    has_log: bool, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.INFO, "ottla.spark.phases")
    if not has_log:
        monkeypatch.setattr(logging.getLogger(), "handlers", [])
    out, err = "", ""

    def is_said() -> bool:
        nonlocal out, err
        found = capsys.readouterr()
        out, err = out + found.out, err + found.err
        return "Spark's SQL (3 of 3) … 0 s" in (caplog.text if has_log else err)

    with phase("loading Spark's SQL (3 of 3)", quiet_s=0, again_s=60):
        until(is_said)
    assert out == "" and (err == "") == has_log


def test_a_process_without_standard_error_says_nothing_on_standard_output() -> None:
    command = ["sh", "-c", 'exec "$0" -c "$1" 2>&-', sys.executable, SLOW]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "result\n"
