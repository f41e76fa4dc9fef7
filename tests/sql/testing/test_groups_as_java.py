"""SQL's groups, windows and tables say what Kafka Streams says, over the inputs of Java's answers that are checked in."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any

import pytest

from ottla.sql.testing import run_case
from tests.streams.java.goldens import read

HEAD = "CREATE {kind} T (K STRING {key}KEY, V BIGINT) WITH (KAFKA_TOPIC='in', VALUE_FORMAT='JSON', WRAP_SINGLE_VALUE=false);"
PLAIN = {
    "aggregations": {
        "count": "SELECT K, COUNT(*) AS C FROM T GROUP BY K",
        "reduce max": "SELECT K, MAX(V) AS C FROM T GROUP BY K",
        "reduce sum": "SELECT K, SUM(V) AS C FROM T GROUP BY K",
        "group_by and count": "SELECT CAST(V % 3 AS STRING) AS G, COUNT(*) AS C FROM T GROUP BY CAST(V % 3 AS STRING)",
    },
    "tables": {
        "table filter even of a stored table": "SELECT K, V AS C FROM T WHERE V % 2 = 0",
        "table filter_not even of a stored table": "SELECT K, V AS C FROM T WHERE V % 2 <> 0",
        "table map_values double of a stored table": "SELECT K, V * 2 AS C FROM T",
        "table group_by count": "SELECT CAST(V % 3 AS STRING) AS G, COUNT(*) AS C FROM T GROUP BY CAST(V % 3 AS STRING)",
        "table filter, group_by count": (
            "SELECT CAST(V % 3 AS STRING) AS G, COUNT(*) AS C FROM T WHERE V % 2 = 0 GROUP BY CAST(V % 3 AS STRING)"
        ),
    },
}
QUERIES = [
    pytest.param(group, queries[case["name"]], case, answer, id=case["name"])
    for group, queries in PLAIN.items()
    for case, answer in read(group)
    if case["name"] in queries
]
WINDOWS = [
    pytest.param(case, answer, id=case["name"])
    for case, answer in read("windows")
    if case["topology"][2].get("windows", {}).get("kind") in ("time", "session")
    and (case["name"].endswith(" count") or case["name"].endswith("emitted on close"))
]


def rows(query: str, kind: str, case: Mapping[str, Any]) -> list[Any]:
    """The results of a case's inputs."""
    key = "" if kind == "STREAM" else "PRIMARY "
    head = HEAD.format(kind=kind, key=key)
    inputs = [
        {"topic": "in", "key": each["key"], "value": each["value"], "timestamp": each["ts"]} for each in case["inputs"]
    ]
    return [each for each in run_case(f"{head} CREATE TABLE R AS {query};", inputs) if each.topic == "R"]


def number(text: str | None) -> int | None:
    """A LONG of Java's answers."""
    return None if text is None else struct.unpack(">q", text.encode("latin-1"))[0]


@pytest.mark.parametrize(("group", "query", "case", "answer"), QUERIES)
def test_groups_and_conditions_say_what_java_says(
    group: str, query: str, case: dict[str, Any], answer: dict[str, Any]
) -> None:
    found = rows(query, "STREAM" if group == "aggregations" else "TABLE", case)
    told = [[each.key, each.value and each.value["C"], each.timestamp] for each in found]
    assert told == [[key, number(value), time] for key, value, time, *_ in answer["outputs"]["out"]]


@pytest.mark.parametrize(("case", "answer"), WINDOWS)
def test_windows_say_what_java_says(case: dict[str, Any], answer: dict[str, Any]) -> None:
    step, aggregate = case["topology"][2], case["topology"][3]
    windows, kept = step["windows"], aggregate.get("retention")
    size = windows.get("gap") or windows["size"]
    words = [f"SIZE {size} MILLISECONDS"] if windows["kind"] == "time" else [f"{size} MILLISECONDS"]
    words += [f"ADVANCE BY {windows['advance']} MILLISECONDS"] if "advance" in windows else []
    words += [f"RETENTION {kept} MILLISECONDS"] if kept else []
    words += [f"GRACE PERIOD {windows.get('grace', 0)} MILLISECONDS"]
    name = "SESSION" if windows["kind"] == "session" else "HOPPING" if "advance" in windows else "TUMBLING"
    emit = "FINAL" if step.get("emit") == "close" else "CHANGES"
    # Java counts rows without a value in time windows, SQL has none: they get one here
    filled = {**case, "inputs": [{**each, "value": each["value"] or 0} for each in case["inputs"]]}
    query = f"SELECT K, COUNT(*) AS C FROM T WINDOW {name} ({', '.join(words)}) GROUP BY K EMIT {emit}"
    found = rows(query, "STREAM", filled)
    bounds = 16 if windows["kind"] == "session" else 8
    told = []
    for each in found:
        ends = struct.pack(">q", each.window.start)
        if bounds == 16:
            ends = struct.pack(">q", each.window.end) + ends
        told.append([each.key + ends.decode("latin-1"), each.value and each.value["C"], each.timestamp])
    out = answer["outputs"].get("out", [])
    if emit == "FINAL":  # Java's aggregate is a text here: which windows, and when
        assert [[key, time] for key, _, time in told] == [[key, time] for key, _, time, *_ in out]
    else:
        assert told == [[key, number(value), time] for key, value, time, *_ in out]
