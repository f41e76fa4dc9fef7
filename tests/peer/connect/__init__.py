"""Apache Kafka Connect's own converters, transformations and validation, in one JVM that answers line by line."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests import peer

__all__ = ["oracle"]


@contextmanager
def oracle(source: str = "ConnectOracle.java") -> Iterator[Callable[[dict[str, Any]], Any]]:
    """Start the JVM; yields a function from one question to its answer (see `ConnectOracle.java`, `GroupOracle.java`)."""
    flags = ["-Xmx512m", "-XX:TieredStopAtLevel=1", "-Duser.timezone=UTC", "-Duser.language=en", "-Duser.country=US"]
    level = "-Dorg.slf4j.simpleLogger.defaultLogLevel=off"
    command = ["java", *flags, level, *peer.program(Path(__file__).with_name(source))]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, encoding="utf-8"
    )
    assert process.stdin is not None and process.stdout is not None

    def ask(question: dict[str, Any]) -> Any:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(json.dumps(question) + "\n")
        process.stdin.flush()
        answer = process.stdout.readline()
        assert answer, f"the oracle's JVM has ended, with exit code {process.wait(10)}"
        return json.loads(answer)

    try:
        yield ask
    finally:
        process.stdin.close()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
