"""Spark's own Kafka connector, to compare columns and speed with: its jars, resolved by Maven into a cache.

The cache is `$SPARK_CONNECTOR`, or `~/.cache/spark-kafka-connector`, outside the checkout. Not every Maven mirror has all of
them; what needs them skips with a line where they are absent.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

__all__ = ["cache", "fetch", "jars", "missing"]


def cache() -> Path:
    """Return the folder that holds (or will hold) the jars."""
    return Path(os.environ.get("SPARK_CONNECTOR", Path.home() / ".cache" / "spark-kafka-connector"))


def jars() -> str:
    """Return the jars as the value for `spark.jars`."""
    return ",".join(str(jar) for jar in sorted(cache().glob("*.jar")))


def missing() -> str | None:
    """Return one line that says why the connector cannot be used, or None where it can."""
    if (cache() / ".complete").exists():
        return None
    return "Spark's Kafka connector is absent: `python -m tests.spark_connector` fetches its jars with Maven"


def fetch() -> str | None:
    """Resolve the jars once; returns one line that says why they could not be, or None."""
    if missing() is None:
        return None
    if shutil.which("mvn") is None:
        return "Maven is not installed, and it resolves the jars"
    cache().mkdir(parents=True, exist_ok=True)
    pom = Path(__file__).with_name("pom.xml")
    done = subprocess.run(
        ["mvn", "-q", "-B", "-f", str(pom), "dependency:copy-dependencies", f"-DoutputDirectory={cache()}"],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        lines = (done.stdout + done.stderr).strip().splitlines()
        return lines[0] if lines else "Maven failed"
    (cache() / ".complete").touch()
    return None
