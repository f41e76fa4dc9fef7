"""A worker's side of a task, in memory: what the task asks, and what its records leave behind."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ottla.connect import SourceColumns, SourceRecord, SourceTask

__all__ = ["SinkContext", "SourceContext", "Store", "polled", "started", "until"]

WAIT_S = 30.0


class Store:
    """Source offsets, as a worker keeps them: through JSON."""

    def __init__(self) -> None:
        self.offsets: dict[str, str] = {}

    def put(self, partition: Mapping[str, Any], offset: Mapping[str, Any]) -> None:
        self.offsets[json.dumps(partition, sort_keys=True)] = json.dumps(offset)

    def get(self, partition: Mapping[str, Any]) -> Mapping[str, Any]:
        found = self.offsets.get(json.dumps(partition, sort_keys=True))
        return {} if found is None else json.loads(found)

    def take(self, records: Sequence[SourceRecord]) -> None:
        for each in records:
            if each.source_offset is not None:  # of a column's rows only the last has one
                self.put(each.source_partition, each.source_offset)


class SourceContext:
    """What a source task may ask."""

    transaction = None
    takes_columns = True

    def __init__(self, store: Store, configs: Mapping[str, str]) -> None:
        self.store, self.configs = store, configs

    def offset(self, partition: Mapping[str, Any]) -> Mapping[str, Any]:
        return self.store.get(partition)


class SinkContext:
    """What a sink task may ask; none of ours asks for more than its configuration."""

    def __init__(self, configs: Mapping[str, str]) -> None:
        self.configs = configs


def started(task: Any, props: Mapping[str, str], store: Store | None = None) -> Any:
    """Return a source task that has begun, on a store of offsets."""
    task.context = SourceContext(store or Store(), props)
    task.start(props)
    return task


def polled(task: SourceTask) -> list[SourceRecord]:
    """Return what one poll has found, columns as records."""
    found = task.poll()
    if found is None:
        return []
    if isinstance(found, SourceColumns):
        return found.records()
    return [row for each in found for row in (each.records() if isinstance(each, SourceColumns) else [each])]


def until(task: SourceTask, enough: Callable[[list[SourceRecord]], bool], store: Store | None = None) -> Any:
    """Poll until there is enough; returns all records, whose offsets are stored as they come."""
    records: list[SourceRecord] = []
    deadline = time.monotonic() + WAIT_S
    while not enough(records):
        assert time.monotonic() < deadline, f"only {len(records)} records in {WAIT_S:g} s: {records[-3:]}"
        found = polled(task)
        if store is not None:
            store.take(found)
        records += found
    return records
