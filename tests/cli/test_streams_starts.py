"""`ottla streams run` before Spark is there: what is missing is told first, and a signal does not wait for Spark."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ottla.client import BlockingClient
from ottla.spark.sessions import LOG_CONFIGURATION, logging_options
from tests.server import running_server
from tests.spark.conftest import create_topic
from tests.waiting import until

APPLICATION = """
from ottla.streams import StreamsBuilder

builder = StreamsBuilder(default_key_serde="string", default_value_serde="string")
builder.stream("lines").to("out")
"""
JAVA = """#!/bin/sh
touch {began}
exec cat >/dev/null
"""
"""A Java that says by its `release` file which it is, and never gets anywhere: until its standard input ends."""


@pytest.fixture
def began(tmp_path: Path) -> Path:
    """Make a Java that never starts; returns the file that is there once it was asked to."""
    began, home = tmp_path / "began", tmp_path / "java"
    (home / "bin").mkdir(parents=True)
    (home / "release").write_text('JAVA_VERSION="17.0.15"\n')
    program = home / "bin" / "java"
    program.write_text(JAVA.format(began=began))
    program.chmod(0o755)
    return began


def run(folder: Path, bootstrap: str) -> subprocess.Popen[str]:
    (folder / "app.py").write_text(APPLICATION)
    command = [sys.executable, "-u", "-m", "ottla.cli.main", "streams", "run", str(folder / "app.py")]
    return subprocess.Popen(
        [*command, "--bootstrap-server", bootstrap],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={
            **os.environ,
            "JAVA_HOME": str(folder / "java"),
            "XDG_STATE_HOME": str(folder / "state"),
            "OTTLA_CLASS_ARCHIVES": "off",
        },
    )


def test_a_topic_that_is_missing_is_told_before_spark_starts(tmp_path: Path, began: Path) -> None:
    with running_server(tmp_path) as server:
        process = run(tmp_path, server.bootstrap)
        said = process.communicate(timeout=120)[0]
    assert process.returncode == 1 and "Missing source topics: lines" in said, said
    assert "ottla topics --create --topic lines" in said
    assert not began.exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_an_application_whose_spark_never_starts(tmp_path: Path, began: Path, number: int) -> None:
    with running_server(tmp_path) as server:
        with BlockingClient(server.bootstrap) as client:
            for topic in ("lines", "out"):
                create_topic(client, topic, 1)
        process = run(tmp_path, server.bootstrap)
        try:
            until(began.exists)
            process.send_signal(number)
            said = process.communicate(timeout=120)[0]
        finally:
            process.kill()
    assert process.returncode == 128 + number, said
    assert "stopped before it had started" in said and "Traceback" not in said


def test_log4j_is_told_of_our_configuration_unless_somebody_has_one(tmp_path: Path) -> None:
    assert logging_options("", {}) == [f"-Dlog4j2.configurationFile={LOG_CONFIGURATION}"] and LOG_CONFIGURATION.exists()
    assert logging_options("-Dlog4j2.configurationFile=/etc/mine", {}) == []
    assert logging_options("", {"SPARK_CONF_DIR": str(tmp_path)}) != []
    (tmp_path / "log4j2.properties").touch()
    assert logging_options("", {"SPARK_CONF_DIR": str(tmp_path)}) == []
