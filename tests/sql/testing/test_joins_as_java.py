"""SQL's joins say what Kafka Streams says: over the inputs of Java's answers that are checked in, and of new seeds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from ottla.sql.testing import run_case
from tests.peer import streams
from tests.streams.java.cases import cases
from tests.streams.java.goldens import read

WORDS = {"join": "JOIN", "left_join": "LEFT JOIN", "outer_join": "FULL OUTER JOIN"}
FORMATS = "KEY_FORMAT='KAFKA', VALUE_FORMAT='JSON', WRAP_SINGLE_VALUE='false'"
FOREIGN = "NULLIF(SPLIT({}.V, '|')[1], '')"
WINDOWS = (
    *("even", "even without grace", "only before", "only after", "uneven", "nearly none", "by the old rule"),
    "by the old rule, uneven",
)
NAMES = {
    "stream_stream_joins": (
        *(f"stream-stream {kind}, {window}" for kind in WORDS for window in WINDOWS),
        *(f"stream-stream {kind}, then another" for kind in ("join", "left_join")),
        *(f"stream-stream {kind} by another key" for kind in WORDS),
    ),
    "stream_table_joins": tuple(
        f"stream-table {kind}{by}" for kind in ("join", "left_join") for by in ("", " by another key")
    ),
    "table_table_joins": tuple(f"table-table {kind}{more}" for kind in WORDS for more in ("", ", then another")),
    "foreign_key_joins": ("fk_join", "fk_left_join"),
}
CASES = [
    pytest.param(group, case, answer, id=case["name"])
    for group, names in NAMES.items()
    for case, answer in read(group)
    if case["name"] in names
]


def statements(group: str, case: Mapping[str, Any]) -> str:
    """The statements that say what a case's topology does."""
    sources = [(step["op"].upper(), step["topic"].upper()) for step in case["topology"] if "topic" in step]
    sources = [(kind, topic) for kind, topic in sources if kind in ("STREAM", "TABLE")]
    made = "STREAM" if sources[0][0] == "STREAM" else "TABLE"
    columns = ", ".join(f"AS_VALUE({topic}.V) AS {topic}V" for _, topic in sources)
    joins = [step for step in case["topology"] if "join" in step["op"]]
    key, clauses = _joins(group, joins, by_another="by another key" in case["name"])
    heads = "".join(
        f"CREATE {kind} {topic} (K STRING {'' if kind == 'STREAM' else 'PRIMARY '}KEY, V STRING) "
        f"WITH (KAFKA_TOPIC='{topic.lower()}', {FORMATS});"
        for kind, topic in sources
    )
    return f"{heads}CREATE {made} J WITH (VALUE_FORMAT='JSON') AS SELECT {key} AS K, {columns} FROM L {clauses};"


def _joins(group: str, joins: list[dict[str, Any]], *, by_another: bool) -> tuple[str, str]:
    """The key's column, and the clauses of joins."""
    if group == "foreign_key_joins":
        kind = "LEFT JOIN" if "left" in joins[0]["op"] else "JOIN"
        return "L.K", f"{kind} F ON {FOREIGN.format('L')} = F.K"
    clauses = []
    for step in joins:
        right = "R" if by_another else step["with"].upper()
        left_key, right_key = "L.K", f"{right}.K"
        if by_another:
            left_key = FOREIGN.format("L")
            right_key = FOREIGN.format("R") if group == "stream_stream_joins" else "R.K"
        clauses.append(f"{WORDS[step['op']]} {right} {_within(step)}ON {left_key} = {right_key}")
    if joins[-1]["op"] == "outer_join" or (by_another and group == "stream_stream_joins"):
        return "ROWKEY", " ".join(clauses)
    return ("R.K" if by_another else "L.K"), " ".join(clauses)


def _within(step: Mapping[str, Any]) -> str:
    if "windows" not in step:
        return ""
    window = step["windows"]
    grace = f"GRACE PERIOD {window['grace']} MILLISECONDS " if "grace" in window else ""
    return f"WITHIN ({window['before']} MILLISECONDS, {window['after']} MILLISECONDS) {grace}"


def answers_of(group: str, case: Mapping[str, Any]) -> list[list[object]]:
    """What the statements write, as the case's topology does: both values in a text, `null` for a side that is missing."""
    inputs = [{**each, "timestamp": each["ts"], "headers": ()} for each in case["inputs"]]
    made = []
    for each in run_case(statements(group, case), inputs):
        text = None
        if isinstance(each.value, dict):
            values = list(each.value.values())
            if len(values) == 3 and values[:2] == [None, None]:  # the first join has no row
                values = values[1:]
            text = "+".join("null" if value is None else str(value) for value in values)
        made.append([each.key, text, each.timestamp])
    return made


def expected(case: Mapping[str, Any], answer: Mapping[str, Any]) -> list[list[object]]:
    """Java's records, without the key that some of its joiners put in front."""
    rows = answer["outputs"].get("out", [])
    if any(step.get("fn") == "pair_key" for step in case["topology"]):
        rows = [[key, None if text is None else text.partition(":")[2], *more] for key, text, *more in rows]
    return [row[:3] for row in rows]


COUNTED = [
    pytest.param(case, answer, id=case["name"])
    for case, answer in read("foreign_key_joins")
    if case["name"].endswith("grouped and counted")
]


def counts_of(case: Mapping[str, Any]) -> list[list[object]]:
    """What a count of joined rows by the first letter of their key says."""
    kind = "LEFT JOIN" if "left" in case["name"] else "JOIN"
    text = "".join(
        f"CREATE TABLE {name} (K STRING PRIMARY KEY, V STRING) WITH (KAFKA_TOPIC='{name.lower()}', {FORMATS});"
        for name in "LF"
    ) + (
        "CREATE TABLE R WITH (VALUE_FORMAT='KAFKA') AS SELECT SUBSTRING(L.K, 1, 1) AS G, COUNT(*) AS C "
        f"FROM L {kind} F ON {FOREIGN.format('L')} = F.K GROUP BY SUBSTRING(L.K, 1, 1);"
    )
    inputs = [{**each, "timestamp": each["ts"]} for each in case["inputs"]]
    return [[each.key, each.value, each.timestamp] for each in run_case(text, inputs)]


@pytest.mark.parametrize(("case", "answer"), COUNTED)
def test_joined_rows_that_change_leave_their_group_as_in_java(case: dict[str, Any], answer: dict[str, Any]) -> None:
    rows = answer["outputs"]["out"]
    expected_rows = [[key, int.from_bytes(count.encode("latin-1"), "big"), time] for key, count, time in rows]
    assert counts_of(case) == expected_rows


@pytest.mark.parametrize(("group", "case", "answer"), CASES)
def test_joins_say_what_java_says(group: str, case: dict[str, Any], answer: dict[str, Any]) -> None:
    assert answers_of(group, case) == expected(case, answer)


@pytest.mark.peer
@pytest.mark.slow  # asks Java's TopologyTestDriver; with `make compat`
@pytest.mark.parametrize("group", NAMES)
def test_joins_say_what_java_says_of_inputs_that_are_in_no_golden(group: str) -> None:
    given = [case for case in cases(group, seeds=3, first=300, count=120) if case["name"] in NAMES[group]]
    for case, answer in zip(given, streams.answers(given), strict=True):
        assert answers_of(group, case) == expected(case, answer), (case["name"], case["seed"])


def test_every_kind_of_join_has_a_case() -> None:
    assert len(CASES) == sum(map(len, NAMES.values())) == 41
