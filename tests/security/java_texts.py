"""Kafka's and Java's own reading of names, rules and JAAS texts (`tests/peer/SecurityTexts.java`)."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests import peer
from tests.processes import end

__all__ = ["JavaTexts", "running"]

SOURCE = Path(peer.__file__).with_name("SecurityTexts.java")


class JavaTexts:
    """A JVM that answers."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def found(self, what: str, text: str, rules: object = None) -> Any:
        """Return what Java finds, or None where it refuses."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps({"what": what, "text": text, "rules": rules}) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline()).get("found")


@contextmanager
def running() -> Iterator[JavaTexts]:
    """Start the JVM, and end it with the block."""
    command = ["java", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.defaultLogLevel=off"]
    command += peer.program(SOURCE)
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8")
    try:
        yield JavaTexts(process)
    finally:
        end(process, 10)
