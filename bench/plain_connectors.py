"""Two connectors as a user writes them, record by record, for `bench.connect`; workers find them by `plugin.path`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from ottla.config import ConfigType
from ottla.connect import (
    ConfigDef,
    Importance,
    SinkConnector,
    SinkRecord,
    SinkTask,
    SourceConnector,
    SourceRecord,
    SourceTask,
    data,
)

__all__ = ["PlainSinkConnector", "PlainSourceConnector"]

POLL_RECORDS = 2_000
TEXT = "x" * 86


class _SourceTask(SourceTask):
    """Returns numbered texts of 99 bytes until there are as many as wanted."""

    def start(self, props: Mapping[str, str]) -> None:
        self.topic, self.records = props["topic"], int(props["records"])
        self.place = {"source": "plain"}
        self.position = int(self.context.offset(self.place).get("position", 0))

    def poll(self) -> list[SourceRecord] | None:
        first = self.position
        self.position = min(first + POLL_RECORDS, self.records)
        found = [self.record(number) for number in range(first, self.position)]
        return found or None

    def record(self, number: int) -> SourceRecord:
        return SourceRecord(
            topic=self.topic,
            value_schema=data.STRING,
            value=f"{number:012d} {TEXT}",
            source_partition=self.place,
            source_offset={"position": number + 1},
        )


class PlainSourceConnector(SourceConnector):
    """A source of texts."""

    task_class = _SourceTask
    config_def = (
        ConfigDef()
        .define("topic", ConfigType.STRING, importance=Importance.HIGH, doc="The topic to write to.")
        .define("records", ConfigType.INT, importance=Importance.HIGH, doc="How many records there are.")
    )


class _SinkTask(SinkTask):
    """Looks at each record's value, and keeps in a file how many bytes there were."""

    def start(self, props: Mapping[str, str]) -> None:
        self.path, self.size = Path(props["file"]), 0

    def put(self, records: Sequence[SinkRecord]) -> None:
        for each in records:
            self.size += len(each.value)
        if records:
            self.path.write_text(str(self.size))


class PlainSinkConnector(SinkConnector):
    """A sink that counts."""

    task_class = _SinkTask
    config_def = ConfigDef().define(
        "file", ConfigType.STRING, importance=Importance.HIGH, doc="The file that says how many bytes came."
    )
