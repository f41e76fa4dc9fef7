"""Kafka Streams' own answers: topologies described as JSON, run by Java's TopologyTestDriver, one JVM for many cases.

A case is a dictionary: `topology`, a list of DSL calls, each with `op`, `of` (what it is called on), `id` (what its result
is called) and the call's parameters; `inputs`, each a record (`topic`, `key`, `value`, `ts`, perhaps `headers`) or an
`advance` of the wall clock in milliseconds; and `settings` of Kafka's names. `Plans.java` knows every call, `Functions.java`
and `functions.py` every named function. What an answer holds stands in `Oracle.java`.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests import peer

__all__ = ["Answer", "Case", "answers", "program"]

Case = dict[str, Any]
Answer = dict[str, Any]

_HERE = Path(__file__).parent
_SECONDS_PER_CASE = 5


def answers(cases: Sequence[Case]) -> list[Answer]:
    """Return what Kafka Streams makes of each case; raises RuntimeError where the JVM ends early."""
    flags = ["-XX:TieredStopAtLevel=1", "-Xmx512m", "-Dorg.slf4j.simpleLogger.defaultLogLevel=off"]
    lines = "".join(json.dumps(each) + "\n" for each in cases)
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            ["java", *flags, *program("Oracle"), folder],
            input=lines,
            capture_output=True,
            encoding="utf-8",
            check=False,
            timeout=60 + _SECONDS_PER_CASE * len(cases),
        )
    results = [json.loads(line) for line in done.stdout.split("\n") if line]
    if len(results) != len(cases):
        raise RuntimeError(f"Kafka Streams answered {len(results)} of {len(cases)} cases:\n{done.stderr[-2000:]}")
    return results


def program(main: str) -> list[str]:
    """Return what ends a command of Java that runs one of the programs here: `Oracle`, or `Describe`."""
    return peer.program(_HERE / f"{main}.java", *_HERE.glob("*.java"))
