"""Clients in other languages and of other times, built once into a cache outside the checkout.

The cache is `$OTTLA_COMPAT`, or `~/.cache/ottla-compat`.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import peer

__all__ = [
    "OLD_LIBRDKAFKA",
    "build_franz_go",
    "build_go_registry",
    "build_kafkajs",
    "build_node_registry",
    "build_old_librdkafka",
    "java_command",
    "kcat",
    "kcat_command",
    "read_java",
    "read_kcat",
]

HERE = Path(__file__).resolve().parent
BUILD_SECONDS_MAX = 300
OLD_LIBRDKAFKA = "2.8.2"
"""A release of confluent-kafka whose librdkafka still asks for Produce 0 before it compresses."""
KCAT_REBALANCED = re.compile(r"rebalanced \(.*\): (assigned|revoked): ?(.*)")


def cache() -> Path:
    """Return the folder that holds what was built."""
    folder = Path(os.environ.get("OTTLA_COMPAT", Path.home() / ".cache" / "ottla-compat"))
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def build_franz_go() -> Path:
    """Return franz-go's member as a program; skips where Go or its modules are not to be had."""
    return _build_go("go", "franz-go")


def build_go_registry() -> Path:
    """Return Go's clients of schema registries as a program; skips as `build_franz_go`."""
    return _build_go("go_registry", "go-registry")


def _build_go(folder: str, name: str) -> Path:
    if shutil.which("go") is None:
        pytest.skip(f"{name} is absent: no go on PATH")
    program = cache() / name
    built = subprocess.run(
        ["go", "build", "-o", str(program), "."],
        cwd=HERE / folder,
        capture_output=True,
        text=True,
        timeout=BUILD_SECONDS_MAX,
        check=False,
    )
    if built.returncode:
        pytest.skip(f"{name} cannot be built here: {built.stderr.strip().splitlines()[-1]}")
    return program


def build_kafkajs() -> Path:
    """Return the folder with kafkajs and its member; skips where Node or the package is not to be had."""
    return _install_node("node", "member.js", "kafkajs")


def build_node_registry() -> Path:
    """Return the folder with npm's clients of schema registries; skips as `build_kafkajs`."""
    return _install_node("node_registry", "registry.js", "@confluentinc/schemaregistry")


def _install_node(given: str, program: str, package: str) -> Path:
    if shutil.which("npm") is None or shutil.which("node") is None:
        pytest.skip(f"{package} is absent: no node and npm on PATH")
    folder = cache() / ("kafkajs" if given == "node" else given)
    folder.mkdir(exist_ok=True)
    for name in ("package.json", program):
        shutil.copy(HERE / given / name, folder)
    if not (folder / "node_modules" / package).exists():
        installed = subprocess.run(
            ["npm", "install", "--no-package-lock", "--no-audit", "--no-fund", "--silent"],
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=BUILD_SECONDS_MAX,
            check=False,
        )
        if installed.returncode:
            pytest.skip(f"{package} cannot be installed here: npm failed")
    return folder


def build_old_librdkafka() -> Path:
    """Return a Python with confluent-kafka of OLD_LIBRDKAFKA and nothing else; skips where pip cannot install it."""
    folder = cache() / f"confluent-kafka-{OLD_LIBRDKAFKA}-python{sys.version_info[0]}.{sys.version_info[1]}"
    python = folder / "bin" / "python"
    asks = [str(python), "-c", "import confluent_kafka; print(confluent_kafka.__version__)"]
    if python.exists() and subprocess.run(asks, capture_output=True, check=False).returncode == 0:
        return python
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--retries", "1"]
    pip += ["--only-binary", ":all:"]
    for command in (
        [sys.executable, "-m", "venv", "--clear", str(folder)],
        [*pip, f"confluent-kafka=={OLD_LIBRDKAFKA}"],
    ):
        built = subprocess.run(command, capture_output=True, text=True, timeout=BUILD_SECONDS_MAX, check=False)
        if built.returncode:
            said = (built.stderr.strip() or built.stdout.strip() or "no reason given").splitlines()[-1]
            pytest.skip(f"confluent-kafka {OLD_LIBRDKAFKA} cannot be installed here: {said}")
    return python


# -- kcat (Debian's package)


def kcat() -> str:
    """Return kcat's path; skips where it is not installed."""
    found = shutil.which("kcat") or shutil.which("kafkacat")
    if found is None:
        pytest.skip("kcat is absent (Debian, Ubuntu: apt-get install kcat)")
    return found


def kcat_command(bootstrap: str, topic: str, group: str) -> list[str]:
    """Return the command line of kcat as a member of a group."""
    settings = ["session.timeout.ms=3000", "heartbeat.interval.ms=300", "auto.commit.interval.ms=100"]
    options = [each for setting in (*settings, "auto.offset.reset=earliest") for each in ("-X", setting)]
    line = '{"record": [%p, %o, "%s"]}\n'
    return [kcat(), "-b", bootstrap, "-G", group, *options, "-u", "-f", line, topic]


def read_kcat(line: str) -> Iterator[dict[str, Any]]:
    """Read a line of kcat: a record as formatted above, or what it says of a rebalance."""
    import json

    if line.startswith("{"):
        yield json.loads(line)
    elif (found := KCAT_REBALANCED.search(line)) is not None:
        given = [int(each) for each in re.findall(r"\[(\d+)\]", found[2])]
        yield {"assigned": sorted(given) if found[1] == "assigned" else []}


# -- Kafka's VerifiableConsumer (Java)


def java_command(protocol: str) -> Any:
    """Return how Kafka's VerifiableConsumer is started with a group protocol, `classic` or `consumer`."""

    def command(bootstrap: str, topic: str, group: str) -> list[str]:
        options = ["--bootstrap-server", bootstrap, "--topic", topic, "--group-id", group, "--verbose"]
        options += ["--reset-policy", "earliest", "--group-protocol", protocol]
        if protocol == "classic":
            options += ["--session-timeout", "6000"]
        return peer.tool_command("verifiable-consumer", *options)

    return command


def read_java() -> Any:
    """Return a reader of one VerifiableConsumer's JSON lines; partitions come and go in increments."""
    import json

    owned: set[int] = set()

    def read(line: str) -> Iterator[dict[str, Any]]:
        if not line.startswith("{"):
            return
        event = json.loads(line)
        match event["name"]:
            case "partitions_assigned":
                owned.update(each["partition"] for each in event["partitions"])
                yield {"assigned": sorted(owned)}
            case "partitions_revoked" | "partitions_lost":
                owned.difference_update(each["partition"] for each in event["partitions"])
                yield {"assigned": sorted(owned)}
            case "record_data":
                yield {"record": [event["partition"], event["offset"], event["value"]]}

    return read
