"""Debezium's own connectors, from Maven Central: their jars, and a worker of Apache Kafka Connect that runs them."""

from __future__ import annotations

import http.client
import json
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from tests import peer

__all__ = ["create", "missing", "plugins"]

FETCH_SECONDS_MAX = 300
POSTGRES, MARIADB = "pom.xml", "mariadb.xml"
"""Which connector: the file that says what Maven fetches."""


def missing(pom: str = POSTGRES) -> str | None:
    """Return one line that says why Debezium cannot run here, None where it can; fetches its jars first, 12 MB."""
    if reason := peer.missing():
        return reason
    try:
        plugins(pom)
    except (FileNotFoundError, subprocess.SubprocessError) as error:
        return f"Debezium is absent: Maven cannot fetch it ({error})"
    return None


def plugins(pom: str = POSTGRES) -> Path:
    """Return the folder of plugins with Debezium's in it, resolved once.

    Raises FileNotFoundError without Maven, CalledProcessError or TimeoutExpired where it fails.
    """
    folder, path = peer.cache() / ("debezium" if pom == POSTGRES else "debezium-mariadb"), Path(__file__).with_name(pom)
    mark = folder / ".complete"
    if not mark.exists() or mark.read_text() != path.read_text():
        if shutil.which("mvn") is None:
            raise FileNotFoundError("no mvn on PATH")
        shutil.rmtree(folder, ignore_errors=True)
        command = ["mvn", "-q", "-B", "-f", str(path), "dependency:copy-dependencies", "-DincludeScope=runtime"]
        command.append(f"-DoutputDirectory={folder / 'debezium'}")
        subprocess.run(command, check=True, timeout=FETCH_SECONDS_MAX, capture_output=True)
        mark.write_text(path.read_text())
    return folder


def create(port: int, name: str, config: Mapping[str, str]) -> None:
    """Create a connector at a worker of Kafka's; raises RuntimeError with its words where it refuses."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=90)
    body = json.dumps({"name": name, "config": dict(config)})
    connection.request("POST", "/connectors", body, {"Content-Type": "application/json"})
    answer = connection.getresponse()
    words = answer.read().decode()
    if answer.status != 201:
        raise RuntimeError(f"Connector {name} is refused: {words}")
