"""Spark's settings where a session runs nothing but hosts: a small JVM, and Python that is there when a host starts."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["hosts_settings"]

_SETTINGS: Mapping[str, str] = {
    "spark.sql.shuffle.partitions": "1",
    "spark.default.parallelism": "1",
    # A host that Spark starts again by itself would run beside what the service knows of; the service restarts hosts.
    "spark.task.maxFailures": "1",
    "spark.speculation": "false",
    "spark.python.task.killTimeout": "1s",
    "spark.standalone.executorRemoveDelayOnDisconnection": "1s",
    "spark.driver.memory": "512m",
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:-UsePerfData -XX:TieredStopAtLevel=1 -Xss4m",
}
_OWN_DAEMON = "ottla.spark.continuous.daemon"


def hosts_settings(master: str) -> dict[str, str]:
    """Return the settings of a session for hosts on this master."""
    found = dict(_SETTINGS)
    if master.startswith("local"):
        found["spark.python.daemon.module"] = _OWN_DAEMON
    return found
