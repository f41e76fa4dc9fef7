"""Topologies have Kafka Streams' names, numbers and order: `describe()` prints what Java prints, letter by letter.

`described.txt` holds Java's texts; `python -m tests.streams.dsl` writes it anew with the peer.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from ottla.streams import StreamsBuilder
from tests.peer.streams import program
from tests.streams.dsl.topologies import OPTIMIZED, PLANS, made

DESCRIBED = Path(__file__).with_name("described.txt")
NAMES = [*PLANS, *(f"optimized-{name}" for name in OPTIMIZED), "topology-builder"]
_HEAD = "=== "


def java_texts() -> dict[str, str]:
    """Return what Java describes now."""
    flags = ["-XX:TieredStopAtLevel=1", "-Xmx256m", "-Dorg.slf4j.simpleLogger.defaultLogLevel=off"]
    command = ["java", *flags, *program("Describe")]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    found: dict[str, str] = json.loads(done.stdout)
    return found


def written_texts() -> dict[str, str]:
    """Return what Java described when `described.txt` was written."""
    parts = DESCRIBED.read_text().split(_HEAD)[1:]
    return {name: text.removesuffix("\n") for name, text in (part.split("\n", 1) for part in parts)}


def write(texts: dict[str, str]) -> None:
    DESCRIBED.write_text("".join(f"{_HEAD}{name}\n{text}\n" for name, text in texts.items()))


@pytest.mark.parametrize("name", NAMES)
def test_a_topology_is_described_as_java_describes_it(name: str) -> None:
    assert made(name).describe() == written_texts()[name]


def test_every_topology_of_java_is_made_here_too() -> None:
    assert set(written_texts()) == set(NAMES)


@pytest.mark.peer
@pytest.mark.slow  # a JVM for what changes only with Kafka's version: with `make compat`
def test_the_written_descriptions_are_javas() -> None:
    assert java_texts() == written_texts()


def test_a_plan_can_be_built_twice() -> None:
    builder = StreamsBuilder(default_key_serde="string", default_value_serde="string")
    PLANS["same-topic-twice"](builder)
    PLANS["table"](other := StreamsBuilder(default_key_serde="string", default_value_serde="string"))
    assert builder.build().describe() == builder.build().describe()
    assert other.build() == other.build()
