"""`ottla sql test --suite --engine spark`: a sample of cases gives what Python's engine gives, record by record."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.sql.testing.test_groups_as_java import HEAD, QUERIES
from tests.sql.testing.test_joins_as_java import NAMES, statements
from tests.streams.java.cases import cases

SAMPLE = 200
SAMPLE_OF_EVERY_RUN = 40
"""Those of its own with each format, refused ones among them, and the others in longer steps."""
FIRST_SEED = 500
HEAD_OF_FORMAT = (
    "CREATE STREAM S (K STRING KEY, V BIGINT, D DECIMAL(6, 2)) WITH (KAFKA_TOPIC='in', VALUE_FORMAT='{format}');"
)
FORMATS = ("AVRO", "JSON_SR", "PROTOBUF")
OTHERS = {
    "explode": "CREATE STREAM R AS SELECT K, EXPLODE(ARRAY[V, V + 1]) AS X FROM S;",
    "final": "CREATE TABLE R AS SELECT K, COUNT(*) AS N FROM S WINDOW TUMBLING (SIZE 10 SECONDS, GRACE PERIOD 1 SECOND) "
    "GROUP BY K EMIT FINAL;",
    "lost": "CREATE STREAM R AS SELECT K, 10 / (V - 3) AS X FROM S;",
    "overflow": "CREATE TABLE R AS SELECT K, SUM(D * 9999) AS X FROM S GROUP BY K;",
    "refused": "CREATE STREAM R AS SELECT NOTHING FROM S;",
    "stands on another": "CREATE STREAM Q AS SELECT K, V, D FROM S WHERE V > 1 PARTITION BY K; "
    "CREATE TABLE R AS SELECT V, SUM(D) AS X FROM Q GROUP BY V;",
}
INPUTS = [
    {"topic": "in", "key": key, "value": {"V": value, "D": f"{value}.25"}, "timestamp": 1000 * value}
    for value, key in enumerate("abacbdaaxbbc")
]


def given() -> Iterator[tuple[str, str, Iterable[Mapping[str, Any]]]]:
    """A case's name, statements and input; the same ones each time."""
    for format_ in FORMATS:
        for name, text in OTHERS.items():
            yield f"{format_} {name}", f"{HEAD_OF_FORMAT.format(format=format_)} {text}", INPUTS
    for parameters in QUERIES:
        group, query, case, _ = parameters.values
        kind = "STREAM" if group == "aggregations" else "TABLE"
        head = HEAD.format(kind=kind, key="" if kind == "STREAM" else "PRIMARY ")
        inputs = [
            {"topic": "in", "key": each["key"], "value": each["value"], "timestamp": each["ts"]}
            for each in case["inputs"]
        ]
        yield case["name"], f"{head} CREATE TABLE R AS {query};", inputs
    for group, names in NAMES.items():
        for case in cases(group, seeds=8, first=FIRST_SEED, count=120):
            if case["name"] in names:
                inputs = [{**each, "timestamp": each["ts"]} for each in case["inputs"]]
                yield f"{case['name']} {case['seed']}", statements(group, case), inputs


def suite(folder: Path, sample: int) -> int:
    """Write a sample of so many cases, all of this file's own among them; returns how many it has."""
    every = list(given())
    own = len(FORMATS) * len(OTHERS)
    step = (len(every) - own) / (sample - own)
    assert step >= 1, f"there are {len(every)} cases"
    chosen = every[:own] + [every[own + int(number * step)] for number in range(sample - own)]
    for number, (name, text, inputs) in enumerate(chosen):
        case = folder / f"{number:03} {name.replace('/', ' ')}"
        case.mkdir(parents=True)
        (case / "statements.sql").write_text(text)
        (case / "input.json").write_text(json.dumps({"inputs": list(inputs)}))
    return len(chosen)


def lines(folder: Path, engine: str) -> list[dict[str, Any]]:
    command = [sys.executable, "-m", "ottla.cli.main", "sql", "test", "--suite", str(folder), "--engine", engine]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.spark
@pytest.mark.parametrize("sample", [SAMPLE_OF_EVERY_RUN, pytest.param(SAMPLE, marks=pytest.mark.slow)])
def test_a_sample_of_cases_gives_the_same_records_in_sparks_tasks(tmp_path: Path, sample: int) -> None:
    assert suite(tmp_path, sample) == sample
    python, spark = lines(tmp_path, "python"), lines(tmp_path, "spark")
    assert {each["status"] for each in python} == {"done", "refused"}
    assert [each["case"] for each in spark] == [each["case"] for each in python]
    differing = [(one, other) for one, other in zip(python, spark, strict=True) if one != other]
    assert not differing, differing[0]
