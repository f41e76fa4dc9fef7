"""Every failure at every step of a task loses no row, and sends none twice where once was promised: Ottla's connectors.

Faults that a task had, put back, are found.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from ottla.connect import SinkConnector, SinkTask, SourceConnector, SourceRecord, SourceTask
from ottla.connect.testing import Position, Scenario, SinkContract, SourceContract, Trouble
from ottla.connectors.files import (
    FileStreamSinkConnector,
    FileStreamSourceConnector,
    stream_source,
)
from ottla.spark import run_on_model
from tests.connect.contract.mutations import MUTATIONS, Mutation

ROWS = [f"row {number}" for number in range(4)]
PARTITION = {"of": "rows"}


class RowsTask(SourceTask):
    """Rows one by one, in polls of two, each with an offset of its own."""

    def start(self, props: Mapping[str, str]) -> None:
        self.next = int(self.context.offset(PARTITION).get("next", 0))

    def poll(self) -> Any:
        first, self.next = self.next, min(self.next + 2, len(ROWS))
        return [
            SourceRecord(topic="rows", value=ROWS[at], source_partition=PARTITION, source_offset={"next": at + 1})
            for at in range(first, self.next)
        ] or None


class RowsConnector(SourceConnector):
    task_class = RowsTask


class LinesTask(SinkTask):
    """Appends values to a file, one by one."""

    def start(self, props: Mapping[str, str]) -> None:
        self.path = Path(props["path"])

    def put(self, records: Any) -> None:
        with self.path.open("a") as file:
            file.writelines(f"{each.value}\n" for each in records)


class LinesConnector(SinkConnector):
    task_class = LinesTask


class MarkingTask(RowsTask):
    """Ends a transaction behind the third row, in the midst of what it polls, and behind everything."""

    def poll(self) -> Any:
        found, transaction = super().poll(), self.context.transaction
        if transaction is None:
            return found
        for each in found or ():
            if each.source_offset["next"] in (3, len(ROWS)):
                transaction.commit(each)
        return found


class MarkingConnector(SourceConnector):
    task_class = MarkingTask

    def can_define_transaction_boundaries(self, props: Mapping[str, str]) -> bool:
        return True


def bounded(boundary: str) -> dict[str, str]:
    return {"transaction.boundary": boundary, "transaction.boundary.interval.ms": "6"}


def a_file(folder: Path) -> dict[str, str]:
    (folder / "rows.txt").write_text("".join(f"{each}\n" for each in ROWS))
    return {"file": str(folder / "rows.txt"), "topic": "rows", "batch.size": "2"}


def lines(folder: Path) -> list[str]:
    path = folder / "out.txt"
    return path.read_text().splitlines() if path.exists() else []


SOURCES = {
    "records": SourceContract(RowsConnector, lambda folder: {}, ROWS, run_on_model, all_in_folder=True),
    "file": SourceContract(FileStreamSourceConnector, a_file, ROWS, run_on_model, all_in_folder=True),
}
BOUNDED = {
    "interval": SourceContract(
        RowsConnector,
        lambda folder: bounded("interval"),
        ROWS,
        run_on_model,
        all_in_folder=True,
    ),
    "interval-file": SourceContract(
        FileStreamSourceConnector,
        lambda folder: {**a_file(folder), **bounded("interval")},
        ROWS,
        run_on_model,
        all_in_folder=True,
    ),
    "connector": SourceContract(
        MarkingConnector,
        lambda folder: bounded("connector"),
        ROWS,
        run_on_model,
        all_in_folder=True,
    ),
}
BOUNDED_SCENARIOS = [
    Scenario(Trouble.PLAIN, exactly_once=True),
    Scenario(Trouble.REFUSED, Position.MIDDLE, exactly_once=True),
    Scenario(Trouble.FILTERED, Position.LAST, exactly_once=True),
]
SINKS = {
    "records": SinkContract(
        LinesConnector,
        lambda folder: {"path": str(folder / "out.txt")},
        ROWS,
        run_on_model,
        read=lines,
        all_in_folder=True,
    ),
    "file": SinkContract(
        FileStreamSinkConnector,
        lambda folder: {"file": str(folder / "out.txt")},
        ROWS,
        run_on_model,
        read=lines,
        all_in_folder=True,
    ),
}
CASES = [
    (f"{kind}-{name}-{scenario}", contract, scenario)
    for kind, contracts in (("source", SOURCES), ("sink", SINKS))
    for name, contract in contracts.items()
    for scenario in contract.scenarios()
] + [
    (f"boundary-{name}-{scenario}", contract, scenario)
    for name, contract in BOUNDED.items()
    for scenario in BOUNDED_SCENARIOS
]
SAMPLE = 5
"""Of so many cases one is run in `make test`, where the files' connectors go the same way; all in `make chaos-connect`."""
SAMPLE_OF_FILES = 2
"""Of those connectors."""
FILES = ("source-file", "sink-file")
PARAMETERS = [
    pytest.param(contract, scenario, SAMPLE_OF_FILES if name.startswith(FILES) else SAMPLE, id=name)
    for name, contract, scenario in CASES
] + [
    pytest.param(contract, scenario, 1, id=f"{name}-every-case", marks=pytest.mark.slow)
    for name, contract, scenario in CASES
]


@pytest.fixture(autouse=True)
def quiet_file_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nor are stacks written that nobody reads: tasks fail by intent, thousands of times."""
    monkeypatch.setattr(stream_source, "WAIT_S", 0.0)
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize(("contract", "scenario", "every"), PARAMETERS)
def test_nothing_is_lost_or_doubled_whatever_fails(
    contract: SourceContract | SinkContract, scenario: Scenario, every: int, tmp_path: Path
) -> None:
    violations = contract.run(scenario, tmp_path, every=every)
    assert not violations, f"{len(violations)} cases:\n" + "\n".join(str(each) for each in violations[:20])


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name.replace(" ", "-"))
def test_a_fault_that_was_there_is_found_when_it_is_put_back(mutation: Mutation, tmp_path: Path) -> None:
    contract = SOURCES["file"] if mutation.contract == "source" else SINKS["file"]
    assert contract.run_one(mutation.scenario, mutation.injected, tmp_path / "as it is") == []
    with mutation.made():
        assert contract.run_one(mutation.scenario, mutation.injected, tmp_path / "put back")
