"""What our engine makes of a case, and whether it is what Java made of it.

Record by record and without cache the two are the same: each topic's records in order (internal topics too, byte by
byte), the latest value of each key in the changelogs, how many records were dropped, and the plan's description. In batches
and with cache the final value of each key is the same.
"""

from __future__ import annotations

from typing import Any

from ottla.streams import Topology
from ottla.streams.engine.executor import ProcessingError
from ottla.streams.engine.interface import Record
from ottla.streams.serdes.choice import serde_of
from tests.streams.java.driver import APPLICATION, Driver
from tests.streams.java.plans import build

__all__ = ["differences", "final_differences"]

Case = dict[str, Any]
_ZERO = "\0" * 8
"""A count or a sum of a group that has come and gone: within a batch nobody hears of it."""
_WINDOWED = ("window", "timestamped_window", "session")


def differences(case: Case, answer: dict[str, Any], *, resident: str | None = None) -> list[str]:
    """Return how our results, record by record, are not Java's; empty where they are. `resident` as in `Driver`."""
    topology = build(case["topology"])
    found = []
    if "topic_by_key" not in str(case["topology"]) and topology.describe() != answer.get(
        "describe", topology.describe()
    ):
        found.append("the descriptions differ")
    driver, error = _run(case, topology, batch=1, cache=False, resident=resident)
    if (error is None) != ("error" not in answer):
        found.append(f"Java said {answer.get('error')!r}, we said {error!r}")
    expected = {topic: rows for topic, rows in answer["outputs"].items() if not topic.endswith("-changelog")}
    for topic in sorted({*expected, *driver.outputs}):
        found += _first_difference(topic, expected.get(topic, []), driver.outputs.get(topic, []))
    found += _changelog_differences(topology, _latest(answer["outputs"], "-changelog"), driver.changelogs)
    if answer["dropped"] != driver.dropped and "memory" not in str(case["topology"]):  # Kafka's count for these differs
        found.append(f"Java dropped {answer['dropped']}, we dropped {driver.dropped}")
    return found


def final_differences(case: Case, answer: dict[str, Any], *, batch: int) -> list[str]:
    """Return which keys' last values are not Java's, with caches, batches of `batch`, and state read back in between."""
    topology = build(case["topology"])
    driver, _ = _run(case, topology, batch=batch, cache=True)
    internal = (f"{APPLICATION}-",)
    expected = {topic: rows for topic, rows in answer["outputs"].items() if not topic.startswith(internal)}
    ours = {topic: rows for topic, rows in driver.outputs.items() if not topic.startswith(internal)}
    found = []
    for topic, rows in _latest(expected, "").items():
        mine = _latest(ours, "").get(topic, {})
        wrong = [key for key in {*rows, *mine} if rows.get(key) != mine.get(key)]
        wrong = sorted(str(key) for key in wrong if key in mine or rows[key] != _ZERO)
        if wrong:
            found.append(f"{topic}: {[(key, rows.get(key), mine.get(key)) for key in wrong[:3]]}")
    return found


def _run(
    case: Case, topology: Topology, *, batch: int, cache: bool, resident: str | None = None
) -> tuple[Driver, Exception | None]:
    serdes = _input_serdes(case["topology"])
    driver = Driver(topology, cache=cache, settle=batch > 1, resident=resident)
    try:
        for number, given in enumerate(case["inputs"], 1):
            if "advance" in given:
                driver.advance(given["advance"])
            else:
                key, value = serdes[given["topic"]]
                headers = tuple((name, text.encode()) for name, text in given.get("headers", {}).items())
                data = key.serialize(given["key"]), value.serialize(given["value"])
                driver.pipe(Record(*data, given["ts"], headers, given["topic"]))
            if number % batch == 0:
                driver.finish()
        driver.finish()
    except ProcessingError as error:
        return driver, error
    return driver, None


def _input_serdes(steps: list[dict[str, Any]]) -> dict[str, tuple[Any, Any]]:
    found = {}
    for step in steps:
        if "topic" in step and step["op"] != "to":
            for topic in step.get("topics", [step["topic"]]):
                found[topic] = serde_of(step["key"], topic), serde_of(step["value"], topic)
    return found


def _first_difference(topic: str, java: list[Any], ours: list[Any]) -> list[str]:
    if java == ours:
        return []
    at = next(
        (each for each in range(min(len(java), len(ours))) if java[each] != ours[each]), min(len(java), len(ours))
    )
    return [
        f"{topic}: {len(java)} from Java, {len(ours)} from us; at {at}: {java[at : at + 2]}, we: {ours[at : at + 2]}"
    ]


def _latest(outputs: dict[str, list[Any]], ending: str) -> dict[str, dict[Any, Any]]:
    """Return the last value of each key by topic."""
    return {topic: {row[0]: row[1] for row in rows} for topic, rows in outputs.items() if topic.endswith(ending)}


def _without_tombstones(rows: dict[Any, Any]) -> dict[Any, Any]:
    return {key: value for key, value in rows.items() if value is not None}


def _changelog_differences(topology: Topology, java: dict[str, Any], ours: dict[str, Any]) -> list[str]:
    """Compare changelogs, whose windowed stores need not be the same in two points.

    Kafka logs rows that expired before they were put, and numbers records of one key and time otherwise.
    """
    found = []
    for spec in topology.stores.values():
        name = f"{APPLICATION}-{spec.name}-changelog"
        theirs, mine = (_without_tombstones(each.get(name, {})) for each in (java, ours))
        if spec.retain_duplicates:
            theirs, mine = ({(key[:-4], value): 1 for key, value in rows.items()} for rows in (theirs, mine))
        if spec.kind in _WINDOWED:
            theirs = {key: value for key, value in theirs.items() if key in mine}
        wrong = sorted(str(key) for key in {*theirs, *mine} if theirs.get(key) != mine.get(key))
        if wrong:
            found.append(f"{name}: {len(wrong)} keys differ: {wrong[:3]}")
    return found
